"""Fit implementations anew from the coefficients delivered, sizes and habits kept: after a law has changed.

usage: python benchmarks/refit_stacks.py [DATA_ROOT] --law LAW ... [--operator END ...] [--name NAME ...]
           [--start KEY=VALUE ...] [--architecture NAME ...] [--write]

As fit_stacks.py, which tries every size and habit, but in seconds. ``--start`` sets coefficients, habits
among them, that a fit begins with beside those delivered; of both the better is kept. With
``--architecture`` what all share stays, and so does what is an architecture's not named. Run fit_versions.py
after ``--write``.
"""

from __future__ import annotations

import argparse
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import numpy as np
from fit_stacks import HERE, FittedSet, by_gpu, merge, say, scored, sets_of, write
from stack_tables import Cell, cells

from tracetool.calibrate.joint import (
    ARCHITECTURE_SD,
    PRIOR_SD,
    SAME,
    SAME_ARCHITECTURE,
    GpuRows,
    JointFit,
    fit_near,
    posterior,
)
from tracetool.families.implementations import FittedLaw, implementations
from tracetool.families.law import Law
from tracetool.families.pricing import laws


def near(
    law: Law,
    parts: Sequence[GpuRows],
    starts: Sequence[Mapping[str, float]],
    center: Mapping[str, float],
    sd: float,
    same: float,
) -> dict[str, float]:
    """Return the best fit of several starts; a coefficient within ``same`` of its center is the center's."""
    tried = [fit_near(law, parts, start, center, sd) for start in starts]
    values = min(tried, key=lambda one: posterior(law, parts, one, center, sd)[0])
    differing = {k: v for k, v in values.items() if v != center[k]}
    for name in [k for k in differing if law.priors[k].fitted]:
        if abs(float(np.log(differing[name] / center[name]))) <= same:
            del differing[name]
    free = [k for k in differing if law.priors[k].fitted]
    return fit_near(law, parts, {**center, **differing}, center, sd, free=free)


def refit(
    law_name: str,
    name: str,
    of_set: Sequence[Cell],
    given: FittedLaw,
    begin: Mapping[str, float],
    only: Container[str] = (),
) -> FittedSet:
    """Return an implementation's fit that begins with what is delivered, and with ``begin`` beside it.

    Of several architectures the named ones alone if any is.
    """
    law = laws()[law_name]
    priors = {k: c.value for k, c in law.priors.items()}
    parts = [merge(c.half(0) for c in group) for group in by_gpu(of_set)]
    chosen = {k: v for k, v in begin.items() if not law.priors[k].fitted}
    start = {**priors, **given.values, **chosen}
    names = sorted({part.gpu.architecture for part in parts})
    if only and len(names) > 1:
        shared, by_architecture = {**priors, **given.values}, dict(given.by_architecture)
        names = [one for one in names if one in only]
    else:
        shared = near(law, parts, [start, {**start, **begin}], priors, PRIOR_SD, SAME)
        by_architecture = {}
        names = names if len(names) > 1 else []
    for architecture in names:
        some = [part for part in parts if part.gpu.architecture == architecture]
        apart = {**shared, **given.by_architecture.get(architecture, {}), **chosen}
        values = near(law, some, [apart, {**apart, **begin}], shared, ARCHITECTURE_SD, SAME_ARCHITECTURE)
        by_architecture[architecture] = {k: v for k, v in values.items() if v != shared[k]}
    return scored(law_name, name, of_set, JointFit(shared, by_architecture))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=HERE.parent / "shared" / "data")
    parser.add_argument("--law", nargs="+", required=True)
    parser.add_argument("--operator", nargs="*", default=[""], help="ends of the tables' names")
    parser.add_argument("--name", nargs="*", default=[], help="the only implementations to fit")
    parser.add_argument("--start", nargs="*", default=[])
    parser.add_argument("--architecture", nargs="*", default=[], help="the only ones to fit, of several")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    begin = {key: float(value) for key, value in (one.split("=") for one in given.start)}
    paths = {p for end in given.operator for p in (given.root / "stacks").glob(f"*{end}.parquet")}
    fitted = []
    for (law, name), of_set in sets_of(cells(paths, given.law)).items():
        if given.name and name not in given.name:
            continue
        delivered = [one.laws[law] for one in implementations(law) if one.name == name]
        fitted += [refit(law, name, of_set, one, begin, given.architecture) for one in delivered]
        say(fitted[-1:])
    if given.write:
        write(fitted)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
