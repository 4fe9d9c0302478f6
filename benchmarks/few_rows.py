"""How good a calibration from a few rows of a GPU and a library nobody measured is.

usage: python benchmarks/few_rows.py [DATA_ROOT] [--gpu NAME] [--operator END ...] [--law LAW ...]
           [--rows COUNT ...] [--folder FOLDER]

Every implementation is fitted without the GPU, then 10, 50 and 200 rows, or COUNT, of each of its tables are
given to ``tracetool calibrate``'s fit; the median error is of the table's other rows. Which rows are given
matters where they are few: of fewer than 100 five draws are made.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from fit_stacks import sets_of
from kept_fits import fitted_set
from stack_tables import Cell, cells

from tracetool.calibrate.few_rows import fit_few, fit_from_known
from tracetool.calibrate.joint import GpuRows, errors
from tracetool.calibrate.law_fit import LEAST_ROWS
from tracetool.families.implementations import Implementation
from tracetool.families.pricing import laws

HERE = Path(__file__).resolve().parent.parent
COUNTS = (10, 50, 200)
#: Draws of fewer rows than a law is fitted to alone. [1] A setting of the benchmark.
DRAWS = 5


def error_after(cell: Cell, count: int, every: list[Implementation]) -> tuple[float, float]:
    """Return the median error on other rows, and the share of them inside the interval, both mean. [%]"""
    law, data, gpu = laws()[cell.law], cell.part.law_rows, cell.part.gpu
    of_law = [one for one in every if cell.law in one.laws]
    found = []
    for draw in range(DRAWS if count < LEAST_ROWS else 1):
        order = np.random.default_rng([count, draw]).permutation(len(data.measured_s))
        mine, rest = data.take(order[:count]), data.take(order[count : count + 1000])
        if count < LEAST_ROWS:
            fit = fit_few(law, mine, gpu, {}, law.spread, of_law)
        else:
            fit = fit_from_known(law, mine, gpu, {}, of_law)
        off = -errors(law, GpuRows(gpu, rest), fit.values)
        low, high = fit.spread[""]
        found.append((np.median(np.abs(np.expm1(-off))), ((off >= low) & (off <= high)).mean()))
    error, inside = np.mean(found, axis=0) * 100.0
    return float(error), float(inside)


def known_without(every: list[Cell], gpu: str, folder: Path | None) -> list[Implementation]:
    """Return the implementations fitted without a GPU."""
    others = sets_of(c for c in every if c.part.gpu.name != gpu)
    return [fitted_set(*key, of_set, folder).implementation() for key, of_set in others.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=HERE.parent / "shared" / "data")
    parser.add_argument("--gpu", default="b200-sxm")
    parser.add_argument("--operator", nargs="*", default=["_prefill", "_decode", "_gemm"])
    parser.add_argument("--law", nargs="*", default=["prefill", "decode", "gemm_fp8", "gemm_fp8_block"])
    parser.add_argument("--rows", nargs="*", type=int, default=COUNTS)
    parser.add_argument("--folder", type=Path, help="folder of fits, to go on from where it was cut short")
    given = parser.parse_args()
    paths = {p for end in given.operator for p in (given.root / "stacks").glob(f"*{end}.parquet")}
    every = list(cells(paths, given.law))
    known = known_without(every, given.gpu, given.folder)
    table: dict[int, list[tuple[float, float]]] = {}
    for cell in every:
        if cell.part.gpu.name != given.gpu or len(cell.part.law_rows.measured_s) < 400:
            continue
        found = {count: error_after(cell, count, known) for count in given.rows}
        told = "  ".join(
            f"{count} rows {error:.1f} ({inside:.0f})" for count, (error, inside) in found.items()
        )
        print(f"{cell.law:15s} {cell.stack:18s} {cell.implementation:40s} {told}", flush=True)
        for count, one in found.items():
            table.setdefault(count, []).append(one)
    for count, rows in table.items():
        error, inside = np.median([r[0] for r in rows]), np.mean([r[1] for r in rows])
        print(f"{count} rows: median of MdAPE {error:.1f} %, 90 % interval holds {inside:.0f} %")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
