"""Report: everything known of a run on one page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tracetool.compare.accuracy import Accuracy
from tracetool.compare.diff import diff_runs
from tracetool.compare.diff_run import accuracy_of
from tracetool.compare.requested_runs import expand
from tracetool.compare.run_options import RunOptions
from tracetool.core.errors import BadInput
from tracetool.core.progress import Progress, Silent
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.replay.diagnosis.findings import findings
from tracetool.replay.diagnosis.ledger import ledger
from tracetool.replay.energy_by import energy_by
from tracetool.replay.groups import activity_groups, check_depth, parse_keys
from tracetool.replay.power_over_time import power_over_time
from tracetool.replay.sweep import choose, default_clocks, with_reference
from tracetool.replay.time_budget import time_budget
from tracetool.report.page_tables import find_gaps, parts_by, signature_rows
from tracetool.report.pictures.timeline import pack_timeline, power_steps
from tracetool.report.run_facts import run_facts, with_budget
from tracetool.report.run_page import Ceilings, Diagnosed, RunPage
from tracetool.report.sections.kernels import MOST_ROWS
from tracetool.tables.run import Run
from tracetool.tables.windows import is_large, refuse_large, windows_of

if TYPE_CHECKING:
    from tracetool.replay.power import PowerCurve
    from tracetool.replay.predict_run import PredictedRun

_PIPES = ("tensor_fp8", "tensor_bf16", "tensor_fp16", "tensor_tf32", "fp32", "fp64")


def report_run(
    run: Run | str | os.PathLike[str],
    base: str | os.PathLike[str] | None = None,
    *,
    gpu: str | None = None,
    clock_mhz: float | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    by: str | None = None,
    depth: int | None = None,
    progress: Progress | None = None,
) -> RunPage:
    """Gather what a run's page shows: joules, agreement, timeline, other clocks, gaps, provenance.

    Parameters
    ----------
    run : Run or path
        The run.
    base : path, optional
        A run to set it against.
    gpu : str, optional
        Name of the GPU; by default the one the run recorded.
    clock_mhz : float, optional
        Core clock of the run; by default the recorded one, else the GPU's boost clock. [MHz]
    power : sequence of path, optional
        Power logs to use beside those of the run.
    tz : str, optional
        Zone of those logs, ``+HH:MM``.
    by : str, optional
        Groups to show, as for :func:`tracetool.energy_by`; by default modules where the run names any.
    depth : int, optional
        Levels of nested modules kept apart.
    progress : Progress, optional
        Told what is being done.

    Raises
    ------
    BadInput
        If the run holds no kernels or the GPU is not known.
    """
    from tracetool.replay.predict import predict_run

    steps = progress or Silent()
    opened = run if isinstance(run, Run) else Run.open(run)
    if not opened.signatures.filter(pl.col("kind") == "kernel").height:
        raise BadInput.in_file(
            opened.path, "holds no kernels to report on", "ingest a trace with GPU activity"
        )
    if is_large(opened):
        if by or base is not None:
            refuse_large(
                opened, "groups or a base", "leave out --by and the base; compare with: tracetool diff"
            )
        return _large_page(opened, gpu=gpu, clock_mhz=clock_mhz, power=power, tz=tz, steps=steps)
    keys = _keys(opened, by, depth)
    if base is not None:
        _check_base(Path(base))
    steps.step("predicting", 0.1)
    alone = predict_run(opened, gpu, None if clock_mhz is None else [clock_mhz], anchor=False)
    steps.step("attributing", 0.3)
    accuracy = accuracy_of(opened, alone, gpu=gpu, power=power, tz=tz)
    target = load_gpu(alone.gpu)
    steps.step("trying other clocks", 0.6)
    clocks = with_reference(default_clocks(target), accuracy.clock_mhz)
    anchored = predict_run(opened, gpu, clocks, anchor=True)
    steps.step("drawing", 0.8)
    page = page_of(opened, anchored, accuracy, target, _recorded_power(anchored, accuracy.clock_mhz))
    at = int(np.argmin([abs(t["clock_mhz"] - accuracy.clock_mhz) for t in anchored.totals]))
    page = replace(page, over_time=power_over_time(anchored, at))
    booked = ledger(opened, gpu=gpu, power=power, tz=tz)
    budget = time_budget(opened, energies=booked.energies)
    page = replace(page, budget=budget, facts=with_budget(page.facts, budget))
    steps.step("diagnosing", 0.85)
    words = booked.energy_words
    diagnosis = Diagnosed(booked.totals, tuple(findings(opened, booked, gpu)), booked.gap_notes, words)
    page = replace(page, diagnosis=diagnosis)
    if keys:
        page = replace(page, groups=energy_by(opened, keys, depth=depth, energies=booked.energies))
    if base is None:
        return page
    steps.step("comparing with the base", 0.9)
    return replace(page, against=diff_runs([base], [opened.path], options=RunOptions("auto", gpu)))


def _check_base(base: Path) -> None:
    """Open every run of a base, so that a broken one fails before the work."""
    for path in expand([base]):
        if path.is_dir():
            Run.open(path)


def _large_page(
    run: Run,
    *,
    gpu: str | None,
    clock_mhz: float | None,
    power: Sequence[Path],
    tz: str | None,
    steps: Progress,
) -> RunPage:
    """Return the page of a large run: figures, kernels and agreement of all of it, pictures of its middle."""
    from tracetool.replay.predict import predict_run

    clocks = None if clock_mhz is None else [clock_mhz]
    steps.step("predicting", 0.1)
    alone = predict_run(run, gpu, clocks, anchor=False)
    steps.step("attributing", 0.4)
    accuracy = accuracy_of(run, alone, gpu=gpu, power=power, tz=tz)
    anchored = predict_run(run, gpu, [accuracy.clock_mhz], anchor=True)
    steps.step("drawing", 0.8)
    windows = list(windows_of(run))
    middle = windows[len(windows) // 2]
    page = report_run(middle, gpu=gpu, clock_mhz=accuracy.clock_mhz, power=power, tz=tz)
    total = anchored.totals[0]
    swept = [f for f in page.facts if f.label == "Clock of least energy"]
    seconds = 1e-3 * float(total["makespan_ms"])
    drawn = (
        f"pictures and other clocks are those of window {middle.number + 1} of {len(windows)},"
        f" from {(middle.first_ns - windows[0].first_ns) * 1e-9:.4g} s into the run of {seconds:.4g} s;"
        " figures, kernels and agreement are of the whole run"
    )
    gaps = replace(page.gaps, total_ms=float(total["gap_ms"]))
    return replace(
        page,
        title=run.path.name.removesuffix(".tracetool"),
        facts=(*run_facts(accuracy, total, gaps, None), *swept),
        accuracy=accuracy,
        rows=signature_rows(run.signatures, anchored.signatures, accuracy),
        info=run.info,
        total=total,
        warnings=(*map(str, run.info.get("warnings") or ()), *accuracy.warnings),
        notes=(drawn, *accuracy.notes),
    )


def _keys(run: Run, by: str | None, depth: int | None) -> tuple[str, ...]:
    """Return the keys to group by: the requested ones, else modules where the run names any."""
    if by:
        keys = parse_keys(by)
        check_depth(keys, depth)
        activity_groups(run, keys, depth)  # what the run does not hold fails here, before the work
        return keys
    named = run.kernels["module"].is_not_null().any() or run.kernels["range"].is_not_null().any()
    return ("module",) if named else ()


def page_of(
    run: Run, anchored: PredictedRun, accuracy: Accuracy, gpu: Gpu, curves: Mapping[int, PowerCurve]
) -> RunPage:
    """Return the page of a run.

    Parameters
    ----------
    run : Run
        The run.
    anchored : PredictedRun
        Predictions anchored on its times, at its own clock and at others.
    accuracy : Accuracy
        Unanchored predictions at its own clock against what was measured.
    gpu : Gpu
        The GPU.
    curves : mapping of int to PowerCurve
        Predicted power of each device over the recorded times.
    """
    at = int(np.argmin([abs(t["clock_mhz"] - accuracy.clock_mhz) for t in anchored.totals]))
    total = anchored.totals[at]
    at_clock = anchored.signatures.filter(pl.col("clock_mhz") == total["clock_mhz"])
    rows = signature_rows(run.signatures, at_clock, accuracy)
    gaps = find_gaps(run.kernels)
    swept = choose(anchored, float(total["clock_mhz"]))
    idle_w = _idle_w(accuracy, total)
    return RunPage(
        title=run.path.name.removesuffix(".tracetool"),
        facts=run_facts(accuracy, total, gaps, swept),
        accuracy=accuracy,
        rows=rows,
        parts=_tables_of_parts(run, rows),
        gaps=gaps,
        idle_w=idle_w,
        timeline=pack_timeline(_ranked(run.kernels, rows), run.telemetry, curves),
        clocks=swept.clocks(),
        recorded_mhz=accuracy.clock_mhz,
        ceilings=_ceilings(gpu, accuracy.clock_mhz),
        info=run.info,
        warnings=(*map(str, run.info.get("warnings") or ()), *accuracy.warnings),
        notes=accuracy.notes,
        power=power_steps(run.kernels, curves, run.telemetry),
        total=total,
        best=swept.best.row(0, named=True),
    )


def _recorded_power(anchored: PredictedRun, recorded_mhz: float) -> dict[int, PowerCurve]:
    """Return the predicted power of each device over the recorded times, at the recorded clock."""
    if anchored.replays is None:
        return {}
    requested_mhz = anchored.replays.predicted.requested_mhz
    return anchored.replays.recorded_curves(int(np.argmin(np.abs(requested_mhz - recorded_mhz))))


def _idle_w(accuracy: Accuracy, total: Mapping[str, Any]) -> float:
    gap = accuracy.table.filter((pl.col("level") == "gap") & pl.col("power_w").is_not_null())
    return float(gap["power_w"][0]) if gap.height else float(total.get("idle_power_w") or 0.0)


def _tables_of_parts(run: Run, rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    tables = {"family": parts_by(run.kernels, rows, None, "family")}
    for key, table in (("operator", "operators"), ("range", "ranges")):
        if run.kernels[key].is_not_null().any():
            tables[key] = parts_by(run.kernels, rows, run.table(table), key)
    return tables


def _ranked(kernels: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Number signatures by their rank in ``rows``; beyond the page's rows, by family."""
    families = rows.group_by("family", maintain_order=True).agg(pl.col("energy_j").sum()).sort(
        "energy_j", "family", descending=[True, False]
    )  # fmt: skip
    numbers = families.with_row_index("number").select("family", pl.col("number").cast(pl.Int64))
    listed = min(rows.height, MOST_ROWS)
    ranks = (
        rows.with_row_index("rank")
        .join(numbers, on="family", how="left")
        .select(
            "signature",
            pl.when(pl.col("rank") < listed)
            .then(pl.col("rank").cast(pl.Int64))
            .otherwise(listed + pl.col("number"))
            .alias("rank"),
        )
    )
    return kernels.join(ranks, on="signature", how="left").with_columns(pl.col("rank").alias("signature"))


def _ceilings(gpu: Gpu, clock_mhz: float) -> Ceilings:
    peaks = {
        pipe.removeprefix("tensor_") + (" matrix" if pipe.startswith("tensor") else ""): float(
            gpu.peak_flops(pipe, clock_mhz)
        )
        for pipe in _PIPES
        if gpu.flops_per_clock_sm.get(pipe, 0.0) > 0
    }
    return Ceilings(peaks, float(gpu.dram_bytes_per_s))
