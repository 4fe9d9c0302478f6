"""A run of any size with invented figures, and its page; only the shapes matter here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from tests.report.hostile import HOSTILE
from tracetool.compare.diff_run import accuracy_of
from tracetool.hardware.load import load_gpu
from tracetool.replay.overlap import Rates
from tracetool.replay.power import PowerCurve, power_curve
from tracetool.replay.predict_run import PredictedRun
from tracetool.report.run_page import RunPage
from tracetool.report.run_report import page_of
from tracetool.tables.run import Run, write_run
from tracetool.tables.schema import load_schema

FAMILIES = ["gemm", "attention", "norm", "elementwise", "copy", "reduction", "softmax", "other", "collective"]


def make_run(path: Path, launches: int = 400, signatures: int = 24, *, seed: int = 1) -> Run:
    """Write and open a run: kernels of hostile names among plain ones, gaps, operators, ranges, power."""
    rng = np.random.default_rng(seed)
    names = [
        HOSTILE[i] if i < len(HOSTILE) else f"kernel_{i}<128, {i % 7}>(float*, int)"
        for i in range(signatures)
    ]
    of = rng.integers(0, signatures, launches)
    length = (2_000 + 200_000 * rng.random(signatures) ** 3)[of] * rng.uniform(0.9, 1.1, launches)
    gap = rng.exponential(3_000, launches)
    gap[:: max(launches // 10, 1)] += 2e6
    start = np.cumsum(length + gap) - length + 1_000_000
    kernels = pl.DataFrame(
        {
            "start_ns": start.astype(np.int64),
            "duration_ns": length.astype(np.int64),
            "device": np.zeros(launches, np.int32),
            "stream": rng.choice([7, 7, 7, 20], launches),
            "kind": ["kernel"] * launches,
            "name": np.array(names, dtype=object)[of],
            "operator": of % 4,
            "range": np.minimum(np.arange(launches) * 3 // launches, 2),
            "signature": of,
        }
    )
    sums = kernels.group_by("signature").agg(
        pl.len().alias("launches"),
        pl.col("duration_ns").sum(),
        pl.col("duration_ns").median().alias("duration_median_ns"),
        pl.col("name").first(),
        pl.col("kind").first(),
    )
    table = sums.sort("signature").with_columns(pl.lit("aten::mm").alias("operator_name"))
    span = int(start[-1] + length[-1])
    times = np.arange(1_000_000, span, max(span // 300, 1))
    tables = {
        "kernels": kernels,
        "signatures": table,
        "operators": pl.DataFrame(
            {"operator": range(4), "name": ["aten::mm", HOSTILE[0], "aten::add", "x"], "start_ns": [0] * 4,
             "duration_ns": [1] * 4}
        ),
        "ranges": pl.DataFrame(
            {"range": range(3), "name": ["forward", HOSTILE[1], "step"], "start_ns": [0] * 3,
             "duration_ns": [1] * 3, "depth": [0] * 3}
        ),
        "telemetry": pl.DataFrame(
            {"time_ns": times, "device": [0] * times.size, "power_w": 250 + 50 * rng.random(times.size),
             "source": ["log"] * times.size}
        ),
    }  # fmt: skip
    info = {
        "sources": [{"path": HOSTILE[0], "sha256": "ab" * 32, "format": "made"}],
        "warnings": [HOSTILE[3]],
        "clock": {"domain": "session"},
    }
    return Run.open(write_run(path, tables, info))


IDLE_W = 80.0


def predict(run: Run, clocks_mhz: Sequence[float] = (1410.0,)) -> PredictedRun:
    """Return invented predictions of a run's signatures and totals."""
    n = run.signatures.height
    rng = np.random.default_rng(2)
    duration = run.signatures["duration_median_ns"].to_numpy() / 1e3 * rng.uniform(0.8, 1.2, n)
    power = rng.uniform(120, 380, n)
    energy = duration * power / 1e3
    schema = load_schema("predictions")
    known = {
        "clock_mhz": np.full(n, 1410.0),
        "clock_actual_mhz": np.full(n, 1410.0),
        **{f"duration{e}_us": duration * f for e, f in (("", 1), ("_low", 0.9), ("_high", 1.1))},
        **{f"power{e}_w": power * f for e, f in (("", 1), ("_low", 0.8), ("_high", 1.2))},
        **{f"energy{e}_mj": energy * f for e, f in (("", 1), ("_low", 0.7), ("_high", 1.3))},
        "flops": 10 ** rng.uniform(6, 10, n),
        "dram_bytes": 10 ** rng.uniform(5, 8, n),
        "bound": ["tensor"] * n,
        "throttled": [False] * n,
        "basis": ["prior"] * n,
    }
    rest = {c.name: np.full(n, 0.5) for c in schema.columns if c.name not in known}
    frame = schema.conform(pl.DataFrame(known | rest)).with_columns(
        run.signatures["signature"],
        pl.Series("family", [FAMILIES[i % len(FAMILIES)] for i in range(n)]),
        run.signatures["name"],
        run.signatures["launches"],
        pl.lit("").alias("inferred"),
        pl.lit("shapes").alias("predicted_from"),
    )
    frame = pl.concat([frame.with_columns(pl.lit(c).alias("clock_mhz")) for c in clocks_mhz])
    totals = [total(run, c) for c in clocks_mhz]
    return PredictedRun(frame, totals, "a100-sxm", ("an invented prediction",))


def total(run: Run, clock_mhz: float) -> dict[str, float]:
    """Return invented totals: time falls with the clock, energy has a minimum inside."""
    busy = run.signatures["duration_ns"].sum() / 1e6
    share = clock_mhz / 1410.0
    energy = busy * 0.25 * (0.4 / share + 0.6 * share**1.6)
    figures = {"energy{}_j": energy, "kernel_energy{}_j": 0.9 * energy, "copy_energy{}_j": 0.0,
               "gap_energy{}_j": 0.1 * energy, "kernel_time{}_ms": busy, "copy_time{}_ms": 0.0,
               "gap{}_ms": 1.0,
               "makespan{}_ms": busy * (0.4 + 0.6 / share), "kernel_power{}_w": 250.0, "copy_power{}_w": 0.0,
               "idle_power{}_w": IDLE_W, "mean_power{}_w": 240.0, "peak_power{}_w": 300.0}  # fmt: skip
    ends = {"": 1.0, "_low": 0.85, "_high": 1.15}
    made = {key.format(end): value * by for key, value in figures.items() for end, by in ends.items()}
    return {"clock_mhz": clock_mhz, "throttled_share": 0.0, **made}


def make_page(run: Run) -> RunPage:
    """Return the page of a run with invented predictions; nothing is measured but times."""
    bare = Run(run.path, run.info)
    bare.__dict__["telemetry"] = run.telemetry.clear()  # attribution needs a real power log
    at_its_clock = predict(run)
    found = accuracy_of(bare, at_its_clock)
    anchored = predict(run, [float(c) for c in range(510, 1411, 75)])
    return page_of(run, anchored, found, load_gpu("a100-sxm"), {0: curve(run, at_its_clock)})


def curve(run: Run, predicted: PredictedRun) -> PowerCurve:
    """Return the invented power of the run's device over the recorded times."""
    none = np.zeros(predicted.signatures.height)
    power = predicted.signatures["power_w"].to_numpy()
    start = (run.kernels["start_ns"] - run.kernels["start_ns"].min()).cast(pl.Float64).to_numpy()
    end = start + run.kernels["duration_ns"].cast(pl.Float64).to_numpy()
    rates = Rates(none + 1.0, power, none, none, none)
    signature = run.kernels["signature"].to_numpy()
    return power_curve(start, end, signature, rates, idle_w=IDLE_W, span_ns=(0.0, float(end.max())))
