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
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "add": ("add",),
    "sub": ("sub",),
    "mul": ("mul", "mulscalar"),
    "div": ("div",),
    "neg": ("neg",),
    "abs": ("abs",),
    "maximum": ("maximum", "minimum"),
    "compare": ("compare", "compareeq", "eq", "ne", "ge", "gt", "le", "lt"),
    "where": ("where",),
    "relu": ("relu",),
    "relu_backward": ("thresholdbackward", "threshold"),
    "leaky_relu": ("leakyrelu",),
    "clamp": ("clamp",),
    "exp": ("exp",),
    "log": ("log",),
    "sqrt": ("sqrt",),
    "rsqrt": ("rsqrt",),
    "reciprocal": ("reciprocal",),
    "tanh": ("tanh",),
    "tanh_backward": ("tanhbackward",),
    "sigmoid": ("sigmoid",),
    "sigmoid_backward": ("sigmoidbackward",),
    "silu": ("silu", "swiglu"),
    "silu_backward": ("silubackward",),
    "gelu": ("gelu", "geglu"),
    "gelu_backward": ("gelubackward",),
    "sin": ("sin",),
    "cos": ("cos",),
    "erf": ("erf",),
    "mish": ("mish",),
    "hardswish": ("hardswish",),
}
#: Parts of names that are one word.
_JOINED: Final = {"_backward": "backward", "leaky_relu": "leakyrelu"}
#: The operation of each word, and its place among those a kernel fuses.
_OPERATIONS: Final = pl.DataFrame(
    [(word, place, operation) for place, operation in enumerate(_WORDS) for word in _WORDS[operation]],
    schema={"word": pl.String, "place": pl.Int64, "operation": pl.String},
    orient="row",
)
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
    family, direction = pl.col("family"), pl.col("direction").fill_null("fwd")
    elementwise = frame.select((family == names.ELEMENTWISE).fill_null(value=False)).to_series().arg_true()
    norm = frame.select(((family == names.NORM) & (direction != "bwd")).fill_null(value=False))
    norms = norm.to_series().arg_true()
    computes = pl.Series("computes", [None], dtype=pl.String).new_from_index(0, frame.height)
    if elementwise.len():
        computes = computes.scatter(elementwise, _fused(frame[elementwise]))
    if norms.len():
        computes = computes.scatter(norms, _norms(frame[norms]))
    return frame.with_columns(computes.alias("computes"))


def _fused(elementwise: pl.DataFrame) -> pl.Series:
    """Return the operations that the names of elementwise kernels state."""
    op = pl.col("op").fill_null("")
    text = pl.when(op.is_in(_IN_NAME)).then(pl.col("name")).otherwise(op).str.to_lowercase()
    for parts, word in _JOINED.items():
        text = text.str.replace_all(parts, word, literal=True)
    words = elementwise.select(word=text.str.extract_all("[a-z]+")).with_row_index("row").explode("word")
    said = (
        words.join(_OPERATIONS, on="word").select("row", "place", "operation").unique().sort("row", "place")
    )
    fused = said.group_by("row", maintain_order=True).agg(pl.col("operation").str.join(AND))
    computes = pl.Series([None], dtype=pl.String).new_from_index(0, elementwise.height)
    return computes.scatter(fused["row"], fused["operation"])


def _norms(norms: pl.DataFrame) -> pl.Series:
    """Return which norm the names of kernels state."""
    norm = pl.lit(None, dtype=pl.String)
    for pattern, operation in reversed(_NORMS):
        norm = pl.when(pl.col("name").str.contains(pattern)).then(pl.lit(operation)).otherwise(norm)
    return norms.select(norm.alias("computes")).to_series()
