"""A model's operators against what torch counts of the same configuration: weights and products of a pass."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from tracetool.families import names
from tracetool.forecast.config import fields_of_source, read_model
from tracetool.forecast.meta_trace import MetaTrace, traced_model, traced_transformer
from tracetool.forecast.model import Forward, Parallel
from tracetool.forecast.operator_rows import Row
from tracetool.forecast.vision import VisionModel

#: Sequences of the pass that is traced, and tokens of each: enough that no product is a vector's.
_BATCH: Final = 2
_LENGTH: Final = 256
#: Difference that is none: libraries keep buffers and biases of their own. [1]
TOLERANCE: Final = 0.02
#: Layers whose recurrences torch computes by products that fused kernels do not have.
_RECURRENT: Final = frozenset({"mamba2", "gdn"})
_EXPERTS = "products of experts"


@dataclass(frozen=True)
class Checked:
    """Comparison: one row a quantity, and the quantities that could not be compared."""

    frame: pl.DataFrame
    library: str
    notes: tuple[str, ...] = ()
    tolerance: float = TOLERANCE

    @property
    def worst(self) -> tuple[str, float]:
        """The quantity that differs most, and by how much. [1]"""
        rows = self.frame.sort(pl.col("difference").abs(), descending=True).to_dicts()
        return str(rows[0]["quantity"]), float(rows[0]["difference"])


def check_model(source: str | os.PathLike[str] | Mapping[str, Any]) -> Checked:
    """Compare a model's weights and products with those torch counts on its meta device.

    Parameters
    ----------
    source : path or mapping
        A model, as :func:`tracetool.forecast.config.read_model`.

    Returns
    -------
    Checked
        ``quantity``, ``unit``, ``forecast``, ``torch`` and ``difference`` (relative).

    Raises
    ------
    MissingPart
        If torch, transformers or diffusers is not installed.
    BadInput
        If the model cannot be read, or the library knows no such architecture.

    Notes
    -----
    A pass takes in two sequences of 256 tokens, or two pictures. Attention is compared as if nothing were
    masked: torch's eager attention computes what masks and windows hide. Routing is not known
    without weights, so experts are compared by their weights and the tokens each gets.
    """
    model = read_model(source)
    name, fields = fields_of_source(source)
    compared: list[tuple[str, str, float, float]]
    if model.kind == "diffusion":
        trace = traced_transformer(fields.get("transformer", fields), name)
        note = "the passes of a pipeline are not traced: its weights are compared alone"
        return _checked(
            trace, [("weights of the transformer", "1", model.parameters, trace.parameters)], note
        )
    side = model.side if isinstance(model, VisionModel) else 0
    trace = traced_model(fields, name, model.kind, _BATCH, _LENGTH, side)
    tokens = float(_LENGTH)
    rows = model.operators(Forward(0, 0, _BATCH, tokens, tokens), Parallel())
    ours = _Sums.of(row for row in rows if not str(row["module"]).startswith("sampler"))
    compared = [
        ("weights", "1", model.parameters, trace.parameters),
    ]
    recurrent = any(row["op"] in _RECURRENT for row in rows)
    products = trace.product_flops + (0.0 if recurrent else trace.convolution_flops)
    compared.append(("products with weights", "FLOP", ours.products, products))
    if ours.experts:
        chosen = next(row for row in rows if row["op"] == names.MOE)
        share = tokens * _BATCH * float(chosen["top_k"]) / float(chosen["experts"])
        compared.append((_EXPERTS, "FLOP", ours.experts, 2.0 * share * trace.expert_weights))
    if not recurrent and ours.attention:
        compared.append(("attention, nothing masked", "FLOP", ours.attention, trace.attention_flops))
    note = (
        "recurrences and their convolutions are not compared: torch computes them otherwise"
        if recurrent
        else ""
    )
    return _checked(trace, compared, note)


def _checked(trace: MetaTrace, compared: Sequence[tuple[str, str, float, float]], note: str) -> Checked:
    records = [
        {"quantity": what, "unit": unit, "forecast": ours, "torch": theirs, "difference": ours / theirs - 1.0}
        for what, unit, ours, theirs in compared
        if theirs and not math.isnan(theirs)
    ]
    return Checked(pl.DataFrame(records), trace.library, (note,) if note else ())


@dataclass(frozen=True)
class _Sums:
    """Operations of rows by kind. [FLOP]"""

    products: float
    experts: float
    attention: float

    @classmethod
    def of(cls, rows: Any) -> _Sums:
        sums = {"products": 0.0, "experts": 0.0, "attention": 0.0}
        for row in rows:
            rule = _RULES.get(str(row["op"]))
            if rule:
                what, flops = rule(row)
                sums[what] += 2.0 * flops * float(row["count"])
        return cls(**sums)


def _number(row: Row, name: str, default: float = 1.0) -> float:
    return float(row.get(name, default))


def _gemm(row: Row) -> tuple[str, float]:
    """Products one beside another are those of attention: of scores and of values, for each head."""
    what = "attention" if _number(row, "batch") > 1 else "products"
    return what, _number(row, "batch") * _number(row, "m") * _number(row, "n") * _number(row, "k")


def _conv(row: Row) -> tuple[str, float]:
    stride, padding = _number(row, "stride"), _number(row, "padding", 0.0)

    def out(size: str, kernel: str) -> float:
        return (_number(row, size) + 2.0 * padding - _number(row, kernel)) // stride + 1.0

    taps = _number(row, "kernel_h") * _number(row, "kernel_w") * _number(row, "channels")
    places = out("height", "kernel_h") * out("width", "kernel_w") * _number(row, "batch")
    return "products", places * _number(row, "filters") * taps / _number(row, "groups")


def _attention(row: Row) -> tuple[str, float]:
    pairs = _number(row, "batch") * _number(row, "q_len") * _number(row, "kv_len") * _number(row, "heads")
    return "attention", pairs * 2.0 * _number(row, "head_dim")


def _latent(row: Row) -> tuple[str, float]:
    pairs = _number(row, "batch") * _number(row, "q_len") * _number(row, "kv_len") * _number(row, "heads")
    return "attention", pairs * sum(_number(row, width, 0.0) for width in ("nope_dim", "rope_dim", "v_dim"))


def _experts(row: Row) -> tuple[str, float]:
    pairs = _number(row, "tokens") * _number(row, "top_k")
    return "experts", pairs * 3.0 * _number(row, "hidden") * _number(row, "intermediate")


_RULES: Final[Mapping[str, Callable[[Row], tuple[str, float]]]] = {
    names.GEMM: _gemm,
    "conv2d": _conv,
    names.ATTENTION: _attention,
    "mla": _latent,
    names.MOE: _experts,
}
