"""Fit the time calibrations that are delivered, from the measured operators beside the checkout.

usage: python benchmarks/fit_time.py [DATA_ROOT] [GPU ...] [--law LAW]
       default: ../shared/data, every GPU in it, every law

Writes tracetool/hardware/calibrations/<gpu>.time.toml and prints each law's error on shapes held out. With
``--law`` it fits that law of the operator tables alone and leaves the rest of each file as it stands.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from latency_loop import HABITS, in_loop, throttles
from latency_tables import latency_rows, latency_tables, without_tiles

from tracetool.calibrate.conformal import Band, bands
from tracetool.calibrate.fit_time_laws import TimeFit, fit_time
from tracetool.calibrate.law_fit import SHAPE_COLUMNS, LawFit, LawRows, fit_law, shape_groups
from tracetool.calibrate.measured_times import time_toml
from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.formats import dtype_of, on_tensor, product_rate
from tracetool.families.gemm.vector_law import GEMM_VECTOR
from tracetool.families.pieces import duration_s
from tracetool.families.pricing import laws, split_by_law
from tracetool.families.registry import count_work
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.replay.operator_tables import read_table

HERE = Path(__file__).resolve().parent.parent
CALIBRATIONS = HERE / "tracetool" / "hardware" / "calibrations"
#: What the latency set adds to every row: its host waits between the marks. Not the kernels' own.
OVERHEAD = ("launch_us", "floor_us")
#: What public source tells of the kernels in a GPU's tables and no time does: on Hopper, TensorRT-LLM and
#: FlashAttention 3 in vLLM multiply in FP8 with keys in it. TensorRT-LLM's on the B200 take as long with
#: them, and draw as much, as with keys of 16 bits. [1] By definition of families/attention/prefill_hosts.py.
TOLD = {gpu: {"prefill": {"kv8_products": 2.0}} for gpu in ("h100-sxm", "h200-sxm")}


def with_told(fit: TimeFit) -> TimeFit:
    """Return a fit with what source tells of its kernels beside what was fitted."""
    told = TOLD.get(fit.gpu, {})
    laws_of = {k: replace(one, values={**one.values, **told.get(k, {})}) for k, one in fit.laws.items()}
    return replace(fit, laws=laws_of)


def say(gpu: str, fit: TimeFit) -> None:
    for law, found in fit.laws.items():
        print(
            f"{gpu:14s} {law:16s} {found.rows:6d} rows  held out MAPE {found.mape_percent:5.1f} % "
            f"MdAPE {found.mdape_percent:5.1f} %  interval holds {found.coverage_percent:5.1f} %",
            flush=True,
        )
        for kind, (mape, mdape, inside) in found.of_kind.items():
            told = f"MAPE {mape:5.1f} % MdAPE {mdape:5.1f} %  interval holds {inside:5.1f} %"
            print(f"{'':14s}   {kind:40s} {told}", flush=True)


def with_habits(
    values: Mapping[str, float], rows: OperatorColumns, measured_s: Floats, gpu: Gpu, *, throttles: bool
) -> tuple[dict[str, float], dict[str, Band]]:
    """Return the tiles a library holds, as times of rows that state none tell, and the bands of such rows.

    What the rows' kernels say of their tiles fits the rates; which tile is taken is what is left to fit: two
    numbers, so that rows they were chosen on serve for the bands too.
    """
    untold = without_tiles(rows)
    law, hertz = in_loop(GEMM_VECTOR, throttles=throttles), np.full((len(rows), 1), gpu.clock_boost_mhz * 1e6)
    made, many = dict(values), rows.number("batch", 1.0) > 1.0
    for habit, asked in (("batch_area", many), ("most_area", ~many)):
        places = np.flatnonzero(asked)[::4]
        part = untold.take(places)

        def off(
            area: float, habit: str = habit, part: OperatorColumns = part, places: Ints = places
        ) -> float:
            pieces = law.parts(part, gpu, {**made, habit: area})
            return float(np.abs(np.log(duration_s(pieces, hertz[places])[:, 0] / measured_s[places])).mean())

        made[habit] = min(GEMM_VECTOR.priors[habit].choices, key=off)
    found = duration_s(law.parts(untold, gpu, made), hertz)[:, 0]
    error, kind = np.log(measured_s / found), GEMM_VECTOR.kind(untold)
    bound = bands(error, shape_groups(rows), kind, GEMM_VECTOR.kinds)
    return {k: made[k] for k in HABITS}, {k: b for k, b in bound.items() if k}


def proved_clock_mhz(rows: OperatorColumns, measured_s: Floats, gpu: Gpu) -> float:
    """Return the clock below which the fastest rows would have beaten the tensor cores' peak.

    A GPU whose data or power limit let it run faster than the power model expects proves so here.
    """
    words = dtype_of(rows, "bf16")
    peak = product_rate(words, gpu) * gpu.sm_count
    needed = count_work(rows, gpu).useful_flops / (measured_s * peak)
    needed = needed[on_tensor(words, gpu)] * 1e-6
    return float(min(np.quantile(needed, 0.999), gpu.clock_boost_mhz)) if needed.size else 0.0


def without_overhead(law: str, found: LawFit) -> LawFit:
    """Return a fit with the set's own overhead put back to the law's prior."""
    prior = {k: laws()[law].priors[k].value for k in OVERHEAD if k in found.values}
    bounds = {
        k: {n: v for n, v in side.items() if n not in OVERHEAD}
        for k, side in (("low", found.low), ("high", found.high))
    }
    return replace(found, values={**found.values, **prior}, low=bounds["low"], high=bounds["high"])


def fit_latency(root: Path, wanted: set[str]) -> None:
    """Fit the GPUs of the latency set: FP32 products, rows and streams."""
    tables: dict[str, list[pl.DataFrame]] = {}
    for gpu, _, table in latency_tables(root / "latency"):
        tables.setdefault(gpu, []).append(table)
    for name, frames in tables.items():
        if wanted and name not in wanted:
            continue
        frame = pl.concat(frames, how="diagonal_relaxed")
        fit, slowed = fit_gpu(frame, load_gpu(name))
        say(name, fit)
        about = {
            "command": "python benchmarks/fit_time.py",
            "data": "FP32 operators of a framework; coefficients leave out its host, bias and throttling",
        }
        if slowed:
            about["slowed_by_power_limit"] = "yes"
        text = time_toml(fit, about=about, source="neusight-labels")
        (CALIBRATIONS / f"{name}.time.toml").write_text(text)


def fit_gpu(frame: pl.DataFrame, gpu: Gpu) -> tuple[TimeFit, bool]:
    """Return the fit of one GPU of the latency set without its loop, and whether its limit slowed it."""
    rows, measured = latency_rows(frame), frame["measured_us"].to_numpy() * 1e-6
    boost = np.array([gpu.clock_boost_mhz])
    clock = predict_rows(rows, gpu, boost).clock_mhz[:, 0]
    products = rows.family == "gemm"
    slowed = throttles(clock[products], gpu)
    # products say themselves how far the limit slows them; the rest wait for memory or end before it acts
    clock = np.full(len(rows), gpu.clock_boost_mhz)
    law = GEMM_VECTOR.name
    fit = fit_time(rows, measured, gpu, clock, around={law: in_loop(GEMM_VECTOR, throttles=slowed)})
    kept = {k: without_overhead(k, found) for k, found in fit.laws.items()}
    some = np.flatnonzero(products)
    habits, untold = with_habits(fit.laws[law].values, rows.take(some), measured[some], gpu, throttles=slowed)
    coefficients = {k: v for k, v in kept[law].values.items() if k in GEMM_VECTOR.priors}
    kept[law] = replace(kept[law], values=coefficients | habits, spread={**kept[law].spread, **untold})
    return TimeFit(gpu.name, kept), slowed


@dataclass(frozen=True)
class GpuRows:
    """Distinct operators measured on one GPU."""

    gpu: Gpu
    rows: OperatorColumns
    measured_s: Floats
    clock_mhz: Floats  # what the power cap leaves of the boost clock

    def of_law(self, name: str) -> LawRows:
        """Return the rows one law predicts."""
        inside = [
            places[chosen]
            for family in sorted(set(self.rows.family.astype(str)))
            for places in (np.flatnonzero(self.rows.family == family),)
            for law, chosen in split_by_law(family, self.rows.take(places), self.gpu)
            if law.name == name
        ]
        places = np.concatenate([np.zeros(0, np.int64), *inside])
        part = self.rows.take(places)
        hertz = self.clock_mhz[places, None] * 1e6
        return LawRows(part, self.measured_s[places], hertz, shape_groups(part, SHAPE_COLUMNS))


def operator_rows(paths: Iterable[Path], wanted: Container[str] = ()) -> Iterator[GpuRows]:
    """Yield the operators of each GPU in some tables as distinct rows, with the median time of equal ones."""
    tables: dict[str, list[pl.DataFrame]] = {}
    for path in paths:
        frame = pl.read_parquet(path)
        tables.setdefault(frame["gpu"][0], []).append(frame.drop("measured_w", "power_limit_w", strict=False))
    for name, frames in tables.items():
        if wanted and name not in wanted:
            continue
        gpu = load_gpu(name)
        frame = pl.concat(frames, how="diagonal_relaxed").with_columns(pl.int_range(pl.len()).alias("count"))
        table = read_table(frame.drop("measured_us", "gpu", "count"))
        measured = frame.with_columns(pl.Series("place", table.index)).group_by("place", maintain_order=True)
        seconds = measured.agg(pl.col("measured_us").median()).sort("place")["measured_us"].to_numpy() * 1e-6
        # what the power cap leaves of the boost clock, by the calibrations delivered so far
        clock = predict_rows(table.rows, gpu, np.array([gpu.clock_boost_mhz])).clock_mhz[:, 0]
        clock = np.maximum(clock, proved_clock_mhz(table.rows, seconds, gpu))
        yield GpuRows(gpu, table.rows, seconds, clock)


def spliced(text: str, fresh: str, law: str) -> str:
    """Return a calibration's text with one law's section and errors taken from a fresh one."""
    about = re.compile(rf"^\w+_{law} = .*\n", re.MULTILINE)
    for line in about.findall(fresh):
        key = line.split(" = ")[0]
        text = re.sub(rf"^{key} = .*\n", lambda _, line=line: line, text, flags=re.MULTILINE)
    section = re.compile(rf"^\[{law}\]\n(?:.+\n)*", re.MULTILINE)
    part = section.search(fresh)
    return section.sub(lambda _: part.group() if part else "", text)


def refit_law(law: str, measured: GpuRows, about: Mapping[str, str]) -> None:
    """Fit one law of a GPU anew and write it into the GPU's calibration."""
    path = CALIBRATIONS / f"{measured.gpu.name}.time.toml"
    rows = measured.of_law(law)
    if not len(rows.measured_s) or f"\n[{law}]\n" not in path.read_text():
        return
    fit = TimeFit(measured.gpu.name, {law: fit_law(laws()[law], rows, measured.gpu, {})})
    fresh = time_toml(with_told(fit), about=about, source="aiconfigurator-perf")
    path.write_text(spliced(path.read_text(), fresh, law))
    say(measured.gpu.name, fit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=HERE.parent / "shared" / "data")
    parser.add_argument("gpus", nargs="*")
    parser.add_argument("--law", choices=sorted(laws()))
    given = parser.parse_args()
    about = {"command": "python benchmarks/fit_time.py", "data": "single operators, loops of replays"}
    began = time.time()
    for measured in operator_rows(sorted((given.root / "ops").glob("*.parquet")), given.gpus):
        name = measured.gpu.name
        if given.law:
            refit_law(given.law, measured, about)
        else:
            fit = fit_time(measured.rows, measured.measured_s, measured.gpu, measured.clock_mhz)
            text = time_toml(with_told(fit), about=about, source="aiconfigurator-perf")
            (CALIBRATIONS / f"{name}.time.toml").write_text(text)
            say(name, fit)
        print(f"{name}: {time.time() - began:.0f} s since the start", flush=True)
    if not given.law:
        fit_latency(given.root, set(given.gpus))


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
