"""XLA: JAX and TensorFlow fusions: ``{loop|input|wrapped|gemm|...}_{ops}_fusion[_n]`` and ``wrapped_{op}``.

``loop`` is pointwise, ``input`` is rooted in a reduction, transpose or scatter, ``wrapped`` holds one instruction,
``gemm_fusion`` is a Triton product. ``fusion_n`` alone says nothing about its work.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.symbols import Symbol

_INDEX = re.compile(r"(?:_\d+)+$")
_MOVES = frozenset(
    {
        "copy",
        "transpose",
        "slice",
        "concatenate",
        "broadcast",
        "pad",
        "reverse",
        "bitcast",
        "reshape",
        "dynamic",
        "update",
        "iota",
    }
)
_DROPPED = re.compile(r"_(?:kernel|fusion|computation)$")


def _read(match: re.Match[str], symbol: Symbol) -> Attributes:
    kind = match["kind"]
    ops = _DROPPED.sub("", _INDEX.sub("", match["ops"])).strip("_")
    words = [w for w in ops.split("_") if w and w != "fusion"]
    out: Attributes = {"fused_ops": "_".join(words) or None, "op": "fused_pointwise"}
    joined = "_".join(words)
    if kind == "gemm" or "dot" in words or "gemm" in words:
        out.update(family="gemm", op="gemm_fusion")
    elif "convolution" in words:
        out.update(family="conv", op="conv_fwd")
    elif "softmax" in joined or kind == "softmax":
        out.update(family="softmax", op="fused_softmax")
    elif "scatter" in words or "gather" in words:
        out.update(family="gather_scatter", op="fused_gather")
    elif (
        "reduce" in words
        or "argmax" in words
        or (
            kind == "input"
            and not set(words) & {"transpose", "slice", "concatenate", "copy", "scatter"}
            and words
        )
    ):
        out.update(family="reduction", op="fused_reduction")
    elif "sort" in words:
        out.update(family="sort", op="sort")
    elif "rng" in words or "threefry2x32" in joined or "threefry" in joined:
        out.update(family="rng", op="distribution")
    elif words and all(w in _MOVES for w in words):
        out.update(family="copy", op="fused_copy")
    else:
        out["family"] = "elementwise" if words or kind in ("loop", "wrapped") else "other"
        if out["family"] == "other":
            out["op"] = "fusion"
    return out


GRAMMAR = Grammar(
    library="xla",
    title="XLA fusions of JAX and TensorFlow",
    source="openxla/xla, xla/service/gpu: fusion kinds (kLoop, kInput, triton_gemm) and fusion wrapper names",
    gate=r"_fusion(?:_|$|\d)|^fusion(?:_|$)|^wrapped_|^gemm_fusion|^(?:loop|input)_\w+_fusion|^copy_fusion|^triton_(?:gemm|softmax)_|^RedzoneAllocator|^redzone_checker",
    rules=(
        Rule(r"triton_(?P<kind>gemm|softmax)_(?P<ops>\w*)", "gemm", sign=_read),
        Rule(r"(?P<kind>gemm)_fusion(?P<ops>\w*)", "gemm", "gemm_fusion", sign=_read),
        Rule(r"(?P<kind>loop|input|wrapped|transpose|command_buffer)_(?P<ops>\w+)", "elementwise", sign=_read),
        Rule(r"(?P<kind>)(?P<ops>\w*?_?fusion\w*)", "other", sign=_read),
        Rule(r"\w*[Rr]edzone\w*", "other", "runtime"),
    ),
    tokens=(
        Token(r"loop", "pointwise fusion"),
        Token(r"input", "fusion rooted in a reduction, transpose or scatter"),
        Token(r"wrapped", "one instruction alone"),
        Token(r"gemm", "matrix product"),
        Token(r"fusion", "fused by the compiler; the operators stand before it"),
        Token(r"reduce|dot|transpose|broadcast|convert|select|add|multiply", "fused operator"),
    ),
    examples={"input_reduce_fusion_4": "reduction", "loop_add_multiply_fusion_2": "elementwise", "gemm_fusion_dot_12": "gemm", "wrapped_transpose_3": "copy"},
    rank=24,
)  # fmt: skip
