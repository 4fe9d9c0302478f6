"""A real trace's own iterations, made into runs of the same code: how often does the check cry wolf, or miss?

    python benchmarks/same_code.py TRACE [--comparisons 200] [--spread 1] [--energy 3]

Every run is thirty iterations drawn in blocks of three from the trace's own, all its kernels, with an
offset planted on it: ``--spread`` per cent from run to run, 70 % of its variance shared by all families.
The check asks for ``energy=2%`` and ``*:energy=2%`` (every family of 1 % of the energy or more). Joules are
the model's over the recorded times. ``least`` is the smallest change the comparisons said they could find,
in the median.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.api.ingest import ingest
from tracetool.compare.changes import DiffRequest, compare_sides
from tracetool.compare.outcome import RunDiff
from tracetool.compare.pairing import pair_sides
from tracetool.compare.run_options import RunOptions
from tracetool.compare.run_side import load_run
from tracetool.compare.sides import IDENTITY, RunClasses, make_side
from tracetool.compare.steps import Steps
from tracetool.compare.thresholds import parse_thresholds

ITERATIONS, BLOCK, SHARED = 30, 3, 0.7
ASKED = parse_thresholds(["energy=2%", "*:energy=2%"])
NO_CLOCKS = pl.DataFrame(
    schema={"side": pl.String, "class": pl.Int64, "clock_time_ratio": pl.Float64,
            "clock_power_ratio": pl.Float64, "work_s": pl.Float64}
)  # fmt: skip


@dataclass(frozen=True)
class Iterations:
    """What a trace's iterations took, by family."""

    families: tuple[str, ...]
    time_s: np.ndarray  # (iterations, families)
    power_w: np.ndarray  # (families,) mean
    span_s: np.ndarray  # (iterations,)
    idle_w: float

    def run(self, rng: np.random.Generator, spread: float, planted: dict[str, float]) -> RunClasses:
        """Return a run of drawn iterations with an offset of its own; ``planted`` are factors on families."""
        starts = rng.integers(0, len(self.time_s) - BLOCK + 1, ITERATIONS // BLOCK)
        drawn = (starts[:, None] + np.arange(BLOCK)).ravel()
        shared, own = (
            rng.normal(0, spread * np.sqrt(SHARED)),
            rng.normal(0, spread * np.sqrt(1 - SHARED), len(self.families)),
        )
        factor = np.exp(shared + own) * [planted.get(f, 1.0) for f in self.families]
        time = self.time_s[drawn]
        energy = time.sum(axis=0) * self.power_w * factor
        classes = pl.DataFrame(
            {
                **{c: [""] * len(self.families) for c in IDENTITY},
                "name": self.families,
                "family": self.families,
                "kind": ["kernel"] * len(self.families),
                "launches": np.full(len(self.families), float(ITERATIONS)),
                "time_s": time.sum(axis=0),
                "energy_j": energy,
                "energy_low_j": energy,
                "energy_high_j": energy,
            }
        )
        step, row = np.indices(time.shape)
        times = pl.DataFrame({"step": step.ravel(), "row": row.ravel(), "time_s": time.ravel()})
        gap = np.maximum(self.span_s[drawn] - time.sum(axis=1), 0.0)
        sequence = pl.DataFrame(
            {"device": 0, "row": range(len(self.families)), "call": None},
            schema={"device": pl.Int64, "row": pl.Int64, "call": pl.Int64},
        )
        return RunClasses(
            label="run",
            classes=classes,
            sequence=sequence,
            gap_s=float(gap.sum()),
            gap_j=float(gap.sum()) * self.idle_w * float(np.exp(shared)),
            span_s=float(self.span_s[drawn].sum()),
            steps=ITERATIONS,
            keys={},
            clock_mhz=1000.0,
            steps_taken=Steps(times, self.span_s[drawn]),
        )


def iterations_of(trace: Path) -> Iterations:
    """Return the iterations of a trace, all its kernels and copies."""
    with tempfile.TemporaryDirectory() as folder:
        run = load_run(ingest([trace], out=Path(folder) / "run").path, "anchored", RunOptions()).classes
    assert run.steps_taken is not None
    family = run.classes["family"]
    times = run.steps_taken.times.with_columns(family.gather(run.steps_taken.times["row"]).alias("family"))
    wide = times.group_by("step", "family").agg(pl.col("time_s").sum())
    table = wide.pivot(on="family", index="step", values="time_s").sort("step").fill_null(0.0).drop("step")
    sums = run.classes.group_by("family").agg(pl.col("energy_j").sum() / pl.col("time_s").sum())
    power = dict(sums.iter_rows())
    idle = run.gap_j / run.gap_s if run.gap_s > 0 else 0.0
    return Iterations(
        tuple(table.columns),
        table.to_numpy(),
        np.array([power[f] for f in table.columns]),
        run.steps_taken.span_s,
        idle,
    )


def compared(
    rng: np.random.Generator, of: Iterations, n: int, spread: float, planted: dict[str, float] | None = None
) -> RunDiff:
    """Return the comparison of n base runs with n head runs."""
    sides = [
        make_side([of.run(rng, spread, there) for _ in range(n)], per_step=True)
        for there in ({}, planted or {})
    ]
    parts = pair_sides(sides[0], sides[1])
    asked = DiffRequest("measured", ASKED)
    return compare_sides(sides[0], sides[1], asked, parts=parts, clock_ratios=NO_CLOCKS, setting="")


def verdict(made: RunDiff, scope: str) -> str:
    """Return the verdict on the energy of the whole (empty ``scope``) or a family."""
    return next(m.verdict for m in made.metrics if m.name == "energy" and m.scope == scope)


def main() -> None:
    """Print false alarms, then what was found of a change planted in each family."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--comparisons", type=int, default=200)
    parser.add_argument("--spread", type=float, default=1.0)
    parser.add_argument("--energy", type=float, default=3.0)
    asked = parser.parse_args()
    spread, more = asked.spread / 100, 1 + asked.energy / 100
    for trace in asked.traces:
        of = iterations_of(trace)
        joules = of.time_s * of.power_w
        share = joules.sum(axis=0) / joules.sum()
        print(f"{trace.name}: {len(of.time_s)} iterations, {len(of.families)} families")
        for n in (3, 5):
            rng = np.random.default_rng(n)
            same = [compared(rng, of, n, spread) for _ in range(asked.comparisons)]
            whole = np.mean([verdict(d, "") == "regressed" for d in same])
            failed = np.mean([d.failed for d in same])
            marked = np.mean([(d.level("family")["verdict"] == "regressed").any() for d in same])
            print(
                f" {n} runs a side, same code: the check fails in {failed:.1%} (its total in {whole:.1%}); "
                f"a family's row is marked in {marked:.1%}"
            )
            for k in np.argsort(-share):
                if share[k] < 0.01:
                    continue
                family = of.families[k]
                seen = [compared(rng, of, n, spread, {family: more}) for _ in range(asked.comparisons)]
                found = np.mean([verdict(d, family) == "regressed" for d in seen])
                least = np.median([m.detectable for d in seen for m in d.metrics if m.scope == family])
                noise = joules[:, k].std(ddof=1) / joules[:, k].mean()
                print(
                    f"   +{asked.energy:g} % in {family:16} found in {found:6.1%}; least {least:.1%}; "
                    f"share {share[k]:.1%}, iterations differ by {noise:.1%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
