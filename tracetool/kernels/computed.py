"""Operations of elementwise kernels and norms, as far as their names state them.

PyTorch's kernels name their functor (``GeluCUDAKernelImpl``), compiled ones the operators they fuse
(``triton_poi_fused_gelu_mul_3``), serving kernels both in one word (``silu_and_mul``). What each operation costs:
:mod:`tracetool.families.operations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from tracetool.families import names
from tracetool.families.operations import AND

#: Operation and the words that say so, each between letters of other words; ``backward`` is part of the word.
_WORDS: Final[Mapping[str, str]] = {
    "add": "add",
    "sub": "sub",
    "mul": "mul(?:scalar)?",
    "div": "div",
    "neg": "neg",
    "abs": "abs",
    "maximum": "maximum|minimum",
    "compare": "compare(?:eq)?|eq|ne|ge|gt|le|lt",
    "where": "where",
    "relu": "relu",
    "relu_backward": "thresholdbackward|threshold",
    "leaky_relu": "leakyrelu|leaky_relu",
    "clamp": "clamp",
    "exp": "exp",
    "log": "log|log1p",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "tanh": "tanh",
    "tanh_backward": "tanhbackward",
    "sigmoid": "sigmoid",
    "sigmoid_backward": "sigmoidbackward",
    "silu": "silu|swiglu",
    "silu_backward": "silubackward",
    "gelu": "gelu|geglu",
    "gelu_backward": "gelubackward",
    "sin": "sin",
    "cos": "cos",
    "erf": "erf",
    "mish": "mish",
    "hardswish": "hardswish",
}
#: Operators of kernels that name none themselves: what they compute stands in the whole name.
_IN_NAME: Final = ("fused_pointwise", "gated_act")
#: Norms by the kernel's name; the first that occurs in it holds.
_NORMS: Final = (
    (r"vectorized_layer_norm_kernel<[^<>]*true", "rms_norm"),
    (r"(?i)rms_?norm", "rms_norm"),
    (r"(?i)layer_?norm", "layer_norm"),
)


def computed(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the operations of elementwise kernels and norms per element, null where names do not state them.

    Parameters
    ----------
    frame : DataFrame
        Signatures with ``name``, ``family``, ``op``, ``direction``.

    Returns
    -------
    DataFrame
        With ``computes``: operations, joined by a plus sign where a kernel fuses several.
    """
    op = pl.col("op").fill_null("")
    source_text = pl.when(op.is_in(_IN_NAME)).then(pl.col("name")).otherwise(op)
    text = source_text.str.to_lowercase().str.replace_all("_backward", "backward", literal=True)
    operations = [
        pl.when(text.str.contains(rf"(?:^|[^a-z])(?:{words})(?:$|[^a-z])")).then(pl.lit(operation))
        for operation, words in _WORDS.items()
    ]
    fused = pl.concat_str(operations, separator=AND, ignore_nulls=True)
    norm = pl.lit(None, dtype=pl.String)
    for pattern, operation in reversed(_NORMS):
        norm = pl.when(pl.col("name").str.contains(pattern)).then(pl.lit(operation)).otherwise(norm)
    computes = (
        pl.when(pl.col("family") == names.ELEMENTWISE)
        .then(pl.when(fused != "").then(fused))
        .when((pl.col("family") == names.NORM) & (pl.col("direction").fill_null("fwd") != "bwd"))
        .then(norm)
    )
    return frame.with_columns(computes.alias("computes"))
