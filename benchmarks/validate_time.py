"""How far the time model can be trusted: extrapolation, unseen GPUs, and a black box on the same rows.

usage: python benchmarks/validate_time.py [DATA_ROOT] [extrapolate | gpus | order] [PART_OF_A_FILE_NAME ...]

extrapolate: fit on the half of the shapes with least work, tested on the other half, against boosted trees.
GPUs:      FP32 operators on a GPU whose coefficients come from the other GPUs alone.
order:       what batches of FP32 products, in the order they were measured in, tell of the GPUs' clocks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from latency_loop import Setting, fitted_loop, throttles
from latency_tables import latency_rows, latency_tables, without_tiles

from tracetool.calibrate.fit_time_laws import fit_time
from tracetool.calibrate.law_fit import shape_groups
from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.registry import count_work
from tracetool.hardware.coefficient_files import calibrated_gpus, own_calibration
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.model.time_files import merged, time_calibration_of
from tracetool.model.timing import row_pieces
from tracetool.replay.operator_tables import read_table

HERE = Path(__file__).resolve().parent.parent


def off(predicted: Floats, measured: Floats) -> str:
    error = np.abs(predicted / measured - 1.0) * 100.0
    return f"MAPE {error.mean():6.1f} % MdAPE {np.median(error):6.1f} %"


def _features(rows: OperatorColumns) -> Floats:
    """Everything a black box may look at: logarithms of the numbers, codes of the texts."""
    made = []
    for values in rows.columns.values():
        if values.dtype == object:
            made.append(np.unique(values.astype(str), return_inverse=True)[1].reshape(-1).astype(np.float64))
        else:
            made.append(np.log2(np.maximum(np.nan_to_num(values, nan=0.0), 0.5)))
    return np.stack(made, axis=1)


def black_box(rows: OperatorColumns, measured: Floats, seen: Ints, asked: Ints) -> Floats | None:
    """Boosted trees on the logarithm of the time; None without scikit-learn."""
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor  # type: ignore[import,unused-ignore]
    except ImportError:
        return None
    table = _features(rows)
    model = HistGradientBoostingRegressor(max_iter=400, learning_rate=0.06, random_state=0)
    model.fit(table[seen], np.log(measured[seen]))
    return np.asarray(np.exp(model.predict(table[asked])))


def extrapolate(root: Path, wanted: Sequence[str]) -> None:
    for path in sorted((root / "ops").glob("*.parquet")):
        if wanted and not any(part in path.stem for part in wanted):
            continue
        frame = pl.read_parquet(path)
        gpu = load_gpu(frame["gpu"][0])
        table = read_table(frame.drop("measured_us", "gpu", "measured_w", "power_limit_w", strict=False))
        measured = np.zeros(len(table.rows))
        measured[table.index] = frame["measured_us"].to_numpy() * 1e-6
        work = count_work(table.rows, gpu)
        size = work.useful_flops * work.dram_bytes
        small, large = np.flatnonzero(size <= np.median(size)), np.flatnonzero(size > np.median(size))
        some, rest = table.rows.take(small), table.rows.take(large)
        boost = np.array([gpu.clock_boost_mhz])
        fit = fit_time(some, measured[small], gpu, predict_rows(some, gpu, boost).clock_mhz[:, 0])
        given = replace(time_calibration_of(gpu), law_basis={})
        given = replace(given, coefficients={**given.coefficients, **fit.calibration().coefficients})
        found = predict_rows(rest, gpu, boost, time_calibration=given).timing.duration_s[:, 0]
        boxed = black_box(table.rows, measured, small, large)
        told = "scikit-learn is not installed" if boxed is None else off(boxed, measured[large])
        print(
            f"{path.stem:40s} small to large: model {off(found, measured[large])}   trees {told}", flush=True
        )


def left_out_gpus(root: Path) -> None:
    """Print each GPU's error with its own calibration and without it, told its tiles and from shapes.

    What the set's loop adds to a GPU is fitted to a third of the shapes; the errors are of the others. Own
    coefficients have seen every row: errors and coverage held back are what ``fit_time.py`` prints.
    """
    files = {n: own_calibration(n, "time") for n in calibrated_gpus("time")}
    held: dict[str, list[Bools]] = {}
    for name, kind, table in latency_tables(root / "latency"):
        gpu = load_gpu(name)
        donors = [(load_gpu(n), f) for n, f in files.items() if n != name and f is not None]
        rows, measured = latency_rows(table), table["measured_us"].to_numpy() * 1e-6
        clock = np.full(len(rows), gpu.clock_boost_mhz)
        settled = predict_rows(rows, gpu, clock[:1]).clock_mhz[:, 0]
        slowed = bool((rows.family == "gemm").all()) and throttles(settled, gpu)
        told, setting, hertz = shape_groups(rows) % 3 == 0, Setting.of(rows, gpu), clock[:, None] * 1e6
        for label, given in (
            ("own", merged(gpu, files.get(name), [])),
            ("left out", merged(gpu, None, donors)),
        ):
            for said, asked in (("", rows), (" from shapes", without_tiles(rows))):
                if said and not (rows.family == "gemm").all():
                    continue
                found = row_pieces(asked, gpu, given)
                loop = fitted_loop(found.pieces, hertz, setting, measured, throttles=slowed, chosen=told)
                made = loop.seconds(found.pieces, hertz, setting)
                ratio, rest = measured / made, ~told
                inside = (ratio >= found.low) & (ratio <= found.high)
                if "left" in label:
                    held.setdefault(label + said, []).append(inside[rest])
                print(
                    f"{name:16s} {kind:10s} {label + said:20s} host {loop.host_us:3.0f} us  "
                    f"{off(made[rest], measured[rest])}"
                    + (f"  interval holds {inside[rest].mean() * 100.0:5.1f} %" if "left" in label else ""),
                    flush=True,
                )
    for label, inside_of in held.items():
        every = [h.mean() * 100.0 for h in inside_of]
        print(f"{label:20s} intervals hold {np.mean(every):.1f} % on average, {min(every):.1f} % at least")


def order(root: Path) -> None:
    """Print how alike the errors of neighbors are, and the clock that batches measured early ran at."""
    for name, kind, table in latency_tables(root / "latency"):
        gpu, rows = load_gpu(name), latency_rows(table)
        setting = Setting.of(rows, gpu)
        if not np.isfinite(setting.order).any():
            continue
        measured, hertz = table["measured_us"].to_numpy() * 1e-6, np.full((len(rows), 1), gpu.clock_boost_mhz)
        pieces, every, hertz = row_pieces(rows, gpu).pieces, np.ones(len(rows), bool), hertz * 1e6
        loop = fitted_loop(pieces, hertz, setting, measured, throttles=name == "t4", chosen=every)
        error = np.log(measured / replace(loop, begin=1.0).seconds(pieces, hertz, setting))
        left = np.log(measured / loop.seconds(pieces, hertz, setting))
        turn = np.argsort(setting.order, kind="stable")
        alike = [float(np.corrcoef(e[:-1], e[1:])[0, 1]) for e in (error, error[turn], left[turn])]
        print(
            f"{name:16s} {kind}: neighbors correlate {alike[0]:.2f} in the file, {alike[1]:.2f} in "
            f"the measured order, {alike[2]:.2f} with a clock begun at {loop.begin:.2f} of boost and is "
            f"half way up after {loop.settle:.0f}"
        )
        core = pieces.core_cycles > 1.5 * hertz[:, 0] * (pieces.memory_s + loop.host_us * 1e-6)
        for start in range(0, 3240, 540):
            some = core & (setting.order >= start) & (setting.order < start + 540) & (measured < 6e-4)
            if some.sum() > 4:
                low, middle, high = np.quantile(np.exp(-error[some]), [0.25, 0.5, 0.75])
                said = f"{middle:.2f} ({low:.2f} to {high:.2f}) of boost"
                print(f"    from {start:4d}: {some.sum():3d} rows, {said}")


def main() -> None:
    asked = sys.argv[1:]
    root = Path(asked.pop(0)) if asked and Path(asked[0]).is_dir() else HERE.parent / "shared" / "data"
    if not asked or "gpus" in asked:
        left_out_gpus(root)
    if not asked or "order" in asked:
        order(root)
    if not asked or "extrapolate" in asked:
        extrapolate(root, [word for word in asked if word not in {"gpus", "extrapolate", "order"}])


if __name__ == "__main__":
    main()
