"""One size inferred from the measured duration: K of a product, the width of rows, the length of keys.

A launch of known m and n that took t seconds at the rate its unit usually reaches did 2 m n K operations; a
row kernel moved rows x cols elements. Such a number is circular where times are predicted: it is marked in
``inferred`` with a 90 % interval, and shares, power and other clocks are what it is good for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats, Texts
from tracetool.core.dtype import BYTES
from tracetool.core.errors import TracetoolError
from tracetool.families import names
from tracetool.families.registry import families, families_where
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu, match_gpu

#: Part of a launch that no work explains. [s]
LAUNCH_S: Final = 2.0e-6
#: Share of its peak a product reaches over whole waves, and the ends of its 90 % interval.
REACHED: Final = (0.65, 0.18, 1.0)
#: Share of the memory's streaming rate that row kernels and decode reach, and its 90 % interval.
STREAMED: Final = (0.70, 0.25, 1.0)
_PIPES: Final = {
    "fp64": "fp64", "fp32": "fp32", "tf32": "tensor_tf32", "fp16": "tensor_fp16", "bf16": "tensor_bf16", "fp8": "tensor_fp8",
    "int8": "tensor_int8", "nvfp4": "tensor_fp4", "mxfp4": "tensor_fp4", "complex64": "fp32", "complex128": "fp64",
}  # fmt: skip
#: Families whose duration determines a size, by that size.
_BY_NUMBER: Final = {
    number: families_where(lambda family, number=number: family.inferred == number)  # type: ignore[misc]
    for number in ("k", "cols", "kv_len")
}
#: Of those that determine K: the sizes of its own by which a family is known without it.
_INSTEAD_OF_K: Final = {
    name: [sizes for sizes in families()[name].needs if "k" not in sizes] for name in _BY_NUMBER["k"]
}
_USED: Final = sorted({
    *("m", "n", "k", "batch", "rows", "cols", "q_len", "kv_len", "heads", "head_dim", "kv_heads", "blocks"),
    *("row_reads", "row_writes", "reads_again"),
    *(column for sets in _INSTEAD_OF_K.values() for sizes in sets for column in sizes),
})  # fmt: skip
#: From this many queries on, attention is over the tokens themselves.
_PREFILL: Final = 32
#: Sequences packed behind one another may be this much shorter than all tokens.
_SHORTEST: Final = 0.1
#: Products and sums of one complex multiplication.
_COMPLEX: Final = 4.0


def infer_missing(
    frame: pl.DataFrame, gpus: dict[str | None, Gpu], clock_mhz: float | None = None
) -> pl.DataFrame:
    """Fill K, ``cols`` or ``kv_len`` where it alone is absent and the duration and GPU are known.

    ``gpus`` holds the GPU of each ``device_name``; see :func:`gpus_of`. ``clock_mhz`` is the core clock they ran
    at, None for their boost clocks. [MHz]

    Adds ``inferred`` (names of the numbers that are inferred or assumed, "" for none), ``inferred_low`` and
    ``inferred_high`` (factors on the last of them).
    """
    n = frame.height
    columns = {c: _floats(frame, c) for c in _USED}
    seconds = np.maximum(_floats(frame, "duration_us") * 1e-6 - LAUNCH_S, 0.3e-6)
    family = frame["family"].fill_null("").to_numpy().astype(str)
    dtype = frame["dtype"].fill_null("fp32").to_numpy().astype(str)
    units = frame["opclass"].fill_null("").to_numpy().astype(str)
    inferred = frame["launch_guess"].fill_null("").to_numpy().astype(object)
    sheet = _Sheet(columns, inferred, np.full(n, np.nan), np.full(n, np.nan))
    for device, gpu in gpus.items():
        on_device = frame["device_name"].eq_missing(pl.Series([device], dtype=pl.String)).to_numpy()
        size = np.array([BYTES.get(d, 4.0) for d in dtype])
        rate = np.array(
            [
                _rate(gpu, d, unit, clock_mhz or gpu.clock_boost_mhz)
                for d, unit in zip(dtype, units, strict=True)
            ]
        )
        without_k = (
            on_device
            & np.isin(family, _BY_NUMBER["k"])
            & _are_positive(columns, "m", "n")
            & np.isnan(columns["k"])
            & ~_complete_without_k(family, columns)
            & np.isfinite(seconds)
        )
        middle, least, most = _depths(columns, seconds, size, rate, gpu)
        # what counts as a batch may be the parts of one split K
        possible_splits = np.where(inferred == "batch", columns["batch"], 1.0)
        sheet.put(without_k, "k", (middle, least, most * possible_splits))
        rowwise = np.isin(family, _BY_NUMBER["cols"])
        without_cols = (
            on_device
            & rowwise
            & _are_positive(columns, "rows")
            & np.isnan(columns["cols"])
            & np.isfinite(seconds)
        )
        passes = np.where(family == names.REDUCTION, 1.0, _tensors(columns))
        without_cols &= passes > 0  # else the kernel works on one number a row
        sheet.put(
            without_cols, "cols", _widths(columns, seconds, size * np.where(passes > 0, passes, 1.0), gpu)
        )
        without_keys = (
            on_device
            & np.isin(family, _BY_NUMBER["kv_len"])
            & _are_positive(columns, "q_len", "heads", "head_dim")
            & np.isnan(columns["kv_len"])
            & np.isfinite(seconds)
        )
        sheet.put(without_keys, "kv_len", _lengths(columns, seconds, size, rate, gpu))
    filled = [pl.Series(c, columns[c]).fill_nan(None) for c in ("k", "cols", "kv_len")]
    return frame.with_columns(
        *filled, pl.Series("inferred", inferred.astype(str)), pl.Series("inferred_low", sheet.low).fill_nan(None), pl.Series("inferred_high", sheet.high).fill_nan(None)
    )  # fmt: skip


def _floats(frame: pl.DataFrame, column: str) -> Floats:
    return np.array(frame[column].cast(pl.Float64).fill_null(np.nan).to_numpy(), dtype=np.float64)


def _tensors(columns: dict[str, Floats]) -> Floats:
    """Return the tensors of their rows' size that row-wise kernels pass over. Shape (n,)."""
    usual = {"row_reads": 1.0, "row_writes": 1.0, "reads_again": 0.0}
    reads, writes, again = (np.where(np.isnan(columns[c]), usual[c], columns[c]) for c in usual)
    return np.asarray(reads * (1.0 + again) + writes)


def _are_positive(columns: dict[str, Floats], *names: str) -> Bools:
    out = np.ones(len(columns[names[0]]), dtype=np.bool_)
    for name in names:
        out &= np.isfinite(columns[name]) & (columns[name] > 0)
    return out


def _complete_without_k(family: Texts, columns: dict[str, Floats]) -> Bools:
    """Return the rows with all sizes by which their family is known without K: convolutions, experts."""
    out = np.zeros(len(family), dtype=np.bool_)
    for name, sets in _INSTEAD_OF_K.items():
        for sizes in sets:
            out |= (family == name) & _are_positive(columns, *sizes)
    return out


def gpus_of(frame: pl.DataFrame, fallback: Gpu | None) -> dict[str | None, Gpu]:
    """Return the GPU of each device string; ``fallback`` for those not known."""
    gpus: dict[str | None, Gpu] = {}
    for device in frame["device_name"].unique().to_list():
        name = match_gpu(device) if device else None
        try:
            gpu = load_gpu(name) if name else fallback
        except TracetoolError:
            gpu = fallback
        if gpu is not None:
            gpus[device] = gpu
    return gpus


def _rate(gpu: Gpu, dtype: str, unit: str, clock_mhz: float) -> float:
    try:
        rate = float(gpu.peak_flops(_PIPES.get(dtype, "fp32"), clock_mhz))
    except KeyError:
        rate = float(gpu.peak_flops("fp32", clock_mhz))
    if unit == "tensorop" and dtype == "fp32":
        rate = max(rate, gpu.matrix_fp32 * gpu.sm_count * clock_mhz * 1e6)
    return rate / _COMPLEX if dtype.startswith("complex") else rate


@dataclass(frozen=True)
class _Sheet:
    """Values being filled: numbers by name, and beside each row what was inferred and its interval."""

    columns: dict[str, Floats]
    inferred: Texts
    low: Floats
    high: Floats

    def put(self, where: Bools, name: str, estimates: tuple[Floats, Floats, Floats]) -> None:
        """Write the estimate of ``name`` (middle, low, high) into the chosen rows."""
        middle, least, most = estimates
        where = where & np.isfinite(middle)
        self.columns[name][where] = middle[where]
        self.low[where], self.high[where] = (least / middle)[where], (most / middle)[where]
        for i in np.flatnonzero(where):
            self.inferred[i] = f"{self.inferred[i]} {name}".strip()


def _depths(
    columns: dict[str, Floats], seconds: Floats, size: Floats, rate: Floats, gpu: Gpu
) -> tuple[Floats, Floats, Floats]:
    """K of products: the smaller of the values at which arithmetic and memory take the measured time."""
    m, n, batch = columns["m"], columns["n"], np.where(np.isnan(columns["batch"]), 1.0, columns["batch"])
    blocks = np.where(columns["blocks"] > 0, columns["blocks"], gpu.sm_count)
    filled = blocks / (np.ceil(blocks / gpu.sm_count) * gpu.sm_count)
    bandwidth = gpu.dram_bytes_per_s * gpu.dram_efficiency

    def depth(reach: float, less_s: float = 0.0) -> Floats:
        work_seconds = np.maximum(seconds - less_s, 0.1 * seconds)
        arithmetic = work_seconds * rate * filled * reach / (2.0 * m * n * batch)
        moved = (work_seconds * bandwidth * reach - batch * m * n * size) / (batch * (m + n) * size)
        # operands that fit L2 may not come from memory: traffic then bounds K only down to a quarter
        fits = batch * (m + n) * arithmetic * size <= gpu.l2_bytes
        least = np.where(fits, arithmetic / 4.0, 8.0)
        bounded = np.minimum(arithmetic, np.maximum(moved, least))
        return np.asarray(np.maximum(8.0, np.round(bounded / 8.0) * 8.0))

    return depth(REACHED[0]), depth(REACHED[1], 2.0 * LAUNCH_S), depth(REACHED[2])


def _widths(
    columns: dict[str, Floats], seconds: Floats, size: Floats, gpu: Gpu
) -> tuple[Floats, Floats, Floats]:
    """Width of rows that move ``size`` bytes per element."""
    bandwidth = gpu.dram_bytes_per_s * gpu.dram_efficiency

    def width(reach: float) -> Floats:
        return np.maximum(1.0, np.round(seconds * bandwidth * reach / (columns["rows"] * size)))

    return width(STREAMED[0]), width(STREAMED[1]), width(STREAMED[2])


def _lengths(
    columns: dict[str, Floats], seconds: Floats, size: Floats, rate: Floats, gpu: Gpu
) -> tuple[Floats, Floats, Floats]:
    """Length of keys. Many queries are taken to attend to themselves; a few read keys streamed once."""
    bandwidth = gpu.dram_bytes_per_s * gpu.dram_efficiency
    heads, wide = columns["heads"], columns["head_dim"]
    shared = np.where(np.isnan(columns["kv_heads"]), heads, columns["kv_heads"])
    batch = np.where(np.isnan(columns["batch"]), 1.0, columns["batch"])

    def length(reach: float) -> Floats:
        streamed = seconds * bandwidth * reach / (batch * shared * wide * 2.0 * size)
        met = seconds * rate * reach / (4.0 * batch * heads * columns["q_len"] * wide)
        return np.asarray(np.maximum(1.0, np.round(np.minimum(streamed, met))))

    most = length(STREAMED[2])
    queries = columns["q_len"]
    itself = queries >= _PREFILL
    # packed sequences are shorter than all their tokens, earlier chunks make the keys longer than the queries
    return (
        np.where(itself, queries, length(STREAMED[0])),
        np.where(itself, _SHORTEST * queries, length(STREAMED[1])),
        np.where(itself, np.maximum(queries, most), most),
    )
