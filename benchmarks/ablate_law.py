"""What each coefficient of a law is worth on shapes left out, and which ones the law can do without.

usage: python benchmarks/ablate_law.py LAW [TABLE.parquet ...] [--rows N] [--limit POINTS] [--keep NAME ...]
       default: ../shared/data/ops/*.parquet, 600 rows of each GPU a fit, 0.3 points

Backward elimination over every GPU the tables hold. The groups of equal shapes of a GPU fall into three
parts; each part is predicted by a fit to a seeded sample of the other two, and the error is the mean over all
its rows. To drop a coefficient is to fix it at its neutral value (``NEUTRAL``, else its prior) and to fit the
others again, begun from the fit before: sizes and habits of the library are chosen again only where one of
them is dropped, and a GPU on which the value changes nothing keeps its fit.

First each coefficient is dropped from the full law alone. Then those that were worth next to nothing
(``GROUP_POINTS``) go together, and the others round by round: of the ``AT_ONCE`` cheapest by the last figure
of each, the one worth least beside all that were dropped before, until it is worth the limit in the mean of
the GPUs. Rounds after which the joint loss reaches the limit in the mean or on any GPU are marked.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fit_time import operator_rows

from tracetool.calibrate.law_fit import (
    CHOICE_ROWS,
    LawRows,
    choose,
    fit_coefficients,
    folds,
    residuals,
    sample,
)
from tracetool.core.arrays import Floats, Ints
from tracetool.families.law import Law
from tracetool.families.pricing import laws
from tracetool.hardware.gpu import Gpu

HERE = Path(__file__).resolve().parent.parent
#: Values at which a coefficient leaves its law's equation: a cost of zero, a factor of one. Those not named
#: are fixed at their priors.
NEUTRAL: Mapping[str, Mapping[str, float]] = {
    "prefill": {
        "fp8_pass": 1.0, "spare_share": 1.0, "one_launch": 1.0, "pass_factor": 1.0, "tail_share": 1.0,
    },
}  # fmt: skip
#: Steps of a full fit and of one that begins from a neighbor's.
FULL_STEPS, STEPS = 25, 4
#: Coefficients tried in a round.
AT_ONCE = 3
#: Coefficients worth less than this alone are dropped together. [points of MAPE]
GROUP_POINTS = 0.03

Fits = tuple[dict[str, float], ...]  # coefficients of each part's fit


@dataclass(frozen=True)
class Case:
    """One GPU's rows of the law: fitted to, and left out, by part."""

    gpu: Gpu
    fitted: tuple[LawRows, ...]
    left_out: tuple[LawRows, ...]

    @classmethod
    def of(cls, gpu: Gpu, rows: LawRows, count: int) -> Case:
        fold = folds(rows.group)
        parts = range(int(fold.max()) + 1)
        return cls(
            gpu,
            tuple(sample(rows.take(np.flatnonzero(fold != part)), count) for part in parts),
            tuple(rows.take(np.flatnonzero(fold == part)) for part in parts),
        )

    def error_percent(self, law: Law, fits: Fits) -> float:
        """Return the mean absolute error on the shapes left out. [%]"""
        errors = [residuals(law, rows, self.gpu, fit) for rows, fit in zip(self.left_out, fits, strict=True)]
        return float(np.abs(np.expm1(np.concatenate(errors))).mean()) * 100.0


def without(law: Law, dropped: Sequence[str], neutral: Mapping[str, float]) -> Law:
    """Return a law with coefficients fixed at their neutral values."""
    priors = {
        name: replace(one, value=neutral.get(name, one.value), fitted=False, choices=())
        if name in dropped
        else one
        for name, one in law.priors.items()
    }
    habits = tuple({k: v for k, v in habit.items() if k not in dropped} for habit in law.habits)
    return replace(law, priors=priors, habits=habits)


def refit(law: Law, case: Case, starts: Fits, steps: int, *, again: bool) -> Fits:
    """Return the fits of a law begun from others; with its sizes and habits chosen again where asked."""
    fixed = {k: c.value for k, c in law.priors.items() if not c.fitted and not c.choices}
    begin = [{**start, **fixed} for start in starts]
    if again:
        begin[0] = choose(law, sample(case.fitted[0], CHOICE_ROWS), case.gpu, begin[0])
        sizes = {k: begin[0][k] for k, c in law.priors.items() if c.choices}
        begin = [{**start, **sizes} for start in begin]
    return tuple(
        fit_coefficients(law, rows, case.gpu, start, steps)[0]
        for rows, start in zip(case.fitted, begin, strict=True)
    )


class Ablation:
    """The law with some coefficients dropped, fitted to every GPU."""

    def __init__(self, law: Law, cases: Sequence[Case], neutral: Mapping[str, float]) -> None:
        self.law, self.cases, self.neutral = law, cases, neutral
        priors = {k: c.value for k, c in law.priors.items()}
        parts = [len(case.fitted) for case in cases]
        self.fits = [
            refit(law, case, (priors,) * n, FULL_STEPS, again=True)
            for case, n in zip(cases, parts, strict=True)
        ]
        self.full = self.errors(law, self.fits)
        self.dropped: list[str] = []
        self.now = self.full

    def errors(self, law: Law, fits: Sequence[Fits]) -> Floats:
        """Return the error on shapes left out of each GPU. [%]"""
        return np.array([c.error_percent(law, f) for c, f in zip(self.cases, fits, strict=True)])

    def tried(self, *names: str) -> tuple[Floats, list[Fits]]:
        """Return the errors and fits without some more coefficients."""
        law = without(self.law, [*self.dropped, *names], self.neutral)
        values = {name: law.priors[name].value for name in names}
        errors, every = self.now.copy(), list(self.fits)
        for place, (case, fits) in enumerate(zip(self.cases, self.fits, strict=True)):
            fixed = tuple({**fit, **values} for fit in fits)
            if abs(case.error_percent(law, fixed) - self.now[place]) < 1e-9:
                every[place] = fixed
                continue
            again = any(self.law.priors[n].choices and fits[0][n] != v for n, v in values.items())
            every[place] = refit(law, case, fits, STEPS, again=again)
            errors[place] = case.error_percent(law, every[place])
        return errors, every

    def drop(self, names: Sequence[str], errors: Floats, fits: list[Fits]) -> None:
        """Go on without some coefficients."""
        self.dropped += names
        self.now, self.fits = errors, fits


def line(name: str, worth: Floats, joint: Floats | None = None) -> str:
    """Return a line of a table: points of error by GPU and in the mean."""
    text = f"{name:16s}" + "".join(f"{w:10.2f}" for w in (*worth, worth.mean()))
    return text if joint is None else text + "   |" + "".join(f"{w:10.2f}" for w in (*joint, joint.mean()))


def eliminate(ablation: Ablation, limit: float, keep: Sequence[str]) -> None:
    """Print what each coefficient is worth alone, then drop them one by one."""
    head = f"{'':16s}" + "".join(f"{case.gpu.name:>10s}" for case in ablation.cases) + f"{'mean':>10s}"
    print("error of the full law on shapes left out [% MAPE]\n" + head)
    print(line("full", ablation.full))
    print(f"worth of each coefficient alone [points]\n{head}", flush=True)
    last: dict[str, float] = {}
    for name in (n for n in ablation.law.priors if n not in keep):
        errors, _ = ablation.tried(name)
        last[name] = float((errors - ablation.full).mean())
        print(line(name, errors - ablation.full), flush=True)
    print(f"dropped in turn: worth then | of all dropped so far [points]\n{head}   |{head[16:]}", flush=True)
    group = [name for name, points in last.items() if points < GROUP_POINTS]
    while last:
        if group:
            dropped, tries = group, {" ".join(group): ablation.tried(*group)}
        else:
            order: Ints = np.argsort(list(last.values()), kind="stable")[:AT_ONCE]
            tries = {name: ablation.tried(name) for name in np.array(list(last))[order].tolist()}
            last |= {name: float((errors - ablation.now).mean()) for name, (errors, _) in tries.items()}
            dropped = [min(tries, key=lambda name: last[name])]
        errors, fits = tries[" ".join(dropped)]
        worth = errors - ablation.now
        if worth.mean() >= limit:
            break
        ablation.drop(dropped, errors, fits)
        joint = errors - ablation.full
        over = "  over the limit" if max(joint.max(), joint.mean()) >= limit else ""
        print(line("the group" if group else dropped[0], worth, joint) + over, flush=True)
        last = {name: points for name, points in last.items() if name not in dropped}
        group = []
    print(f"left: {', '.join(n for n in ablation.law.priors if n not in ablation.dropped)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("law", choices=sorted(laws()))
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--rows", type=int, default=600, help="rows of a GPU each fit looks at")
    parser.add_argument("--limit", type=float, default=0.3, help="points of MAPE a coefficient must be worth")
    parser.add_argument("--keep", nargs="*", default=[], help="coefficients never dropped")
    given = parser.parse_args()
    law = laws()[given.law]
    tables = given.tables or sorted((HERE.parent / "shared" / "data" / "ops").glob("*.parquet"))
    cases = []
    for measured in operator_rows(tables):
        rows = measured.of_law(law.name)
        if len(rows.measured_s) >= given.rows:
            cases.append(Case.of(measured.gpu, rows, given.rows))
    eliminate(Ablation(law, cases, NEUTRAL.get(law.name, {})), given.limit, given.keep)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
