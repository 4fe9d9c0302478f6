"""How far off implementations' coefficients are where they were not fitted, and what intervals hold.

usage: python benchmarks/held_out_stacks.py [DATA_ROOT] [--law LAW ...]
           [--operator END ...] [--write] [--jobs N]

Prints, by operator, the median error and the share of rows inside the 90 % interval with held back: groups of
shapes, a version of the library, a whole GPU, a whole library. ``--write`` puts the coefficients, as
fit_stacks.py does, and the bands of GPUs left out into tracetool/families/<group>. Coefficients are counted.
"""

from __future__ import annotations

import argparse
import pickle
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fit_stacks import FAMILIES, SOURCE, FittedSet, fit_set, group_of, rounded, say, sets_of
from fit_stacks import write as write_sets
from stack_tables import Cell, cells

from tracetool.calibrate.conformal import band
from tracetool.core.arrays import Bools, Floats
from tracetool.families.implementations import Implementation, TransferBands, library_of
from tracetool.families.pieces import duration_s
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.model.implementations import member_pieces, members

HERE = Path(__file__).resolve().parent.parent
#: Rows of a cell that are looked at.
ROWS = 1500
#: Band and factor where nothing was left out to tell them, and the most of versions: beyond it another kernel
#: runs under the old name.
WIDE, VERSION, MOST_VERSION = (-0.9, 0.9), 1.5, 3.0
SETTINGS = ("shapes", "version", "gpu", "library")


@dataclass(frozen=True)
class Scored:
    """Errors of one cell in one setting."""

    setting: str
    operator: str
    law: str
    gpu: str
    stack: str
    implementation: str
    seen: bool  # whether a GPU of the architecture was fitted
    single: bool  # whether one implementation answered
    error: Floats  # ln(measured / predicted)
    inside: Bools
    needed: Floats  # factor on the ln of the bounds that would just hold the row


def score(
    setting: str,
    cell: Cell,
    registry: tuple[Implementation, ...],
    bands: TransferBands,
    *,
    stated: bool = True,
) -> Scored:
    """Predict a cell's rows with the implementations given; the cell states its library or not."""
    law, gpu, data = laws()[cell.law], cell.part.gpu, cell.part.data
    if len(data.measured_s) > ROWS:
        data = data.take(np.random.default_rng(3).permutation(len(data.measured_s))[:ROWS])
    of_law = tuple(one for one in registry if cell.law in one.laws)
    stack, name = (cell.stack, cell.implementation) if stated else ("", "")
    every = members(law, gpu, stack, name, of_law, bands)
    pieces, low, high = member_pieces(law, data.rows, gpu, every)
    error = np.log(data.measured_s / duration_s(pieces, data.hertz)[:, 0])
    error = np.where(np.isfinite(error), error, 3.0)
    needed = np.where(error > 0, error / np.maximum(high, 0.02), error / np.minimum(low, -0.02))
    if not stated:
        low, high = low * bands.other_library, high * bands.other_library
    fitted = {load_gpu(g).architecture for one in of_law for g in one.laws[cell.law].gpus}
    return Scored(
        setting, cell.operator, cell.law, gpu.name, cell.stack, cell.implementation,
        gpu.architecture in fitted, len(every) == 1, error, (error >= low) & (error <= high),
        needed,
    )  # fmt: skip


def _refit(one: tuple[str, str, list[Cell]]) -> FittedSet:
    return fit_set(*one)


def left_out(
    every: Sequence[Cell], whole: Mapping[tuple[str, str], FittedSet], jobs: int
) -> list[tuple[str, str, list[Cell], list[FittedSet]]]:
    """Return for each GPU and each library what is tested, and the sets fitted without it."""
    tasks: list[tuple[str, str, tuple[str, str], list[Cell]]] = []
    kept: dict[tuple[str, str], list[FittedSet]] = {}
    gpus = sorted({c.part.gpu.name for c in every})
    libraries = sorted({library_of(c.stack) for c in every})
    for setting, values in (("gpu", gpus), ("library", libraries)):
        for value in values:
            for key, one in whole.items():
                rest = [c for c in one.cells if _value(c, setting) != value]
                if len(rest) == len(one.cells):
                    kept.setdefault((setting, value), []).append(one)
                elif rest:
                    tasks.append((setting, value, key, rest))
    with ProcessPoolExecutor(jobs) as pool:
        refits = list(pool.map(_refit, [(*key, rest) for _, _, key, rest in tasks]))
    for (setting, value, _, _), one in zip(tasks, refits, strict=True):
        kept.setdefault((setting, value), []).append(one)
    return [
        (setting, value, [c for c in every if _value(c, setting) == value], kept.get((setting, value), []))
        for setting, values in (("gpu", gpus), ("library", libraries))
        for value in values
    ]


def _value(cell: Cell, setting: str) -> str:
    return cell.part.gpu.name if setting == "gpu" else library_of(cell.stack)


def transfer(scored: Sequence[Scored], law: str, without: str = "") -> TransferBands:
    """Return the bands of a law on GPUs left out, and of libraries left out, but for one of either."""
    pools: dict[bool, list[Floats]] = {True: [], False: []}
    for one in scored:
        if one.setting == "gpu" and one.law == law and one.single and one.gpu != without:
            pools[one.seen].append(one.error[:: max(1, len(one.error) // 300)])
    found = {seen: band(np.concatenate(v), 10**6) if v else None for seen, v in pools.items()}
    away = found[False] or found[True] or WIDE
    near = found[True] or away
    wider, newer = library_factor(scored, law, without), version_factor(scored, law)
    return TransferBands(near, (min(away[0], near[0]), max(away[1], near[1])), wider, newer)


def library_factor(scored: Sequence[Scored], law: str, without: str = "") -> float:
    """Return the factor on the bounds of a library nobody fitted: what held those left out, but for one.

    Of few libraries the next may well need more than most: the one that needs most counts, and no less than
    the middle one of the laws of the group.
    """
    needed: dict[str, dict[str, list[Floats]]] = {}
    for s in scored:
        if s.setting == "library" and group_of(s.law) == group_of(law) and library_of(s.stack) != without:
            some = s.needed[:: max(1, len(s.needed) // 300)]
            needed.setdefault(s.law, {}).setdefault(library_of(s.stack), []).append(some)
    every = {
        name: [float(np.quantile(np.concatenate(v), 0.9)) for v in one.values()]
        for name, one in needed.items()
    }
    of_group = [max(factors) for factors in every.values()]
    return max([1.0, *([float(np.median(of_group))] if of_group else []), *every.get(law, [])])


def version_factor(scored: Sequence[Scored], law: str, without: str = "") -> float:
    """Return the factor on the bounds of another version: what held 90 % of each table, but for one GPU's.

    Of few tables the next may well need more than most: the largest of the law's own counts, and no less than
    the middle one of all laws of its group; ``VERSION`` at least for a law without any.
    """
    told = [
        (s.law, float(np.clip(np.quantile(s.needed, 0.9), 1.0, MOST_VERSION)))
        for s in scored
        if s.setting == "version" and not (s.law == law and s.gpu == without)
    ]
    own = [factor for name, factor in told if name == law] or [VERSION]
    of_group = [factor for name, factor in told if group_of(name) == group_of(law)] or own
    return max([float(np.median(of_group)), *own])


def run(
    every: list[Cell], versions: list[Cell], jobs: int
) -> tuple[list[Scored], list[FittedSet], list[Scored]]:
    """Fit and score every setting; the last are scores without bands for what is left out."""
    with ProcessPoolExecutor(jobs) as pool:
        fitted = list(pool.map(_refit, [(*key, of_set) for key, of_set in sets_of(every).items()]))
    whole = {(one.law, one.name): one for one in fitted}
    nothing = TransferBands(WIDE, WIDE)
    registry = tuple(one.implementation() for one in fitted)
    scored = [
        score("shapes", replace(cell, part=cell.half(1)), registry, nothing)
        for cell in every
        if (cell.law, cell.set_name) in whole
    ]
    first = [score("version", c, registry, nothing) for c in versions if _fitted(c, registry)]
    trials = left_out(every, whole, jobs)
    for cell in versions:
        if _fitted(cell, registry):
            factor = version_factor(first, cell.law, cell.part.gpu.name)
            scored.append(score("version", cell, registry, replace(nothing, other_version=factor)))
    for setting, _, tested, rest in trials:
        known = tuple(one.implementation() for one in rest)
        stated = setting == "gpu"
        first += [score(setting, c, known, nothing, stated=stated) for c in tested if _fitted(c, known)]
    for setting, value, tested, rest in trials:
        known = tuple(one.implementation() for one in rest)
        for cell in tested:
            if _fitted(cell, known):
                bands = transfer(first, cell.law, value)
                scored.append(score(setting, cell, known, bands, stated=setting == "gpu"))
    return scored, fitted, first


def _fitted(cell: Cell, registry: Iterable[Implementation]) -> bool:
    return any(cell.law in one.laws for one in registry)


def table(scored: Sequence[Scored]) -> None:
    """Print the median over cells of the median error, and the share of rows inside, by operator."""
    for setting in SETTINGS:
        print(f"\n{setting} held back: median over cells of MdAPE [%]; rows inside the 90 % interval [%]")
        for operator in sorted({s.operator for s in scored if s.setting == setting}):
            rows = [s for s in scored if (s.setting, s.operator) == (setting, operator)]
            every = [float(np.median(np.abs(np.expm1(-s.error))) * 100.0) for s in rows]
            inside = np.concatenate([s.inside for s in rows]).mean() * 100.0
            by_gpu = "  ".join(
                f"{g} {np.median([e for e, s in zip(every, rows, strict=True) if s.gpu == g]):.1f}"
                for g in sorted({s.gpu for s in rows})
            )
            print(f"  {operator:14s} {np.median(every):6.1f} {inside:6.1f}   {by_gpu}", flush=True)


def write(scored: Sequence[Scored], wanted: Iterable[str]) -> None:
    """Put the bands on GPUs left out beside the laws."""
    for law in wanted:
        bands = transfer(scored, law)
        path = FAMILIES / group_of(law) / "transfer.toml"
        text = path.read_text() if path.exists() else ""
        text = re.sub(rf"(?ms)^\[{law}\]\n.*?(?=^\[|\Z)", "", text).strip()
        lines = [f"[{law}]"]
        for name in ("same_architecture", "other_architecture"):
            for side, value in zip(("low", "high"), getattr(bands, name), strict=True):
                entry = f'value = {rounded(value)!r}, unit = "1", kind = "fitted", source = "{SOURCE}"'
                lines.append(f"{name}_{side} = {{ {entry} }}")
        for name in ("other_library", "other_version"):
            factor = rounded(getattr(bands, name))
            lines.append(
                f'{name} = {{ value = {factor!r}, unit = "1", kind = "fitted", source = "{SOURCE}" }}'
            )
        path.write_text((text + "\n\n" if text else "") + "\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=HERE.parent / "shared" / "data")
    parser.add_argument("--law", nargs="*", default=[])
    parser.add_argument("--operator", nargs="*", default=[""])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", type=Path, help="file to pickle the errors into")
    given = parser.parse_args()
    began = time.time()
    paths = {p for end in given.operator for p in (given.root / "stacks").glob(f"*{end}.parquet")}
    every = list(cells(paths, given.law))
    wanted = {c.law for c in every}
    versions = [c for c in version_cells(given.root) if c.law in wanted]
    scored, fitted, unwidened = run(every, versions, given.jobs)
    if given.keep:
        given.keep.write_bytes(pickle.dumps((scored, unwidened)))
    if given.write:
        write_sets(fitted)
        write(unwidened, sorted(wanted))
    say(fitted)
    table(scored)
    count = sum(one.coefficients for one in fitted)
    at = {(c.law, c.stack, c.implementation, c.part.gpu.name) for one in fitted for c in one.cells}
    each = count / len(at)
    print(f"\n{count} coefficients for {len(at)} cells of law, implementation and GPU: {each:.1f} each")
    print(f"{time.time() - began:.0f} s")


#: Tables of other versions of a library on a GPU that is fitted: file and stack.
OTHER_VERSIONS = {
    "h200-sxm_vllm": "vllm 0.22.0",
    "b200-sxm_trtllm": "trtllm 1.3.0rc15",
}


def version_cells(root: Path) -> list[Cell]:
    """Return the tables measured under another version."""
    from stack_tables import cells_of_frame

    found = []
    for start, stack in OTHER_VERSIONS.items():
        for path in sorted((root / "ops").glob(f"{start}_*.parquet")):
            operator = {"context": "prefill", "generation": "decode"}.get(
                path.stem.split("_")[2], path.stem.split("_")[2]
            )
            found += cells_of_frame(path, operator, stack)
    return found


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
