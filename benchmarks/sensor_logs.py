"""Energy of windows from real sensor logs against the physical meter beside them, with the controls.

For each log, and for a simulated A100 (25 ms of every 100 ms) that looks at what the meter of the first log
saw, prints by window length: error as attributed and after one gain a GPU, of integrating the log as if
readings were instantaneous (after its own gain), of sharing the log's energy out by time, and by a model of
active and idle power that is 15 % off; then how often intervals hold, and what the log tells of its sensor.

    python benchmarks/sensor_logs.py ../shared/data [SEED]
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.plain_integral import naive_energy
from tracetool.hardware.load import load_gpu
from tracetool.measure.attribute import attribute_activity
from tracetool.measure.identify_sensor import identify_sensor
from tracetool.measure.observe import observe
from tracetool.measure.power_log import PowerLog
from tracetool.measure.sensors import candidate_sensors
from tracetool.measure.timeline import build_timeline
from tracetool.measure.windows import WindowEnergy, window_energy
from tracetool.sources.telemetry.logs import read_telemetry

#: GPUs by the end of a folder's name.
GPUS = {"3090": "rtx-3090", "a100": "a100-pcie-40gb", "4090": "rtx-4090", "a5000": "rtx-a5000",
          "k40m": "tesla-k40m"}  # fmt: skip
SPANS_S = (0.05, 0.1, 0.3, 1.0, 3.0)
NOTHING = np.zeros(0)


@dataclass(frozen=True)
class Metered:
    """What the meter saw, when the load ran, and windows to ask about. Times since ``origin_us``. [s], [W]"""

    origin_us: int
    time_s: np.ndarray
    power_w: np.ndarray
    on_s: np.ndarray  # (m, 2)
    start_s: np.ndarray
    end_s: np.ndarray

    def energy(self, start_s, end_s):
        steps = 0.5 * (self.power_w[1:] + self.power_w[:-1]) * np.diff(self.time_s)
        total = np.concatenate([[0.0], np.cumsum(steps)])
        return np.interp(end_s, self.time_s, total) - np.interp(start_s, self.time_s, total)


def metered(folder: Path, seed: int) -> Metered:
    meter = pl.read_parquet(folder / "meter.parquet")
    stamps = sorted({int(x) for x in (folder / "load_timestamps_us.csv").read_text().split()[1:]})
    origin = int(meter["time_us"][0])
    time = (meter["time_us"].to_numpy() - origin) * 1e-6
    marks = (np.array(stamps) - origin) * 1e-6
    on = np.array(list(zip(marks[::2], marks[1::2], strict=False)))
    low, high = max(time[0], marks[0]), min(time[-1], marks[-1])
    random = np.random.default_rng(seed)
    first = np.concatenate([random.uniform(low, high - s, 40) for s in SPANS_S if high - low > 1.2 * s])
    length = np.repeat([s for s in SPANS_S if high - low > 1.2 * s], 40)
    return Metered(origin, time, meter["power_w"].to_numpy(), on, first, first + length)


def shares(made: Metered, model: tuple[float, float], start_s, end_s):
    """Modeled energy of windows: active and idle power, by when the load ran."""
    edges = made.on_s.ravel()
    busy = np.concatenate([[0.0], np.cumsum(np.diff(edges) * (np.arange(len(edges) - 1) % 2 == 0))])
    active = np.interp(end_s, edges, busy) - np.interp(start_s, edges, busy)
    return model[0] * active + model[1] * (end_s - start_s - active)


def show(name: str, made: Metered, found: WindowEnergy, time_s, power_w) -> None:
    truth = made.energy(made.start_s, made.end_s)
    naive = naive_energy(time_s, power_w, made.start_s, made.end_s)
    span = np.array([time_s[0]]), np.array([time_s[-1]])
    total = naive_energy(time_s, power_w, *span)[0]
    timed = total * (made.end_s - made.start_s) / float(span[1][0] - span[0][0])
    high, low = np.quantile(power_w, [0.9, 0.1])
    modeled = []
    for model in ((1.15 * high, 0.85 * low), (0.85 * high, 1.15 * low)):
        parts = shares(made, model, made.start_s, made.end_s)
        modeled.append(parts * total / shares(made, model, *span)[0])

    def off(energy, *, gained: bool):
        factor = np.median(truth / energy) if gained else 1.0
        return np.abs(factor * energy / truth - 1)

    def says(gained: bool):
        plain = [off(energy, gained=gained) for energy in (found.energy_j, naive, timed)]
        return [*plain, np.mean([off(energy, gained=gained) for energy in modeled], axis=0)]

    length = np.round(made.end_s - made.start_s, 6)
    print(f"{name}: mean error of windows    attributed   naive   by time   by model")
    for gained, how in ((False, "as is"), (True, "after one gain")):
        errors = says(gained)
        for each in (*np.unique(length), None):
            here = np.ones(len(length), bool) if each is None else length == each
            shown = "all windows" if each is None else f"{1e3 * each:.0f} ms"
            values = [float(np.mean(e[here])) for e in errors]
            row = f"{values[0]:8.1%} {values[1]:8.1%} {values[2]:8.1%}  {values[3]:8.1%}"
            print(f"  {how:15s} {shown:12s}      {row}")
    held = np.mean((found.low_j <= truth) & (truth <= found.high_j))
    ratio = float(np.median(found.energy_j / truth))
    print(f"  90 % intervals hold {held:.0%} of windows; attributed over true energy {ratio:.3f}")


def real(folder: Path, seed: int) -> None:
    made = metered(folder, seed)
    gpu = GPUS[folder.name.rsplit("_", 1)[1]]
    to_us = lambda t: np.round(t * 1e6).astype(np.int64) + made.origin_us  # noqa: E731
    with tempfile.TemporaryDirectory() as place:
        activity, windows = Path(place) / "activity.csv", Path(place) / "windows.csv"
        on = to_us(made.on_s)
        pl.DataFrame({"name": "load", "start_us": on[:, 0], "end_us": on[:, 1]}).write_csv(activity)
        pl.DataFrame({"start_us": to_us(made.start_s), "end_us": to_us(made.end_s)}).write_csv(windows)
        log = folder / "nvidia_smi.csv"
        got = attribute_activity(activity, power=[log], tz="+01:00", gpu=gpu, windows=windows).windows
        sensors = identify_sensor(activity, power=[log], tz="+01:00", gpu=gpu)
    assert got is not None
    columns = (got[c].to_numpy() for c in ("energy_j", "energy_low_j", "energy_high_j", "coverage"))
    seen = read_telemetry(log, "+01:00")
    field = next(f for f in ("power.draw.instant", "power.draw") if f in seen["field"].to_list())
    rows = seen.filter(pl.col("field") == field).sort("time_ns")
    time = (rows["time_ns"].to_numpy() // 1000 - made.origin_us) * 1e-6
    show(folder.name, made, WindowEnergy(*columns), time, rows["power_w"].to_numpy())
    for one in sensors:
        row = one.row()
        told = []
        for what in ("window", "lag", "update"):
            if row.get(f"{what}_ms"):
                ends = f"{row[f'{what}_low_ms']:.1f} to {row[f'{what}_high_ms']:.1f}"
                told.append(f"{what} {row[f'{what}_ms']:.1f} ms ({ends})")
        print(f"  {row['field']}: {', '.join(told)} {row['note'] or ''}")


def on_the_hosts_clock(made: Metered) -> Metered:
    """Undo the meter's own clock: the drift and offset at which its power follows the load's stamps best.

    A meter's clock drifts against the host's, by most of a millisecond a second on one of the logs. A sensor
    invented on top of it would be asked about work that never ran when it looked.
    """
    edges = made.on_s.ravel()
    inside = (made.time_s > edges[0]) & (made.time_s < edges[-1])
    time, power = made.time_s[inside], made.power_w[inside] - made.power_w[inside].mean()

    def follows(drift: float, offset: float) -> float:
        at = time + offset + drift * (time - time[0])
        return float(power @ (np.searchsorted(edges, at, side="right") % 2 == 1))

    tried = [(d, o) for d in np.linspace(-1.2e-3, 1.2e-3, 49) for o in np.linspace(-0.012, 0.012, 25)]
    drift, offset = max(tried, key=lambda pair: follows(*pair))
    return replace(made, time_s=made.time_s + offset + drift * (made.time_s - time[0]))


def invented_a100(folder: Path, seed: int) -> None:
    """An A100's sensor looks at the power a meter saw; its gain and offset are drawn."""
    made = on_the_hosts_clock(metered(folder, seed))
    random = np.random.default_rng(seed)
    gpu = load_gpu("a100-pcie-40gb", part="sensor")
    sensor = candidate_sensors(gpu, "power.draw", None)[0]
    gain = sensor.gain + sensor.gain_sd * random.standard_normal()
    offset = sensor.offset_w + sensor.offset_sd_w * random.standard_normal()
    update = np.arange(0.2 + random.uniform(0.0, 0.1), made.time_s[-1], 0.09997)
    shown = gain * made.energy(update - 0.0245, update) / 0.0245 + offset + random.normal(0, 0.1, len(update))
    polls = np.arange(update[0] + 0.001, made.time_s[-1] - 0.01, 0.007)
    power = np.round(shown[np.searchsorted(update, polls, side="right") - 1], 2)
    log = PowerLog("power.draw", polls - 0.003, power, NOTHING, NOTHING)
    work = build_timeline(made.on_s[:, 0], made.on_s[:, 1], np.zeros(len(made.on_s), np.int64), 1, 3e-4)
    found = window_energy(observe(log, work, [sensor]), made.start_s, made.end_s)
    show(f"A100 sensor on {folder.name}", made, found, log.time_s, power)


if __name__ == "__main__":
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data") / "sensor"
    chance = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    for one in sorted(p for p in root.iterdir() if p.is_dir()):
        real(one, chance)
    for extra in range(3):
        invented_a100(next(iter(sorted(root.iterdir()))), chance + extra)
