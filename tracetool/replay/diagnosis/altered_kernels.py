"""Kernels that are otherwise: another number format, more rows, fused, or hidden behind computation."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats
from tracetool.core.dtype import BYTES
from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted, number
from tracetool.core.operators import OperatorColumns
from tracetool.families import names
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.replay.achieved import PIPES
from tracetool.replay.diagnosis.causes import EXPOSED as EXPOSED_CAUSE
from tracetool.replay.diagnosis.gpu_pieces import COPIED, EXPOSED, WAITS
from tracetool.replay.diagnosis.ledger import Ledger
from tracetool.replay.diagnosis.neighbors import stream_neighbors
from tracetool.replay.diagnosis.references import Products
from tracetool.replay.diagnosis.shares import shaped

#: Columns that grow with the batch, and those that do only as multiples of its rows.
_BATCHED: Final = ("batch", "tokens")
_COUNTED: Final = ("rows", "elements", "bytes")


@dataclass(frozen=True)
class Altered:
    """Signatures that are otherwise.

    Parameters
    ----------
    time, energy : array, shape (s,)
        Factors on each launch's time and energy. [1]
    work : float
        Work of the altered run over that of the recorded one. [1]
    open_share : array, shape (s,)
        Half-width of what is not known of each signature's altered energy, relative to it. [1]
    dtype : str
        Format of products, "" for their own.
    rows : float
        Factor on the rows of products.
    notes : tuple of str
        What was assumed.
    """

    time: Floats
    energy: Floats
    work: float
    open_share: Floats
    dtype: str = ""
    rows: float = 1.0
    notes: tuple[str, ...] = ()

    def priced(self, booked: Ledger, clock_mhz: float) -> Altered:
        """Return this with products of their format and rows, as the model prices them at a clock."""
        if not self.dtype and self.rows == 1.0:
            return self
        products, convert, _ = _products(booked, clock_mhz, self.dtype)
        sizes = [products.rows.number(c) for c in ("m", "n", "k")]
        rows = products.rows_of_step(booked.of_signatures()) if self.rows != 1.0 else 0.0
        grown, has_grown = list(sizes), np.zeros(len(sizes[0]), np.bool_)
        for at in (0, 2, 1):  # one dimension of each: rows of activations, else the sum over them
            along_rows = (sizes[at] == rows) & ~has_grown
            grown[at] = np.where(along_rows, np.round(sizes[at] * self.rows), sizes[at])
            has_grown |= along_rows
        texts = products.rows.text("dtype")
        if self.dtype:
            texts = np.where(convert, self.dtype, texts)
        plain_s, plain_j = products.modeled()
        then_s, then_j = products.modeled(dtypes=texts, sizes=(grown[0], grown[1], grown[2]))
        with np.errstate(divide="ignore", invalid="ignore"):
            time = np.where(products.known & (plain_s > 0), then_s / plain_s, 1.0)
            energy = np.where(products.known & (plain_j > 0), then_j / plain_j, 1.0)
        return replace(self, time=self.time * time, energy=self.energy * energy)


def unaltered(booked: Ledger) -> Altered:
    """Return every signature as it was recorded."""
    assert booked.recorded.replays is not None
    one = np.ones(len(booked.recorded.replays.rows))
    return Altered(one, one, 1.0, np.zeros(len(one)))


def converted(booked: Ledger, before: Altered, gpu: Gpu, dtype: str) -> Altered:
    """Return the products that run in a wider format in this one.

    Raises
    ------
    BadInput
        If the format is not known, the GPU has no tensor (matrix) cores for it, or no product is wider.
    """
    if dtype not in BYTES or dtype not in PIPES:
        raise BadInput(f"--precision {dtype} is not known", f"known: {', '.join(sorted(PIPES))}")
    if gpu.flops_per_clock_sm.get(PIPES[dtype], 0.0) <= 0:
        raise BadInput(
            f"--precision {dtype}: {gpu.name} has no tensor (matrix) cores for it", "another format or GPU"
        )
    _, convert, run_j = _products(booked, booked.clock.recorded_mhz, dtype)
    if not convert.any():
        raise BadInput.in_file(
            booked.energies.run.path, f"has no matrix products wider than {dtype}", "leave --precision out"
        )
    share = 100.0 * float(booked.of_signatures()[convert].sum()) / run_j
    note = (
        f"{counted(int(convert.sum()), 'kind')} of products run in {dtype}, {share:.0f} % of the energy;"
        " kernels that convert their operands are not added"
    )
    return replace(before, dtype=dtype, notes=(*before.notes, note))


def batched(booked: Ledger, before: Altered, gpu: Gpu, clock_mhz: float, factor: float) -> Altered:
    """Return a step with ``factor`` times the rows.

    Raises
    ------
    BadInput
        If the factor is out of range, or the run holds no matrix product of known shape.

    Notes
    -----
    The rows of a step are the M that most energy of matrix products has; the M (else K, else N) of a product
    that is as long grows with it, and so do sizes of other kernels that are multiples of it. Weights and
    their updates stay. Kernels of unknown shape take between as long and ``factor`` times as long.
    """
    if not 0.01 <= factor <= 100.0:
        raise BadInput(f"--batch {factor:g}: the factor must lie between 0.01 and 100", "e.g. --batch 2")
    products, _, run_j = _products(booked, clock_mhz, "")
    energies = booked.of_signatures()
    rows_of_step = products.rows_of_step(energies)
    if not rows_of_step:
        raise BadInput.in_file(
            booked.energies.run.path,
            "has no matrix products of known shape, so the rows of a step are not known",
            "record shapes (torch.profiler's record_shapes=True)",
        )
    assert booked.recorded.replays is not None
    rows = booked.recorded.replays.rows
    has_shape = shaped(booked.recorded.signatures.sort("signature")["predicted_from"])
    grows = has_shape & ~products.known & (rows.family != names.OPTIMIZER)
    columns = dict(rows.columns)
    scaled: Bools = np.zeros(len(rows), np.bool_)
    for column in (*_BATCHED, *_COUNTED):
        value = rows.number(column)
        grown_here = grows & ~scaled & np.isfinite(value)
        if column in _COUNTED:
            grown_here &= value % rows_of_step == 0
        columns[column] = np.where(grown_here, np.round(value * factor), value)
        scaled |= grown_here
    at = np.flatnonzero(scaled)
    time, energy = np.ones(len(rows)), np.ones(len(rows))
    if len(at):
        clock = np.array([clock_mhz])
        plain, then = (
            predict_rows(one.take(at), gpu, clock, power_cap_w=np.inf)
            for one in (rows, OperatorColumns(rows.family, columns))
        )
        time[at] = then.timing.duration_s[:, 0] / plain.timing.duration_s[:, 0]
        energy[at] = then.energy_j[:, 0] / plain.energy_j[:, 0]
    blind = ~has_shape
    middle = (1.0 + factor) / 2.0
    time[blind], energy[blind] = middle, middle
    open_share = np.where(blind, abs(factor - 1.0) / (1.0 + factor), 0.0)
    note = (
        f"a step has {rows_of_step:,.0f} rows;"
        f" {100.0 * float(energies[scaled | products.known].sum()) / run_j:.0f} % of the energy is priced at"
        f" {rows_of_step * factor:,.0f} by shapes, {100.0 * float(energies[blind].sum()) / run_j:.0f} %"
        f" without known shapes at 1 to {factor:g} times"
    )
    return replace(
        before,
        time=before.time * time,
        energy=before.energy * energy,
        work=before.work * factor,
        open_share=np.maximum(before.open_share, open_share),
        rows=before.rows * factor,
        notes=(*before.notes, note),
    )


def fused(booked: Ledger, before: Altered, first: str, second: str) -> Altered:
    """Return kernels of one kind fused into those before them: the tensor between them stays in registers.

    Raises
    ------
    BadInput
        If nowhere on a stream the second kind follows the first.

    Notes
    -----
    The tensor handed over is that of the second's elements where they are known, else half its traffic. The
    second kernel saves reading it, in time and energy; the first writing it, in time where memory bounds it,
    else in its DRAM energy alone.
    """
    replays = booked.recorded.replays
    assert replays is not None
    rows, pred = replays.rows, replays.predicted
    kinds = [_called(rows, kind) for kind in (first, second)]
    s, joined = stream_neighbors(booked.cut.kernels)
    pairs = joined & kinds[0][s[:-1]] & kinds[1][s[1:]]
    if not pairs.any():
        raise BadInput.in_file(
            booked.energies.run.path,
            f"has no {second} after {first} on a stream",
            f"its families: {', '.join(sorted(set(rows.family.tolist())))}",
        )
    work = pred.timing.work
    size = np.array([BYTES.get(str(d), np.nan) for d in rows.text("dtype")])
    handed = rows.number("elements") * size
    handed = np.where(np.isfinite(handed), handed, work.dram_bytes / 2.0)
    passed = np.minimum(handed[s[1:]], work.dram_bytes[s[:-1]])[pairs]
    launches = np.maximum(replays.launches, 1.0)
    dram = np.maximum(work.dram_bytes, 1.0)
    written = np.bincount(s[:-1][pairs], passed, len(rows)) / launches / dram
    read = np.bincount(s[1:][pairs], passed, len(rows)) / launches / dram
    bound = pred.timing.busy_s["dram"][:, 0] >= pred.timing.busy_s["tensor"][:, 0]
    of_memory = pred.parts_j["dram"][:, 0] / np.maximum(pred.energy_j[:, 0], 1e-300)
    time = 1.0 - np.clip(read + np.where(bound, written, 0.0), 0.0, 0.99)
    energy = 1.0 - np.clip(read + written * np.where(bound, 1.0, of_memory), 0.0, 0.99)
    count = counted(int(pairs.sum()), "launch", "launches")
    note = f"{count} of {second} run within the {first} before them; {passed.sum() / 1e9:.3g} GB stay on chip"
    return replace(
        before, time=before.time * time, energy=before.energy * energy, notes=(*before.notes, note)
    )


def overlapped(booked: Ledger, before: Altered) -> Altered:
    """Return communication hidden behind computation, as far as there is any to hide it behind.

    Raises
    ------
    BadInput
        If no communication is exposed.
    """
    exposed_s, moving_s = np.zeros(len(before.time)), np.zeros(len(before.time))
    beside_s = 0.0
    for side in booked.cut.sides:
        rows = (
            side.activities().group_by("signature", "part", maintain_order=True).agg(pl.col("time_s").sum())
        )
        place, seconds = rows["signature"].to_numpy(), rows["time_s"].to_numpy()
        parts_of_time = rows["part"].to_numpy()
        exposed, moving = parts_of_time == EXPOSED, parts_of_time != WAITS  # a replay finds the waits anew
        np.add.at(exposed_s, place[exposed], seconds[exposed])
        np.add.at(moving_s, place[moving], seconds[moving])
        beside_s += float(seconds[~np.isin(parts_of_time, (EXPOSED, WAITS, COPIED))].sum())
    if exposed_s.sum() <= 0:
        raise BadInput.in_file(
            booked.energies.run.path, "has no exposed communication to overlap", "leave --overlap out"
        )
    hidden = min(1.0, beside_s / float(exposed_s.sum()))
    share = np.divide(hidden * exposed_s, moving_s, out=np.zeros_like(moving_s), where=moving_s > 0)
    energies = booked.of_signatures()
    saved = np.divide(
        booked.idle_w * hidden * exposed_s, energies, out=np.zeros_like(energies), where=energies > 0
    )
    hidden_ms = number(1e3 * hidden * float(exposed_s.sum()))
    note = f"{hidden_ms} ms of {EXPOSED_CAUSE} run beside computation, which takes no longer"
    return replace(
        before,
        time=before.time * (1.0 - share),
        energy=before.energy * (1.0 - np.minimum(saved, 1.0)),
        notes=(*before.notes, note),
    )


def _products(booked: Ledger, clock_mhz: float, dtype: str) -> tuple[Products, Bools, float]:
    """Return the matrix products, which of them are wider than a format, and the run's energy. [J]"""
    recorded = booked.recorded
    assert recorded.replays is not None
    has_shape = shaped(recorded.signatures.sort("signature")["predicted_from"])
    products = Products.of(recorded.replays.rows, load_gpu(recorded.gpu), clock_mhz, has_shape)
    size = np.array([BYTES.get(str(d), 0.0) for d in products.rows.text("dtype")])
    wider = products.known & (size > BYTES.get(dtype, np.inf))
    if dtype == "tf32":
        wider = products.known & (products.rows.text("dtype") == "fp32")
    return products, np.asarray(wider), booked.energy_j


def _called(rows: OperatorColumns, kind: str) -> Bools:
    """Return which signatures are of a family, or have a name, called like ``kind``. Shape (s,)."""
    family = np.asarray(rows.family == kind)
    if family.any():
        return family
    texts = [str(n) for n in rows.text("name")]
    return np.array([fnmatch.fnmatchcase(n, f"*{kind}*") for n in texts], dtype=np.bool_)
