"""How far off fine-grain profiles are on a simulated MI300X-like GPU, and what controls say.

The GPU and its loggers are those of ``tests/measure/invented_gpu.py``, which import nothing of the tool: a
1 ms sampler with a clock of its own that jitters and drifts, warm-up executions that overshoot, a slow rise
from steady execution (SSE) to steady power (SSP), runs of unusual length. Prints errors per execution time
at the paper's run counts (an averaging sampler with components and without) beside energy shared out by time
and by a model that is 15 % off, how often the 90 % intervals of means hold (SSE, SSP of a run's last
execution, SSP where power settles), whether the runs the tool asks for do bring the profile to 3 %, the
50-run trend, times of interest, and the directions of the paper's interleaving figure.

    python benchmarks/fingrav.py [SEEDS]
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from tracetool.measure.fingrav.campaign_tables import fit_clock
from tracetool.measure.fingrav.curves import FineProfile
from tracetool.measure.fingrav.executions import in_runs
from tracetool.measure.fingrav.guidance import guidance
from tracetool.measure.fingrav.interleaving import Activities, interleaving
from tracetool.measure.fingrav.profile import fine_profile
from tracetool.measure.fingrav.stitch import Samples
from tracetool.measure.naive_estimates import by_model, by_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.measure.invented_gpu import PARTS, SHAPE_MEAN, Campaign, Steps, campaign, gpu_log, shape

IDLE_W = 140.0
#: Execution time [s] and executions per run.
KERNELS = ((40e-6, 60), (100e-6, 40), (500e-6, 40), (1.5e-3, 40))


def _profiled(made, seed: int, window_s: float = 0.0, *, alone: bool = False):
    log = gpu_log(made.steps, seed=seed, window_s=window_s)
    if alone:  # a logger without components
        log = replace(log, power_w={"total": log.power_w["total"]})
    clock = fit_clock(log.sync_host_s, log.sync_gpu_s, log.sync_delay_s)
    error = float(clock.error(log.gpu_s).max())
    samples = Samples(clock.host(log.gpu_s), log.power_w, window_s, 1e-3, error)
    return fine_profile(in_runs(made.start_s, made.end_s), samples, seed=seed), log


def _controls(made, log, seed: int) -> tuple[float, float]:
    """Power of the kernel if the log's energy is shared out by time, and by a model 15 % off. [W]"""
    busy, span = float((made.end_s - made.start_s).sum()), float(made.steps.edges_s[-1])
    total = float(log.power_w["total"].mean()) * span
    model = np.array([made.ssp_w, IDLE_W]) * (1 + 0.15 * np.random.default_rng(seed).standard_normal(2))
    seconds = np.array([busy, span - busy])
    return by_time(seconds, total)[0] / busy, by_model(seconds, model, total)[0] / busy


def _held(found: FineProfile, made: Campaign) -> list[float]:
    """Share of components whose intervals hold the means of SSE, of a run's end, and of settled power."""
    truth = (("sse", made.sse_w), ("ssp", made.end_w), ("ssp", made.ssp_w))
    curves = {(curve.kind, curve.component): curve for curve in found.curves}
    shares = []
    for kind, watts in truth:
        each = [(curve, PARTS.get(name, 1.0)) for (of, name), curve in curves.items() if of == kind]
        shares.append(float(np.mean([c.mean_low_w <= part * watts <= c.mean_high_w for c, part in each])))
    return shares


def profiles(seeds: int, window_s: float, *, alone: bool = False) -> None:
    how = f"averages {window_s * 1e3:.0f} ms" if window_s else "instantaneous"
    how += ", total power alone" if alone else ""
    print(f"1 ms sampler, {how}: mean error (worst of {seeds} campaigns)")
    print(
        "  execution runs   profile         SSE mean       SSP mean       SSP by time  by model   means held"
    )
    for duration, executions in KERNELS:
        rows, held = [], []
        runs = guidance(duration).runs
        for seed in range(seeds):
            made = campaign(seed=seed, runs=runs, executions=executions, duration_s=duration)
            found, log = _profiled(made, seed + 50, window_s, alone=alone)
            curve = found.curve("ssp")
            truth = shape(curve.phase) / SHAPE_MEAN * made.ssp_w
            timed, modeled = _controls(made, log, seed)
            rows.append(
                [
                    np.abs(curve.power_w / truth - 1).mean(),
                    abs(found.curve("sse").mean_w / made.sse_w - 1),
                    abs(curve.mean_w / made.end_w - 1),
                    abs(timed / made.ssp_w - 1),
                    abs(modeled / made.ssp_w - 1),
                ]
            )
            held.append(_held(found, made))
        mean, worst = np.mean(rows, axis=0), np.max(rows, axis=0)
        shown = "".join(f"{m:6.2%} ({w:5.2%})" for m, w in zip(mean[:3], worst[:3], strict=True))
        shares = " ".join(f"{share:4.0%}" for share in np.mean(held, axis=0))
        print(
            f"  {duration * 1e6:6.0f} us {runs:5d}  {shown}   {mean[3]:6.1%}      {mean[4]:6.1%}   {shares}"
        )


def foretold_runs(seeds: int) -> None:
    """Runs the tool asks for to know a 40 us profile within 3 %, and how far off it is after as many."""
    asked = []
    for seed in range(seeds):
        found, _ = _profiled(
            campaign(seed=seed, runs=400, executions=60, duration_s=40e-6), seed + 50, 1e-3, alone=True
        )
        asked.append(400 * found.deconvolution.runs_factor)
    runs = int(np.ceil(np.mean(asked)))
    errors = []
    for seed in range(20, 20 + seeds):
        made = campaign(seed=seed, runs=runs, executions=60, duration_s=40e-6)
        curve = _profiled(made, seed, 1e-3, alone=True)[0].curve("ssp")
        errors.append(np.abs(curve.power_w / (shape(curve.phase) / SHAPE_MEAN * made.ssp_w) - 1).mean())
    print(f"40 us, total power alone: {runs} runs predicted for 3 %; after as many {np.mean(errors):.2%} off")


def trends(seeds: int) -> None:
    errors, few_errors = [], []
    for seed in range(seeds):
        many = _profiled(campaign(seed=seed), seed)[0].run_trend.power_w
        few = _profiled(campaign(seed=seed + 20, runs=50), seed + 1)[0].run_trend.power_w
        errors.append(np.abs(few / many - 1)[5:-5].mean())
        few_errors.append(np.abs(few / many - 1)[5:-5].max())
    print(f"trend of 50 runs against 200: {np.mean(errors):.2%} on average, {np.max(few_errors):.2%} at most")


def times_of_interest(seeds: int) -> None:
    two, one = [], []
    for seed in range(seeds):
        log = gpu_log(campaign(seed=seed, runs=60).steps, seed=seed, drift=40e-6)
        sync = (log.sync_host_s, log.sync_gpu_s, log.sync_delay_s)
        two.append(np.abs(fit_clock(*sync).host(log.gpu_s) - log.true_s).max())
        lone = fit_clock(*(part[:1] for part in sync))
        one.append(np.abs(lone.host(log.gpu_s) - log.true_s).max())
    print(
        f"time of interest, clock drifting by 40 ppm: error at most {1e6 * max(two):.1f} us after two sync"
        f" points ({1e6 * max(one):.0f} us after one)"
    )


#: Kernels of the paper's interleaving figure, as simulated: power [W] and what lingers of the difference.
FIGURE = {
    "CB-8K": (700.0, 0.03), "CB-4K": (640.0, 0.03), "CB-2K": (450.0, 0.45),
    "MB-8K gemv": (320.0, 0.45), "MB-4K gemv": (280.0, 0.45),
}  # fmt: skip
#: Before, kernel, direction the paper draws.
PAIRS = (
    ("CB-8K", "CB-2K", "above"), ("CB-4K", "CB-2K", "above"), ("MB-4K gemv", "CB-2K", "below"),
    ("MB-4K gemv", "MB-8K gemv", "below"), ("CB-2K", "MB-8K gemv", "above"), ("CB-8K", "MB-4K gemv", "above"),
    ("CB-4K", "MB-4K gemv", "above"), ("CB-2K", "CB-8K", "unchanged"), ("MB-4K gemv", "CB-8K", "unchanged"),
)  # fmt: skip


def _interleaved(before_w: float, own_w: float, gain: float, seed: int, rows: int = 250):
    """Rows of 30 kernels of one kind, then 30 of the profiled one; every third row has it alone."""
    random = np.random.default_rng(seed)
    length, memory = 200e-6, 4e-3
    now, start, end, label, edges, watts = 0.05, [], [], [], [0.0], []
    for row in range(rows):
        alone = row % 3 == 0
        for j in range(30 if alone else 0, 60):
            other = j < 30
            took = length * (1 + 0.01 * random.standard_normal())
            since = 1.0 if alone else (j - 30 + 0.5) * length
            level = before_w if other else own_w + gain * (before_w - own_w) * np.exp(-since / memory)
            edges += [now, now + took]
            watts += [120.0, level]
            start.append(now)
            end.append(now + took)
            label.append(int(other))
            now += took + 2e-6
        now += 0.02 + random.uniform(0.0, 0.002)
    made = Activities(np.array(start), np.array(end), np.array(label), ("own", "before"))
    steps = Steps(np.array([*edges, now]), np.array([*watts, 120.0]))
    at = np.arange(0.05, steps.edges_s[-1], 1e-3) + random.uniform(-2e-5, 2e-5)
    power = steps.now(at) * (1 + 0.01 * random.standard_normal(len(at)))
    return made, Samples(at, {"total": power}, 0.0, 1e-3)


def directions() -> None:
    print("interleaving: power of a kernel after another, against alone (90 % interval); paper's direction")
    right = 0
    for i, (before, own, wanted) in enumerate(PAIRS):
        power, gain = FIGURE[own]
        found = interleaving(*_interleaved(FIGURE[before][0], power, gain, i))
        assert found is not None
        parts = {c.context: c for c in found.contexts}
        alone = parts["isolated"].mean_w
        after = next(parts[k] for k in ("after-heavy", "after-light", "after-alike") if k in parts)
        change, low, high = (x / alone - 1 for x in (after.mean_w, after.low_w, after.high_w))
        said = "unchanged" if abs(change) < 0.03 else "above" if low > 0 else "below" if high < 0 else "open"
        right += said == wanted
        told = found.history
        lingers = "" if told is None else f"lingers {told.gain:.2f} (true {gain:.2f})"
        shown = f"{change:+6.1%} ({low:+.1%} to {high:+.1%})"
        print(f"  {own:11s} after {before:11s} {shown:28s} {said:10s} {wanted:10s} {lingers}")
    print(f"  {right} of {len(PAIRS)} directions as in the paper")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    for averaged in (0.0, 1e-3):
        profiles(count, averaged)
    profiles(count, 1e-3, alone=True)
    foretold_runs(count)
    trends(count)
    times_of_interest(count)
    directions()
