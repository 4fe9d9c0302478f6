"""Fit what libraries make of each law: one set of coefficients an implementation, shared by every GPU.

usage: python benchmarks/fit_stacks.py [DATA_ROOT] [--law LAW ...] [--name NAME ...] [--jobs N]
       default: ../shared/data, every law with an implementation column, 2 jobs

Half of the groups of shapes are fitted, the other half gives the error and the band. Writes
tracetool/families/<group>/implementations/<name>.toml, a section for each law, and prints the errors.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from stack_tables import SHARED, WITHOUT_FLOOR, Cell, cells, kernel_words

from tracetool.calibrate.conformal import LEAST_GROUPS, band
from tracetool.calibrate.joint import GpuRows, JointFit, errors, fit_joint
from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import (
    FittedLaw,
    Implementation,
    implementations,
    library_of,
    words_of,
)
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.families.pricing import laws
from tracetool.hardware.gpu import Gpu
from tracetool.model.unmeasured_libraries import host_of

HERE = Path(__file__).resolve().parent.parent
FAMILIES = HERE / "tracetool" / "families"
SOURCE = "aiconfigurator-perf"
#: Fewer rows than this leave an implementation to its library's others. [rows]
LEAST_ROWS = 40
#: Implementations without coefficients, for their law has no form for what they do: FlashAttention 4's
#: decode on Hopper takes 2 to 5 us for each sequence and KV head, one after another.
WITHOUT_FORM = {("decode", "vllm-flash-attn-fa4")}


@dataclass(frozen=True)
class FittedSet:
    """One implementation's fit of one law."""

    law: str
    name: str
    cells: tuple[Cell, ...]
    fit: JointFit
    band: tuple[float, float]
    bands: Mapping[str, tuple[float, float]]  # by architecture
    held_out: Mapping[str, tuple[float, float]]  # by GPU: MdAPE on shapes held back [%], rows

    def implementation(self) -> Implementation:
        """Return the set as the tool reads it."""
        gpus = {group[0].part.gpu.name: rows_of(group) for group in by_gpu(self.cells)}
        versions = frozenset(words_of(c.stack) for c in self.cells)
        fitted = FittedLaw(self.own, self.fit.by_architecture, gpus, versions, self.band, self.bands)
        shared = self.law in SHARED
        names = {c.implementation for c in self.cells}
        stack = "" if shared else library_of(self.cells[0].stack)
        return Implementation(
            self.name, title_of(self), stack, frozenset(words_of(n) for n in names),
            words_of_set(self), {self.law: fitted},
        )  # fmt: skip

    @property
    def own(self) -> dict[str, float]:
        """Coefficients that are not the law's priors."""
        priors = laws()[self.law].priors
        return {k: v for k, v in self.fit.values.items() if v != priors[k].value}

    @property
    def coefficients(self) -> int:
        """Number of fitted numbers, architectures' own among them."""
        return len(self.own) + sum(len(v) for v in self.fit.by_architecture.values())


def title_of(one: FittedSet) -> str:
    """Return what people call an implementation."""
    if one.law in SHARED:
        return SHARED[one.law][1]
    return (
        f"{kernel_words(one.cells[0].implementation).replace('_', ' ')} in {library_of(one.cells[0].stack)}"
    )


def words_of_set(one: FittedSet) -> tuple[str, ...]:
    """Return the words of an implementation's names that tell it."""
    if one.law in SHARED:
        return ()
    return tuple(word for word in kernel_words(one.cells[0].implementation).split("_") if len(word) > 2)


def fit_set(law: str, name: str, of_set: Sequence[Cell]) -> FittedSet:
    """Fit one implementation on half of the groups of shapes; errors and band are of the other half."""
    source_values = values_by_source(law, of_set)
    fit = fit_joint(
        with_values_fixed(laws()[law], source_values),
        [merge(c.half(0) for c in group) for group in by_gpu(of_set)],
    )
    return scored(law, name, of_set, with_source_values(fit, source_values))


def values_by_source(law: str, of_set: Sequence[Cell]) -> dict[str, dict[str, float]]:
    """Return the sizes and habits that public source tells of a library's own kernels, by architecture."""
    found: dict[str, dict[str, float]] = {}
    for cell in of_set:
        called, architecture = words_of(cell.implementation), cell.part.gpu.architecture
        host = host_of(laws()[law], library_of(cell.stack), called, architecture)
        priors = laws()[law].priors
        source_values = {k: more for k, (factor, more) in host.items() if priors[k].choices and not factor}
        if (law, library_of(cell.stack)) in WITHOUT_FLOOR:
            source_values |= {name: prior.value for name, prior in priors.items() if name.startswith("floor")}
        found.setdefault(architecture, {}).update(source_values)
    # what all rows say holds of rows that do not
    for architecture, values in found.items() if "gate" in laws()[law].priors else ():
        rows = [c.part.law_rows.rows for c in of_set if c.part.gpu.architecture == architecture]
        if not any(one.number("gated", 1.0).any() for one in rows):
            values["gate"] = 1.0
        values["remote_to_first"] = float(all(one.number("remote_to_first", 0.0).all() for one in rows))
    return found


def with_values_fixed(law: Law, source_values: Mapping[str, Mapping[str, float]]) -> Law:
    """Return a law whose sizes and habits are not chosen where source tells them."""
    names = {name for one in source_values.values() for name in one}
    if not names:
        return law

    def parts(rows: OperatorColumns, gpu: Gpu, values: Coefficients) -> Pieces:
        return law.parts(rows, gpu, {**values, **source_values.get(gpu.architecture, {})})

    def pin(rows: OperatorColumns, gpu: Gpu, values: Coefficients) -> OperatorColumns:
        assert law.pin is not None
        return law.pin(rows, gpu, {**values, **source_values.get(gpu.architecture, {})})

    fixed = {name: replace(law.priors[name], choices=()) for name in names}
    # what a habit says beside them still makes sense together
    rest = ({k: v for k, v in habit.items() if k not in names} for habit in law.habits)
    habits = tuple(habit for habit in rest if any(law.priors[k].choices for k in habit))
    return replace(law, parts=parts, pin=law.pin and pin, priors={**law.priors, **fixed}, habits=habits)


def with_source_values(fit: JointFit, source_values: Mapping[str, Mapping[str, float]]) -> JointFit:
    """Return a fit that states what source tells: of all architectures alike, or of each."""
    alike = len({tuple(sorted(one.items())) for one in source_values.values()}) == 1
    shared = {**fit.values, **(next(iter(source_values.values())) if alike else {})}
    own = {} if alike else source_values
    names = fit.by_architecture.keys() | own.keys()
    return JointFit(shared, {a: {**fit.by_architecture.get(a, {}), **own.get(a, {})} for a in sorted(names)})


def scored(law: str, name: str, of_set: Sequence[Cell], fit: JointFit) -> FittedSet:
    """Return a fit with its errors and bands on the half that is held back."""
    off: dict[str, list[Floats]] = {}
    held_out, groups = {}, dict.fromkeys({c.part.gpu.architecture for c in of_set}, 0)
    for group in by_gpu(of_set):
        part = merge(c.half(1) for c in group)
        if not len(part.law_rows.measured_s):
            continue
        error = -errors(laws()[law], part, fit.on(part.gpu))
        of_band = errors(laws()[law], unstated(part), fit.on(part.gpu))
        off.setdefault(part.gpu.architecture, []).append(-of_band)
        groups[part.gpu.architecture] += len(np.unique(part.law_rows.group))
        held_out[part.gpu.name] = (float(np.median(np.abs(np.expm1(-error))) * 100.0), len(error))
    joined = {a: np.concatenate(found) for a, found in off.items()}
    every = np.concatenate([*joined.values()]) if joined else np.array([-0.7, 0.7])
    bands = {
        a: band(e, groups[a]) for a, e in joined.items() if len(joined) > 1 and groups[a] >= LEAST_GROUPS
    }
    whole = band(every, max(sum(groups.values()), 1))
    return FittedSet(law, name, tuple(of_set), fit, whole, bands, held_out)


#: What loops do that hardly any table but the collector's own says.
_OF_LOOPS = ("gated", "remote_to_first", "values_shared")


def unstated(part: GpuRows) -> GpuRows:
    """Return rows that do not say what their loop does, as the tables of users do not."""
    rows = part.law_rows.rows
    kept = {k: v for k, v in rows.columns.items() if k not in _OF_LOOPS}
    return replace(part, law_rows=replace(part.law_rows, rows=replace(rows, columns=kept)))


def with_bands(law: str, name: str, of_set: Sequence[Cell]) -> FittedSet | None:
    """Return a delivered set with errors and bands told anew by the half that is held back."""
    found = [one for one in implementations(law) if one.name == name]
    if not found:
        return None
    given = found[0].laws[law]
    priors = {k: c.value for k, c in laws()[law].priors.items()}
    return scored(law, name, of_set, JointFit({**priors, **given.values}, given.by_architecture))


def by_gpu(of_set: Iterable[Cell]) -> list[list[Cell]]:
    """Return cells of each GPU: several versions of a library may have run on one."""
    found: dict[str, list[Cell]] = {}
    for cell in of_set:
        found.setdefault(cell.part.gpu.name, []).append(cell)
    return list(found.values())


def rows_of(group: Iterable[Cell]) -> int:
    """Return the rows of some cells."""
    return sum(len(c.part.law_rows.measured_s) for c in group)


def merge(parts: Iterable[GpuRows]) -> GpuRows:
    """Return rows of one GPU in one."""
    every = list(parts)
    if len(every) == 1:
        return every[0]
    data = [p.law_rows for p in every]
    rows = type(data[0].rows)
    names = sorted({c for d in data for c in d.rows.columns})
    columns = {}
    for name in names:
        text = any(np.asarray(d.rows.columns.get(name, 0.0)).dtype == object for d in data)
        columns[name] = np.concatenate([d.rows.text(name) if text else d.rows.number(name) for d in data])
    merged = rows(np.concatenate([d.rows.family for d in data]), columns)
    offsets = np.cumsum([0, *(int(d.group.max(initial=-1)) + 1 for d in data)])
    group = np.concatenate([d.group + o for d, o in zip(data, offsets, strict=False)])
    kind = type(data[0])
    return GpuRows(
        every[0].gpu,
        kind(
            merged,
            np.concatenate([d.measured_s for d in data]),
            np.concatenate([d.hertz for d in data]),
            group,
        ),
    )


def sets_of(every: Iterable[Cell]) -> dict[tuple[str, str], list[Cell]]:
    """Return cells by law and implementation, those with rows enough and a form."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in (one for one in every if (one.law, one.set_name) not in WITHOUT_FORM):
        found.setdefault((cell.law, cell.set_name), []).append(cell)
    return {k: v for k, v in found.items() if sum(len(c.part.law_rows.measured_s) for c in v) >= LEAST_ROWS}


def fit_all(every: Sequence[Cell], jobs: int) -> list[FittedSet]:
    """Fit every set, the largest first."""
    todo = sorted(
        sets_of(every).items(), key=lambda one: -sum(len(c.part.law_rows.measured_s) for c in one[1])
    )
    if jobs <= 1:
        return [fit_set(*key, of_set) for key, of_set in todo]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(_fit_one, todo))


def _fit_one(one: tuple[tuple[str, str], Sequence[Cell]]) -> FittedSet:
    (law, name), of_set = one
    return fit_set(law, name, of_set)


def rounded(value: float, digits: int = 4) -> float:
    if value == 0 or not math.isfinite(value):
        return 0.0
    return round(float(value), digits - 1 - math.floor(math.log10(abs(value))))


def kv_formats(one: FittedSet) -> list[str]:
    """Return the line of the formats of keys and values measured on each GPU; none without such a column."""
    found = {}
    for group in by_gpu(one.cells):
        words = [c.part.law_rows.rows.text("kv_dtype") for c in group]
        found[group[0].part.gpu.name] = sorted({*np.concatenate(words).tolist()} - {""})
    if not any(found.values()):
        return []
    each = ", ".join(f"{gpu} = {json.dumps(formats)}" for gpu, formats in found.items())
    return [f"kv_formats = {{ {each} }}"]


def section(one: FittedSet, law: Law) -> str:
    """Return the text of a law's section in an implementation's file."""
    gpus = ", ".join(f"{group[0].part.gpu.name} = {rows_of(group)}" for group in by_gpu(one.cells))
    stacks = ", ".join(f'"{s}"' for s in sorted({c.stack for c in one.cells}))
    errors_held = ", ".join(f"{g} {e:.1f} % ({n} rows)" for g, (e, n) in one.held_out.items())
    lines = [
        f"[{one.law}]",
        f"# MdAPE on shapes held back: {errors_held}",
        f"gpus = {{ {gpus} }}",
        f"versions = [{stacks}]",
        *kv_formats(one),
    ]

    def number(key: str, value: float) -> str:
        unit = law.priors[key].unit if key in law.priors else "1"
        return (
            f'{key} = {{ value = {rounded(value)!r}, unit = "{unit}", kind = "fitted", source = "{SOURCE}" }}'
        )

    lines += [number(k, v) for k, v in one.own.items()]
    lines += [number("spread_low", one.band[0]), number("spread_high", one.band[1])]
    for architecture in sorted({*one.fit.by_architecture, *one.bands}):
        changed = dict(one.fit.by_architecture.get(architecture, {}))
        if architecture in one.bands:
            changed |= dict(zip(("spread_low", "spread_high"), one.bands[architecture], strict=True))
        if changed:
            lines += ["", f"[{one.law}.on.{architecture}]", *(number(k, v) for k, v in changed.items())]
    return "\n".join(lines) + "\n"


def group_of(law: str) -> str:
    """Return the folder of the group of families a law stands in."""
    module = laws()[law].parts.__module__
    return module.split(".")[2]


def write(fitted: Sequence[FittedSet]) -> None:
    """Write the sections of what was fitted into their files; others stay."""
    for one in fitted:
        folder = FAMILIES / group_of(one.law) / "implementations"
        folder.mkdir(exist_ok=True)
        path = folder / f"{one.name}.toml"
        body = path.read_text() if path.exists() else ""
        _, found, rest = body.partition("\n[")
        sections = dict(re.findall(r"(?ms)^\[(\w+)\]\n(.*?)(?=^\[\w+\]\n|\Z)", found[1:] + rest))
        names = set(re.findall(r'"([^"]*)"', _line(body, "names"))) | {c.implementation for c in one.cells}
        sections[one.law] = section(one, laws()[one.law]).split("\n", 1)[1]
        made = one.implementation()
        head = [
            f'title = "{made.title}"', f'stack = "{made.stack}"',
            f"names = [{', '.join(chr(34) + n + chr(34) for n in sorted(names))}]",
            f"words = [{', '.join(chr(34) + n + chr(34) for n in made.words)}]",
        ]  # fmt: skip
        text = "\n".join(head) + "\n"
        text += "".join(f"\n[{law}]\n{sections[law].strip()}\n" for law in sorted(sections))
        path.write_text(text)


def _line(text: str, key: str) -> str:
    found = re.search(rf"(?m)^{key} = (.*)$", text)
    return found.group(1) if found else ""


def say(fitted: Sequence[FittedSet]) -> None:
    """Print the error of each cell on the half held back, and the coefficients of each set."""
    for one in sorted(fitted, key=lambda f: (f.law, f.name)):
        told = "  ".join(f"{g} {e:.1f}" for g, (e, _) in one.held_out.items())
        print(
            f"{one.law:15s} {one.name:44s} {one.coefficients:3d} coefficients  MdAPE [%] {told}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=HERE.parent / "shared" / "data")
    parser.add_argument("--law", nargs="*", default=[])
    parser.add_argument("--name", nargs="*", default=[], help="the only implementations to fit")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--bands", action="store_true", help="keep the coefficients, tell the bands anew")
    parser.add_argument("--operator", nargs="*", default=[""], help="ends of the tables' names")
    given = parser.parse_args()
    began = time.time()
    paths = {p for end in given.operator for p in (given.root / "stacks").glob(f"*{end}.parquet")}
    every = [c for c in cells(paths, given.law) if not given.name or c.set_name in given.name]
    if given.bands:
        redone = [with_bands(*key, of_set) for key, of_set in sets_of(every).items()]
        fitted = [one for one in redone if one is not None]
    else:
        fitted = fit_all(every, given.jobs)
    write(fitted)
    say(fitted)
    print(f"{time.time() - began:.0f} s")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
