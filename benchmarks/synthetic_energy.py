"""Energy per class against simulated jobs whose truth is known, through every class of sensor.

Jobs, sensors and counters are those of ``tests/measure/jobs.py``, which import nothing of the tool: phases
of mixed kernels, launch gaps, idle time, kernels of one class that differ by 2 %, values in steps of 10 mW,
counters in whole millijoules, a log clock that is 4 ms off and drifts by 15 ppm. Gain and offset of each
GPU are drawn as its class states; errors are told after undoing them, as a meter would once. Prints, where
20 windows or more saw a class: error, how often 90 % intervals hold without and with such a meter, and both
controls (a model 15 % off); then how often classes that never separate are called identified.

    python benchmarks/synthetic_energy.py [GPUS]
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import norm

from tracetool.hardware.sensors import sensor_of
from tracetool.measure.class_energy import attribute_classes
from tracetool.measure.counter import check_counter
from tracetool.measure.naive_estimates import by_model, by_time
from tracetool.measure.observe import observe
from tracetool.measure.power_log import PowerLog
from tracetool.measure.sensors import GPU_TO_GPU_GAIN_SD
from tracetool.measure.timeline import build_timeline

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.measure.jobs import counter_log, job, sensor_log

#: Sensor class: architecture, field, classes of kernels, seconds.
KINDS = {
    1: ("ampere-ga100", "draw", 6, 60.0), 2: ("ampere-ga10x", "instant", 6, 40.0),
    3: ("hopper", "average", 4, 90.0), 4: ("volta", "draw", 6, 20.0), 5: ("kepler", "draw", 3, 120.0),
}  # fmt: skip
NOTHING = np.zeros(0)


def _attributed(made, kind: int, seed: int, *, counter: bool, label=None, count: int | None = None):
    """What is found of a job on a GPU of its own, with and without its gain and offset, and those."""
    architecture, field, *_ = KINDS[kind]
    sensor = sensor_of(architecture, field)
    gain = 1.0 + max(sensor.gain_sd, GPU_TO_GPU_GAIN_SD) * _drawn(7000 + kind, seed)
    offset = sensor.offset_sd_w * _drawn(8000 + kind, seed)
    time, power = sensor_log(made.steps, kind, seed, gain=gain, offset_w=offset)
    polls, joules = NOTHING, NOTHING
    if counter:
        polls, joules = counter_log(replace(made.steps, power_w=gain * made.steps.power_w + offset), seed)
        polls = polls + 0.004
    log = PowerLog(field, time, power, polls, joules)
    labels = made.label if label is None else label
    k = count or len(made.power_w)
    seen = observe(log, build_timeline(made.start_s, made.end_s, labels, k, 2e-5), [sensor])
    usable = (told := check_counter(log)) is not None and told.usable
    known = replace(sensor, gain=gain, offset_w=offset, gain_sd=1e-3, offset_sd_w=0.05)
    used = log if usable else None
    on_a_meter = attribute_classes(replace(seen, sensor=known), counter=used)
    return attribute_classes(seen, counter=used), on_a_meter, gain, offset


def _drawn(stream: int, gpu: int, many: int = 20) -> float:
    """A standard normal deviate a GPU, each score of GPUs spread evenly over the distribution."""
    turn = np.random.default_rng([stream, gpu // many]).permutation(many)
    return float(norm.ppf((turn[gpu % many] + 0.5) / many))


def table(gpus: int) -> None:
    print("                                       error,         90 % intervals hold")
    print("sensor                        classes  mean (worst)   as is  on a meter   by time   by model")
    every, metered = [], []
    for kind, (architecture, field, classes, seconds) in KINDS.items():
        for counter in (False, True) if kind in (1, 2) else (False,):
            errors, held, known, timed, modeled = [], [], [], [], []
            for seed in range(gpus):
                made = job(40 * kind + seed, classes=classes, seconds=seconds)
                found, on_a_meter, _, _ = _attributed(made, kind, seed, counter=counter)
                k, truth = classes, made.energy_j
                seen = found.identification.coverage[:k] >= 20
                for which, into in ((found, held), (on_a_meter, known)):
                    low, high = which.interval()
                    into += list(((low[:k] <= truth) & (truth <= high[:k]))[seen])
                errors += list(np.abs(on_a_meter.energy_j[:k] / truth - 1)[seen])
                model = made.power_w * (1 + 0.15 * np.random.default_rng(seed).standard_normal(k))
                timed += list(np.abs(by_time(found.seconds[:k], truth.sum()) / truth - 1)[seen])
                shared = by_model(found.seconds[:k], model, truth.sum())
                modeled += list(np.abs(shared / truth - 1)[seen])
            every, metered = every + held, metered + known
            name = f"{kind}: {architecture} {field}" + (" + counter" if counter else "")
            holds = f"{np.mean(held):6.0%}     {np.mean(known):6.0%}"
            shared = f"{np.mean(timed):8.1%}   {np.mean(modeled):8.1%}"
            off = f"{np.mean(errors):6.2%} ({np.max(errors):4.1%})"
            print(f"{name:30s} {len(errors):5d}  {off}  {holds}   {shared}")
    print(
        f"all: 90 % intervals hold {np.mean(every):.0%} of {len(every)} classes on {gpus} GPUs a row,"
        f" {np.mean(metered):.0%} where gain and offset are known"
    )


def collinear(jobs: int) -> None:
    """Cut every kernel of one class in two classes that always run one after the other.

    Kernels are far shorter than the window: where windows cut them, even these two are seen apart.
    """
    wrong = joint = 0
    for kind, length, seconds in ((1, 5e-4, 20.0), (2, 5e-4, 20.0), (4, 2e-4, 15.0)):
        for seed in range(jobs):
            made = job(300 + 10 * kind + seed, classes=4, seconds=seconds, mean_s=length)
            first = made.label == 0
            cut = made.start_s + 0.6 * (made.end_s - made.start_s)
            start = np.concatenate([made.start_s, cut[first]])
            end = np.concatenate([np.where(first, cut, made.end_s), made.end_s[first]])
            label = np.concatenate([made.label, np.full(int(first.sum()), 4)])
            split = replace(made, start_s=start, end_s=end, label=label)
            found, _, gain, offset = _attributed(split, kind, seed, counter=False, label=label, count=5)
            wrong += int(found.identification.identified[0]) + int(found.identification.identified[4])
            together = found.identification.group == found.identification.group[0]
            energy = (found.group_energy()[0][0] - offset * found.seconds[together].sum()) / gain
            joint += int(abs(energy / made.energy_j[0] - 1.0) < 0.1)
    print(
        f"collinear classes called identified: {wrong} of {6 * jobs};"
        f" their joint energy within 10 % in {joint} of {3 * jobs}"
    )


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    table(asked)
    collinear(max(asked // 3, 1))
