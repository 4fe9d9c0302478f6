"""TorchInductor: ``triton_{poi|red|per|tem|for|split_scan}_fused_{sorted ops}_{n}``.

``poi`` pointwise, ``red`` looped reduction, ``per`` persistent reduction (the row fits a block), ``tem`` template (product,
attention), ``for`` many tensors. The operators are a sorted set, often cut short; ``n`` is a compile index and names nothing.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.symbols import Symbol

_INDEX = re.compile(r"_\d+$")
_HASH = re.compile(r"_[0-9a-f]{8,}$")
_MOVES = frozenset({"cat", "clone", "permute", "transpose", "view", "slice", "split", "unsqueeze", "squeeze", "expand", "copy", "constant", "pad", "nd", "to", "repeat", "stack", "unbind", "select", "t", "as", "strided", "contiguous", "unsafe", "lift", "fresh", "scatter", "empty", "full", "fill", "zeros", "ones", "like", "new", "chunk", "narrow", "flip", "roll", "reshape", "alias", "detach"})  # fmt: skip


def _ops(text: str) -> str:
    return _HASH.sub("", _INDEX.sub("", text)).strip("_")


def _read(match: re.Match[str], symbol: Symbol) -> Attributes:
    ops = _ops(match["ops"])
    kind = match["kind"]
    low = f"_{ops}_"
    out: Attributes = {"fused_ops": ops or None}
    if kind == "tem":
        attention = "attention" in low or "flex" in low
        conv = "convolution" in low
        out.update(
            family="attention" if attention else "conv" if conv else "gemm",
            op="flex_attention" if attention else "conv_fwd" if conv else "template",
        )
    elif kind in ("red", "per", "mix"):
        norm = re.search(r"_norm|rms_norm|var_mean|native_batch", low)
        softmax = "softmax" in low
        out.update(
            family="norm" if norm else "softmax" if softmax else "reduction",
            op="fused_norm" if norm else "fused_softmax" if softmax else "fused_reduction",
        )
    elif kind == "split_scan" or "cumsum" in low or "cumprod" in low or "_scan_" in low:
        out.update(family="scan", op="fused_scan")
    elif kind == "for":
        out.update(family="optimizer", op="fused_foreach")
    else:
        words = [w for w in ops.split("_") if w]
        moves = bool(words) and all(w in _MOVES for w in words)
        out.update(family="copy" if moves else "elementwise", op="fused_copy" if moves else "fused_pointwise")
    return out


GRAMMAR = Grammar(
    library="inductor",
    title="TorchInductor: Triton kernels compiled from fused PyTorch operators",
    source="pytorch/pytorch, torch/_inductor/codegen/triton.py (kernel prefixes) and scheduler.py (fused names); config.triton.descriptive_names",
    gate=r"^triton_(?:poi|red|per|tem|for|mix|split_scan|unk)|^cpp_fused|^multi_kernel_",
    rules=(
        Rule(r"triton_(?P<kind>poi|red|per|tem|for|mix|split_scan|unk)_fused(?P<ops>\w*)", "elementwise", sign=_read),
        Rule(r"triton_(?P<kind>poi|red|per|tem|for|mix|split_scan|unk)_(?P<ops>\w*)", "elementwise", sign=_read),
        Rule(r"multi_kernel_\d+(?P<ops>)(?P<kind>)", "reduction", "fused_reduction"),
    ),
    tokens=(
        Token(r"triton", "compiled by Triton"),
        Token(r"poi", "pointwise"),
        Token(r"red", "reduction that loops over its row"),
        Token(r"per", "reduction whose row fits one block"),
        Token(r"tem", "template: matrix product, convolution or attention"),
        Token(r"for", "many tensors in one launch"),
        Token(r"fused", "the fused operators follow, sorted"),
    ),
    examples={
        "triton_poi_fused_add_mul_tanh_7": "elementwise",
        "triton_per_fused_add_native_layer_norm_native_layer_norm_backward_12": "norm",
        "triton_tem_fused_addmm_3": "gemm",
    },
    rank=4,
)  # fmt: skip
