"""nvFuser: ``nvfuser_{scheduler}_f{fusion}_c{concrete}_r{runtime}_g{group}``; the scheduler says how the fused operators are laid out.

``inner_persistent`` and ``outer_persistent`` keep a row on chip between its statistics and its results: normalizations and softmax.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.symbols import Symbol

_SCHEDULERS = {
    "pointwise": ("elementwise", "fused_pointwise"), "transpose": ("copy", "fused_copy"), "matmul": ("gemm", "template"),
    "reduction": ("reduction", "fused_reduction"), "inner_persistent": ("norm", "fused_norm"),
    "outer_persistent": ("norm", "fused_norm"), "inner_outer_persistent": ("norm", "fused_norm"),
    "resize": ("copy", "fused_copy"), "no_op": ("other", "runtime"),
}  # fmt: skip


def _read(match: re.Match[str], symbol: Symbol) -> Attributes:
    family, op = _SCHEDULERS.get(match["kind"], ("elementwise", "fused_pointwise"))
    return {"family": family, "op": op}


GRAMMAR = Grammar(
    library="nvfuser",
    title="nvFuser: kernels compiled from fused operators",
    source="NVIDIA/Fuser, csrc/runtime (kernel names) and csrc/scheduler (kinds)",
    gate=r"^nvfuser_",
    rules=(Rule(r"nvfuser_(?P<kind>[a-z_]{1,40}?)(?:_f\d|$)", "elementwise", sign=_read),),
    tokens=(
        Token(r"pointwise|transpose|reduction|matmul|persistent", "scheduler: how the fused operators are laid out"),
        Token(r"inner|outer", "side of the reduced axes"),
        Token(r"f\d+|c\d+|r\d+|g\d+", "fusion, concretization, run, group: compile indices that name nothing"),
    ),
    examples={"nvfuser_inner_persistent_f3_c1_r0_g0": "norm", "nvfuser_pointwise_f0_c1_r0_g2": "elementwise"},
    rank=9,
)  # fmt: skip
