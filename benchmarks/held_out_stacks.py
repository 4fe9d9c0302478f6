"""How far off implementations' coefficients are where they were not fitted, and what intervals hold.

usage: python benchmarks/held_out_stacks.py [DATA_ROOT] [--law LAW ...]
           [--operator END ...] [--setting SETTING ...] [--gpu GPU ...] [--delivered] [--write] [--jobs N]
           [--folder FOLDER]

Prints, by operator, the median error and the share of rows inside the 90 % interval with held back: groups of
shapes, a version of the library, a whole GPU, an architecture of several, a whole library. ``--write`` puts
the coefficients, as fit_stacks.py does, and the bands of what was left out into tracetool/families and
tracetool/families/<group>. Coefficients are counted.
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from fit_stacks import FittedSet, say, sets_of, with_bands
from fit_stacks import write as write_sets
from kept_fits import fitted_set
from stack_tables import Cell, cells, version_cells
from transfer_bands import WIDE, Scored, other_kernel, transfer, version_factor, write

from tracetool.calibrate.joint import GpuRows
from tracetool.families.implementations import Implementation, TransferBands, library_of, typical_beside
from tracetool.families.pieces import duration_s
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.model.candidates import is_known
from tracetool.model.chip_scaling import widening
from tracetool.model.eligible_implementations import ANOTHER_KERNEL, in_other_library, members
from tracetool.model.library_dispatch import dispatched, has_rule
from tracetool.model.mixtures import Member, member_pieces
from tracetool.model.unmeasured_libraries import known_by_source

HERE = Path(__file__).resolve().parent.parent
#: Rows of a cell that are looked at.
ROWS = 1500
#: Bands and factors before anything is left out.
NOTHING = TransferBands((WIDE[0] / typical_beside((0.0, 0.0)), WIDE[1] / typical_beside((0.0, 0.0))), WIDE)
SETTINGS = ("shapes", "version", "gpu", "architecture", "library", "implementation")


def taken(part: GpuRows, most: int = ROWS) -> GpuRows:
    """Return the rows of a cell that are looked at."""
    count = len(part.law_rows.measured_s)
    if count <= most:
        return part
    return GpuRows(part.gpu, part.law_rows.take(np.random.default_rng(3).permutation(count)[:most]))


def score(setting: str, cell: Cell, registry: tuple[Implementation, ...], bands: TransferBands) -> Scored:
    """Predict a cell's rows with the implementations given, of a library left out as its tables name them.

    Rows that state their library alone take the kernels that its source tells.
    """
    law, gpu, data = laws()[cell.law], cell.part.gpu, taken(cell.part).law_rows
    of_law = tuple(one for one in registry if cell.law in one.laws)
    known = is_known(cell.law, cell.stack, of_law)
    n = len(data.measured_s)
    error, needed, width, inside = np.empty(n), np.empty(n), np.empty(n), np.empty(n, dtype=np.bool_)
    alone, stood_for = [], []
    kernels = [(cell.implementation, np.arange(n))]
    if not cell.implementation and has_rule(law):
        kernels = dispatched(law, data.rows, gpu, cell.stack)
    for name, places in kernels:
        part = data.take(places)
        every = members(law, gpu, cell.stack, name, registry, bands)
        pieces, low, high = member_pieces(law, part.rows, gpu, every, one_ran=known)
        off = np.log(part.measured_s / duration_s(pieces, part.hertz)[:, 0])
        error[places] = off = np.where(np.isfinite(off), off, 3.0)
        needed[places] = np.where(off > 0, off / np.maximum(high, 0.02), off / np.minimum(low, -0.02))
        if not known and not known_by_source(every):
            low, high = (in_other_library(side, bands.other_library) for side in (low, high))
        inside[places], width[places] = (off >= low) & (off <= high), high - low
        alone.append(len(every) == 1 and every[0].basis != "prior")
        stood_for.append(any(ANOTHER_KERNEL in one.basis for one in every))
    fitted = {load_gpu(g).architecture for one in of_law for g in one.laws[cell.law].gpus}
    return Scored(
        setting, cell.operator, cell.law, gpu.name, cell.stack, cell.implementation, cell.set_name,
        gpu.architecture in fitted, all(alone), all(stood_for), scale_of(cell, every[0], of_law),
        error, inside, needed, float(width.mean()),
    )  # fmt: skip


def scale_of(cell: Cell, answer: Member, registry: Iterable[Implementation]) -> float:
    """Return the scale of a cell's bounds where its GPU was not measured; 0 where the law itself was not."""
    gpu, told = cell.part.gpu, [one.laws[cell.law] for one in registry if one.name == answer.name]
    if not told:
        return 0.0
    if gpu.architecture in told[0].architectures:
        return typical_beside(told[0].band_on(gpu.architecture, cell.stack))
    return widening(gpu, [load_gpu(name) for name in told[0].gpus])


def registry_of(fitted: Iterable[FittedSet]) -> tuple[Implementation, ...]:
    """Return the implementations of fitted sets, each with all its laws."""
    found: dict[str, Implementation] = {}
    for one in fitted:
        new = one.implementation()
        old = found.get(new.name, new)
        found[new.name] = replace(new, names=old.names | new.names, laws={**old.laws, **new.laws})
    return tuple(found.values())


def _refit(one: tuple[str, str, list[Cell], Path | None]) -> FittedSet:
    return fitted_set(*one)


def left_out(
    every: Sequence[Cell],
    whole: Mapping[tuple[str, str], FittedSet],
    settings: Container[str],
    jobs: int,
    only: Container[str] = (),
    folder: Path | None = None,
) -> list[tuple[str, str, list[Cell], list[FittedSet]]]:
    """Return what is tested and the sets fitted without, for each GPU, architecture and library left out.

    GPUs of those named if any; architectures that several GPUs are of.
    """
    tasks: list[tuple[str, str, tuple[str, str], list[Cell]]] = []
    kept: dict[tuple[str, str], list[FittedSet]] = {}
    gpus = sorted({c.part.gpu.name for c in every if not only or c.part.gpu.name in only})
    libraries = sorted({library_of(c.stack) for c in every})
    every_gpu = {c.part.gpu.name: c.part.gpu.architecture for c in every}
    several = sorted(name for name, n in Counter(every_gpu.values()).items() if n > 1)
    named = (("gpu", gpus), ("architecture", several), ("library", libraries))
    values_of = {setting: values for setting, values in named if setting in settings}
    for setting, values in values_of.items():
        for value in values:
            for key, one in whole.items():
                rest = [c for c in one.cells if _value(c, setting) != value]
                if len(rest) == len(one.cells):
                    kept.setdefault((setting, value), []).append(one)
                elif rest:
                    tasks.append((setting, value, key, rest))
    with ProcessPoolExecutor(jobs) as pool:
        refits = list(pool.map(_refit, [(*key, rest, folder) for _, _, key, rest in tasks]))
    for (setting, value, _, _), one in zip(tasks, refits, strict=True):
        kept.setdefault((setting, value), []).append(one)
    return [
        (setting, value, [c for c in every if _value(c, setting) == value], kept.get((setting, value), []))
        for setting, values in values_of.items()
        for value in values
    ]


def _value(cell: Cell, setting: str) -> str:
    gpu = cell.part.gpu
    of = {"gpu": gpu.name, "architecture": gpu.architecture}
    return of[setting] if setting in of else library_of(cell.stack)


def run(
    every: list[Cell],
    versions: list[Cell],
    settings: Container[str],
    jobs: int,
    *,
    delivered: bool,
    unnamed: bool,
    only: Container[str] = (),
    folder: Path | None = None,
    others: Sequence[Scored] = (),
) -> tuple[list[Scored], list[FittedSet], list[Scored], dict[str, float]]:
    """Fit and score every setting; then scores without factors, and shares of other kernels by law.

    ``others`` are such scores of operators that are not among ``every``.
    """
    sets = [(*key, of_set) for key, of_set in sets_of(every).items()]
    if delivered:
        fitted = [one for one in (with_bands(*a_set) for a_set in sets) if one is not None]
    else:
        with ProcessPoolExecutor(jobs) as pool:
            fitted = list(pool.map(_refit, [(*one, folder) for one in sets]))
    whole = {(one.law, one.name): one for one in fitted}
    registry = registry_of(fitted)
    scored = [
        score("shapes", replace(cell, part=cell.half(1)), registry, NOTHING)
        for cell in every
        if (cell.law, cell.set_name) in whole
    ]
    trials = [("version", c.part.gpu.name, c, registry) for c in versions]
    for setting, value, tested, rest in left_out(every, whole, settings, jobs, only, folder):
        told = [replace(cell, implementation="") for cell in tested] if unnamed else tested
        trials += [(setting, value, cell, registry_of(rest)) for cell in told]
    if "implementation" in settings:
        trials += [one for cell in every for one in without_set(cell, whole)]
    trials = [one for one in trials if _fitted(one[2], one[3])]
    first = [score(setting, cell, known, NOTHING) for setting, _, cell, known in trials]
    # then as if some ran another kernel, whose share is told by the others
    again = [
        score(setting, cell, known, replace(NOTHING, swapped=other_kernel(first, cell.law, value)))
        for setting, value, cell, known in trials
    ]
    for setting, value, cell, known in trials:
        bands = transfer([*again, *others], cell.law, other_kernel(first, cell.law, value), value)
        if setting == "version":
            newer = version_factor(again, cell.law, value)
            bands = replace(NOTHING, other_version=newer, swapped=bands.swapped)
        if setting == "implementation":
            without_library = transfer(again, cell.law, bands.swapped, library_of(cell.stack))
            bands = replace(bands, other_library=without_library.other_library)
        scored.append(score(setting, cell, known, bands))
    return scored, fitted, again, {c.law: other_kernel(first, c.law) for c in every}


def without_set(
    cell: Cell, whole: Mapping[tuple[str, str], FittedSet]
) -> list[tuple[str, str, Cell, tuple[Implementation, ...]]]:
    """Return a named cell beside the sets but its own, where its library has others."""
    rest = [one for key, one in whole.items() if key != (cell.law, cell.set_name)]
    library = library_of(cell.stack)
    has_others = any(
        one.law == cell.law and library in {library_of(other.stack) for other in one.cells} for one in rest
    )
    if not (cell.implementation and has_others and (cell.law, cell.set_name) in whole):
        return []
    return [("implementation", cell.set_name, cell, registry_of(rest))]


def _fitted(cell: Cell, registry: Iterable[Implementation]) -> bool:
    return any(cell.law in one.laws for one in registry)


def median_percent(some: Sequence[Scored]) -> float:
    """Return the median absolute error of cells together. [%]"""
    return float(np.median(np.abs(np.expm1(-np.concatenate([s.error for s in some])))) * 100.0)


def gpu_text(some: Sequence[tuple[float, Scored]]) -> str:
    """Return the median of errors [%], the share of rows inside [%] and the width of cells."""
    inside = np.concatenate([one.inside for _, one in some]).mean() * 100.0
    width = np.mean([one.width for _, one in some])
    return f"{np.median([error for error, _ in some]):.1f} ({inside:.0f}, {width:.2f})"


def table(scored: Sequence[Scored]) -> None:
    """Print the median over tables and over cells of the median error, and rows inside, by operator.

    By GPU the median over cells, rows inside, and the mean of ln(high / low) over cells.
    """
    for setting in SETTINGS:
        print(f"\n{setting} held back: median over tables of MdAPE [%]; over implementations of tables;")
        print("  rows inside the 90 % interval [%]; by GPU, over implementations [%], rows inside [%], width")
        for operator in sorted({s.operator for s in scored if s.setting == setting}):
            rows = [s for s in scored if (s.setting, s.operator) == (setting, operator)]
            every = [median_percent([s]) for s in rows]
            tables = {
                (s.gpu, s.stack): [t for t in rows if (t.gpu, t.stack) == (s.gpu, s.stack)] for s in rows
            }
            by_table = [median_percent(some) for some in tables.values()]
            inside = np.concatenate([s.inside for s in rows]).mean() * 100.0
            by_gpu = "  ".join(
                f"{g} {gpu_text([(e, s) for e, s in zip(every, rows, strict=True) if s.gpu == g])}"
                for g in sorted({s.gpu for s in rows})
            )
            medians = f"{np.median(by_table):6.1f} {np.median(every):6.1f}"
            print(f"  {operator:14s} {medians} {inside:6.1f}   {by_gpu}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=HERE.parent / "shared" / "data")
    parser.add_argument("--law", nargs="*", default=[])
    parser.add_argument("--operator", nargs="*", default=[""])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--unnamed", action="store_true", help="as if no table stated its implementation")
    parser.add_argument("--setting", nargs="*", default=SETTINGS, choices=SETTINGS)
    parser.add_argument("--gpu", nargs="*", default=[], help="the only GPUs to leave out")
    parser.add_argument(
        "--delivered", action="store_true", help="take the coefficients as they are delivered"
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--folder", type=Path, help="folder of fits, to go on from where it was cut short")
    parser.add_argument("--keep", type=Path, help="file to pickle the errors into")
    given = parser.parse_args()
    began = time.time()
    paths = {p for end in given.operator for p in (given.root / "stacks").glob(f"*{end}.parquet")}
    every = list(cells(paths, given.law))
    wanted = {c.law for c in every}
    versions = version_cells(given.root, wanted)
    scored, fitted, unwidened, shares = run(
        every,
        versions,
        given.setting,
        given.jobs,
        delivered=given.delivered,
        unnamed=given.unnamed,
        only=given.gpu,
        folder=given.folder,
    )
    if given.keep:
        given.keep.write_bytes(pickle.dumps((scored, unwidened, shares)))
    if given.write:
        if not given.delivered:
            write_sets(fitted)
        write(unwidened, shares, sorted(wanted))
    say(fitted)
    table(scored)
    count = sum(one.coefficients for one in fitted)
    at = {(c.law, c.stack, c.implementation, c.part.gpu.name) for one in fitted for c in one.cells}
    each = count / len(at)
    print(f"\n{count} coefficients for {len(at)} cells of law, implementation and GPU: {each:.1f} each")
    print(f"{time.time() - began:.0f} s")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
