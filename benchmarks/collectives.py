"""How well collectives are predicted: on sizes held out, a GPU left out, a library left out.

Usage: python benchmarks/collectives.py [FOLDER] [--write]   (default folder: ../shared/data/stacks)

Prints median absolute errors and how many rows the 90 % intervals hold by cell, and counts coefficients.
``--write`` puts the fit and its bands in the files the package reads; see ``fit_collectives.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from fit_collectives import FOLDER, Fit, Parameters, Rows, fit, folds, load_rows
from write_collectives import write

from tracetool.core.arrays import Floats, Texts
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.coefficient_files import CalibrationFile
from tracetool.hardware.load import load_gpu
from tracetool.hardware.number import Number
from tracetool.model.time_calibration import TimeCalibration, spread_key
from tracetool.model.time_files import merged

FOLDS = 5
LEFT_OUT = "library left out"
#: Shares of rows below and above a 90 % interval.
TAILS = (0.05, 0.95)
#: Libraries whose own kernels can be left out, and how their names begin.
LIBRARIES = {"vllm": "vLLM_custom", "sglang": "SGLang_CustomAllReduce", "trtllm": "TRTLLM"}

Band = tuple[float, float]
Bands = Mapping[str, Band]


@dataclass(frozen=True)
class Judged:
    """Rows with ln(predicted / measured) and whether the interval holds what was measured."""

    rows: Rows
    errors: Floats
    held: Floats

    def frame(self, setting: str) -> pl.DataFrame:
        """Return one row for each."""
        return self.rows.frame.select(
            "gpu", "stack", "implementation", "kind", "ranks", "bytes", pl.lit(setting).alias("setting")
        ).with_columns(pl.Series("error", self.errors), pl.Series("held", self.held))


def kinds(rows: Rows, columns: OperatorColumns | None = None) -> list[str]:
    """Return the kind of band of each row."""
    return [rows.law.kinds[place] for place in rows.law.kind(columns or rows.columns).tolist()]


def band(errors: Floats, group: Texts | None = None) -> Band:
    """Return the 90 % band of ln(measured / predicted), each group counting alike."""
    group = np.zeros(errors.size) if group is None else group
    _, place, counts = np.unique(group, return_inverse=True, return_counts=True)
    low, high = np.quantile(-errors, TAILS, weights=1.0 / counts[place], method="inverted_cdf")
    return float(low), float(high)


def bands_of(rows: Rows, errors: Floats) -> dict[str, Band]:
    """Return the band of all rows under "" and of each kind that occurs."""
    of = np.array(kinds(rows))
    return {"": band(errors)} | {kind: band(errors[of == kind]) for kind in sorted({*of.tolist()})}


def hold(rows: Rows, errors: Floats, bands: Bands) -> Floats:
    """Return 1 for each row whose interval holds what was measured."""
    low, high = np.array([bands.get(kind, bands[""]) for kind in kinds(rows)]).T
    return ((low <= -errors) & (-errors <= high)).astype(float)


def sizes_left_out(parts: Sequence[Rows], whole: Fit) -> list[Judged]:
    """Return each row as predicted by the other four fifths of its sizes, in bands of those."""
    errors = [np.zeros(part.measured_us.size) for part in parts]
    fold_of = [folds(part, FOLDS) for part in parts]
    for fold in range(FOLDS):
        found = fit([part.take(of != fold) for part, of in zip(parts, fold_of, strict=True)], whole, nfev=12)
        for part, of, error in zip(parts, fold_of, errors, strict=True):
            error[of == fold] = part.take(of == fold).errors(found.of(part))
    judged = []
    for part, of, error in zip(parts, fold_of, errors, strict=True):
        held = np.zeros(error.size)
        for fold in range(FOLDS):
            others = bands_of(part.take(of != fold), error[of != fold])
            held[of == fold] = hold(part.take(of == fold), error[of == fold], others)
        judged.append(Judged(part, error, held))
    return judged


def calibration_of(gpu: str, found: Fit, bands: Mapping[str, Mapping[str, Bands]]) -> CalibrationFile:
    """Return a GPU's factors and bands as a calibration file states them."""
    sections = {}
    for law, by_kind in bands[gpu].items():
        numbers = {
            key: Number(value, "1", "fitted", "fit")
            for key, value in found.factors.get(gpu, {}).get(law, {}).items()
        }
        for kind, (low, high) in by_kind.items():
            for side, value in (("low", low), ("high", high)):
                numbers[f"spread_{side}_{kind}".rstrip("_")] = Number(value, "1", "fitted", "fit")
        sections[law] = numbers
    return CalibrationFile(gpu, sections)


def gpu_left_out(
    parts: Sequence[Rows], whole: Fit, bands: Mapping[str, Mapping[str, Bands]]
) -> Iterator[Judged]:
    """Yield the rows of each GPU as the others' fit and bands predict them."""
    for gpu in dict.fromkeys(part.gpu.name for part in parts):
        own = [part for part in parts if part.gpu.name == gpu]
        others = [part for part in parts if part.gpu.name != gpu]
        found = fit(others, whole, nfev=20)
        donors = [
            (load_gpu(name), calibration_of(name, found, bands))
            for name in dict.fromkeys(part.gpu.name for part in others)
        ]
        made = merged(load_gpu(gpu), None, donors)
        for part in own:
            if part.law.name not in found.habits or not any(o.law.name == part.law.name for o in others):
                continue  # no other GPU of its kind of link was measured
            errors = part.errors({**found.habits[part.law.name], **made.coefficients.get(part.law.name, {})})
            yield Judged(part, errors, hold(part, errors, _transferred(part, made)))


def _transferred(part: Rows, made: TimeCalibration) -> Bands:
    name = part.law.name
    every = made.spread.get(name, part.law.spread)
    return {"": every} | {kind: made.spread.get(spread_key(name, kind), every) for kind in part.law.kinds}


def library_left_out(parts: Sequence[Rows], whole: Fit) -> Iterator[tuple[str, Rows, Floats, Floats]]:
    """Yield each library's own all-reduces, and their errors by others' kernels: told by its source, and not.

    Source tells the sizes from which a library runs what, and how often its ranks wait for one another.
    """
    for library, start in LIBRARIES.items():
        mine = [part.frame["implementation"].str.starts_with(start).to_numpy() for part in parts]
        found = fit([part.take(~of) for part, of in zip(parts, mine, strict=True)], whole, nfev=12)
        for part, of in zip(parts, mine, strict=True):
            if not of.any():
                continue
            left = part.take(of)
            eager = launched(left)
            by_source, untold = [], []
            for other, name in LIBRARIES.items():
                if other == library or (other == "trtllm" and eager.any()):
                    continue
                of_other = as_of(library, other, {**priors_of(part), **found.of(part)})
                by_source.append(np.log(left.predicted_us(of_other)))
                renamed = np.where(eager, f"{name}_eager", f"{name}_graph" if other != "trtllm" else name)
                columns = {**left.columns.columns, "implementation": renamed.astype(object)}
                columns.pop("stack")
                as_other = replace(left, columns=OperatorColumns(left.columns.family, columns))
                untold.append(np.log(as_other.predicted_us(found.of(part))))
            measured = np.log(left.measured_us)
            yield library, left, np.mean(by_source, axis=0) - measured, np.mean(untold, axis=0) - measured


def inside_of_others(
    library: str, rows: Rows, errors: Floats, outside: Sequence[tuple[str, Rows, Floats, Floats]]
) -> Floats:
    """Return which errors are no larger than 90 % of other libraries' left out, from Python and not apart."""
    held, eager = np.zeros(len(errors)), launched(rows)
    for way in (True, False):
        off = [
            np.abs(found[launched(one) == way])
            for other, one, found, _ in outside
            if other != library and one.law.name == rows.law.name
        ]
        if len(every := np.concatenate(off)):
            held[eager == way] = np.abs(errors[eager == way]) <= np.quantile(every, 0.9)
    return held


def launched(rows: Rows) -> Floats:
    """Return which rows Python launches one by one. Shape (n,)."""
    return rows.frame["implementation"].str.ends_with("_eager").to_numpy()


def priors_of(part: Rows) -> dict[str, float]:
    """Return the priors of some rows' law."""
    return {key: one.value for key, one in part.law.priors.items()}


def as_of(library: str, other: str, c: Mapping[str, float]) -> dict[str, float]:
    """Return coefficients in which one library's kernels are another's.

    Where only the library calls PyTorch's symmetric memory, its ranks are taken to wait for one another twice
    and to read as in two shots.
    """
    start = f"{other}_"
    of_other = {key.removeprefix(start): value for key, value in c.items() if key.startswith(start)}
    if "two_start" in of_other:
        of_other = {
            "symmetric_start": 2.0 * of_other["two_start"],
            "added_share": of_other["two_share"], "symmetric_share": of_other["two_share"], **of_other,
        }  # fmt: skip
    return {**c, **{f"{library}_{key}": value for key, value in of_other.items() if f"{library}_{key}" in c}}


def not_stated(part: Rows, found: Fit) -> Floats:
    """Return the errors of rows that state no library."""
    columns = {
        k: v for k, v in part.columns.columns.items() if k not in ("implementation", "backend", "stack")
    }
    return replace(part, columns=OperatorColumns(part.columns.family, columns)).errors(found.of(part))


def table(frame: pl.DataFrame) -> Iterator[str]:
    """Yield a line for each cell, and one for each setting."""
    error = (((pl.col("error").exp() - 1.0).abs().median()) * 100).alias("mdape")
    held = (pl.col("held").mean() * 100).alias("held_pct")
    cells = frame.group_by("setting", "gpu", "stack", "implementation", maintain_order=True).agg(
        pl.len(), error, held
    )
    for row in cells.iter_rows(named=True):
        yield (
            f"{row['setting']:18s} {row['gpu']:10s} {row['stack']:18s} {row['implementation']:30s}"
            f"{row['len']:5d} rows  MdAPE {row['mdape']:5.1f} %  interval holds {row['held_pct']:4.0f} %"
        )
    for (setting,), part in frame.group_by("setting", maintain_order=True):
        of = cells.filter(pl.col("setting") == setting)
        both = part.select(error, held).row(0)
        yield (
            f"{setting}: median over cells {of['mdape'].median():.1f} %, all rows {both[0]:.1f} %,"
            f" intervals hold {both[1]:.0f} % of the rows"
        )


def main() -> None:
    """Fit, print, and write where asked."""
    folder = Path(next((a for a in sys.argv[1:] if not a.startswith("--")), str(FOLDER)))
    parts = load_rows(folder)
    whole = fit(parts)
    inside = sizes_left_out(parts, whole)
    bands: dict[str, dict[str, dict[str, Band]]] = {}
    for one in inside:
        bands.setdefault(one.rows.gpu.name, {})[one.rows.law.name] = bands_of(one.rows, one.errors)
    for part in parts:
        bands[part.gpu.name][part.law.name]["unstated"] = band(
            not_stated(part, whole), part.frame["implementation"].to_numpy()
        )
    outside = list(library_left_out(parts, whole))
    for law in {rows.law.name for _, rows, *_ in outside}:
        others = band(np.concatenate([off for _, rows, _, off in outside if rows.law.name == law]))
        for by_law in bands.values():
            if law in by_law:
                by_law[law]["other"] = others
    frames = [one.frame("sizes held out") for one in inside]
    frames += [one.frame("GPU left out") for one in gpu_left_out(parts, whole, bands)]
    for library, rows, by_source, untold in outside:
        held = inside_of_others(library, rows, by_source, outside)
        frames.append(Judged(rows, by_source, held).frame(LEFT_OUT))
        held = _inside(untold, bands[rows.gpu.name][rows.law.name]["other"])
        frames.append(Judged(rows, untold, held).frame("source not asked"))
    frames += [
        Judged(part, errors, _inside(errors, bands[part.gpu.name][part.law.name]["unstated"])).frame(
            "none stated"
        )
        for part in parts
        for errors in (not_stated(part, whole),)
    ]
    print("\n".join(table(pl.concat(frames))))
    names = Parameters(parts).names
    shared = sum(not gpu for gpu, *_ in names)
    cells = pl.concat([p.frame for p in parts]).select("gpu", "implementation").n_unique()
    print(
        f"coefficients: {shared} habits every GPU shares, {len(names) - shared} factors of {len(bands)} GPUs,"
        f" for {cells} cells: {len(names) / cells:.1f} a cell"
    )
    if "--write" in sys.argv:
        write(whole, bands, inside)


def _inside(errors: Floats, of: Band) -> Floats:
    return ((of[0] <= -errors) & (-errors <= of[1])).astype(float)


if __name__ == "__main__":
    main()
