"""Faults planted in measured power logs get the right verdict from the right check; whole logs pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.hardware.load import load_gpu
from tracetool.measure.attributed_work import Work, work_of_activity
from tracetool.measure.power_check.check import CheckedPower, check_telemetry
from tracetool.sources.telemetry.logs import read_telemetry

pytestmark = pytest.mark.data


@dataclass(frozen=True)
class Logged:
    """A measured log, what ran, and the GPU."""

    telemetry: pl.DataFrame
    work: dict[int, Work]
    gpu: str | None

    def checked(self) -> CheckedPower:
        gpu = load_gpu(self.gpu, part="sensor") if self.gpu else None
        devices = {*self.telemetry["device"].to_list(), *self.work}
        return check_telemetry(self.telemetry, self.work, dict.fromkeys(devices, gpu))

    def now(self, *changes: pl.Expr) -> Logged:
        return replace(self, telemetry=self.telemetry.with_columns(*changes).sort("device", "time_ns"))

    def only(self, which: pl.Expr) -> Logged:
        return replace(self, telemetry=self.telemetry.filter(which))

    def seconds(self) -> tuple[float, float]:
        """First start and last end of the work. [s]"""
        one = self.work[0]
        return float(one.start_ns.min()) * 1e-9, float(one.end_ns.max()) * 1e-9


def _work(start_ns: np.ndarray, end_ns: np.ndarray) -> dict[int, Work]:
    table = pl.DataFrame({"name": "load", "start_us": start_ns // 1000, "end_us": end_ns // 1000})
    return {0: work_of_activity(table)}


def _wave(data: Path, name: str, gpu: str) -> Logged:
    folder = data / "sensor" / name
    marks = sorted({int(x) for x in (folder / "load_timestamps_us.csv").read_text().split()[1:]})
    marks = marks[: len(marks) // 2 * 2]
    work = _work(np.array(marks[::2]) * 1000, np.array(marks[1::2]) * 1000)
    return Logged(read_telemetry(folder / "nvidia_smi.csv", "+01:00"), work, gpu)


@pytest.fixture(scope="module")
def step(data: Path) -> Logged:
    """One load of six seconds on an RTX 3090."""
    return _wave(data, "transient_response_3090", "rtx-3090")


@pytest.fixture(scope="module")
def bursts(data: Path) -> Logged:
    """Bursts of products on an A100; the work is where the log itself shows it."""
    log = data / "telemetry" / "cuda_test__a100_250w_pcie_fp16_burst_burst_fp16_half_random.csv"
    telemetry = read_telemetry(log, "+00:00")
    rows = telemetry.filter(pl.col("field") == "power.draw.instant").sort("time_ns")
    power_w, time_ns = rows["power_w"].to_numpy(), rows["time_ns"].to_numpy()
    low, high = np.quantile(power_w, [0.02, 0.98])
    busy = power_w > 0.5 * (low + high)
    change = np.diff(busy.astype(int), prepend=0, append=0)
    start, end = np.flatnonzero(change == 1), np.flatnonzero(change == -1) - 1
    keep = time_ns[end] > time_ns[start]
    return Logged(telemetry, _work(time_ns[start[keep]], time_ns[end[keep]]), "a100-pcie-40gb")


SECOND = 1_000_000_000
TIME, POWER = pl.col("time_ns"), pl.col("power_w")


def _within(case: Logged, low: float, high: float) -> pl.Expr:
    """Readings in a part of the work's span."""
    start_s, end_s = case.seconds()
    at_s = TIME.cast(pl.Float64) * 1e-9
    return at_s.is_between(start_s + low * (end_s - start_s), start_s + high * (end_s - start_s))


def _beyond(case: Logged, margin_s: float) -> pl.Expr:
    """Readings away from the work."""
    start_s, end_s = case.seconds()
    at_s = TIME.cast(pl.Float64) * 1e-9
    return (at_s < start_s - margin_s) | (at_s > end_s + margin_s)


def _stamped_fast(case: Logged, rate: float) -> Logged:
    first = int(case.telemetry["time_ns"].min())  # type: ignore[arg-type]
    return case.now((first + (TIME - first) * rate).cast(pl.Int64).alias("time_ns"))


def _counted(case: Logged, rate: float, reset: bool = False) -> Logged:
    """Add the log's own integral as an energy counter."""
    instant = case.telemetry.filter(pl.col("field") == "power.draw.instant").sort("time_ns")
    step_s = instant["time_ns"].diff().fill_null(0) * 1e-9
    joules = (instant["power_w"] * step_s).cum_sum() * rate
    if reset:
        joules = pl.Series([j if i < len(joules) // 2 else j - 300.0 for i, j in enumerate(joules)])
    counter = instant.with_columns(
        energy_j=pl.Series(joules), power_w=pl.lit(None, pl.Float64), power_kind=pl.lit("counter"), field=None
    )
    return replace(
        case, telemetry=pl.concat([case.telemetry, counter], how="diagonal_relaxed").sort("time_ns")
    )


def _counted_alone(case: Logged, other_j: float = 0.0) -> Logged:
    """Keep the counter alone, every second reading that of another one."""
    alone = _counted(case, 1.0).only(pl.col("energy_j").is_not_null())
    return alone.now(pl.col("energy_j") + other_j * (pl.int_range(pl.len()) % 2))


def _second_gpu(case: Logged, *, logged: bool) -> Logged:
    """A second GPU works; the log holds the first's readings twice, or only once."""
    work = {**case.work, 1: case.work[0]}
    if not logged:
        return replace(case, work=work)
    other = case.telemetry.with_columns(pl.lit(1, pl.Int32).alias("device"))
    return replace(case, work=work, telemetry=pl.concat([case.telemetry, other]))


def _every(case: Logged, nth: int, offset: int = 0) -> Logged:
    """Keep one poll in some."""
    times = case.telemetry["time_ns"].unique().sort()
    return case.only(TIME.is_in(times.gather_every(nth, offset).implode()))


def _in_step(case: Logged, period_s: float) -> Logged:
    """A load that varies, with updates every 100 ms that see 25 ms of it."""
    start_s, end_s = case.seconds()
    start = (np.arange(start_s, end_s, period_s) * 1e9).astype(np.int64)
    return replace(case, work=_work(start, start + 50_000_000), gpu="h100-sxm")


#: What is planted; the check that must report it, its verdict, and a word of the reason.
STEP: dict[str, tuple[Callable[[Logged], Logged], str, str, str]] = {
    "an hour off": (lambda c: c.now(TIME + 3600 * SECOND), "coverage", "unusable", "time zone"),
    "begins late": (lambda c: c.only(~_within(c, -9.0, 0.3)), "coverage", "usable", "covers 7"),
    "ends early": (lambda c: c.only(~_within(c, 0.2, 9.0)), "coverage", "unusable", "covers 2"),
    "one long gap": (lambda c: c.only(~_within(c, 0.3, 0.7)), "gaps", "unusable", "1 gap"),
    "short gaps": (
        lambda c: c.only((TIME // (SECOND // 2)) % 5 != 0), "gaps", "usable", "gaps",
    ),
    "three readings": (lambda c: _every(c, 300), "polling", "unusable", "inside the trace"),
    "polled each second": (lambda c: _every(c, 120), "polling", "usable", "inside the trace"),
    "stuck throughout": (
        lambda c: c.now(pl.lit(126.9).alias("power_w")), "stuck", "unusable", "every reading",
    ),
    "stuck for a while": (
        lambda c: c.now(pl.when(_within(c, 0.3, 0.75)).then(419.0).otherwise(POWER).alias("power_w")),
        "stuck", "usable", "stuck",
    ),
    "steps of 25 W": (
        lambda c: c.now(((POWER / 25).round() * 25).alias("power_w")), "quantization", "usable", "25.00 W",
    ),
    "steps of 150 W": (
        lambda c: c.now(((POWER / 150).round() * 150 + 1).alias("power_w")),
        "quantization", "unusable", "150",
    ),
    "kilowatts": (lambda c: c.now((POWER / 1000).alias("power_w")), "range", "unusable", "kilowatts"),
    "milliwatts": (lambda c: c.now((POWER * 1000).alias("power_w")), "range", "unusable", "milliwatts"),
    "twice the power": (lambda c: c.now((POWER * 2).alias("power_w")), "range", "unusable", "another GPU"),
    "dropouts": (
        lambda c: c.now(
            pl.when((TIME // (SECOND // 8)) % 16 == 0).then(0.0).otherwise(POWER).alias("power_w")
        ),
        "range", "usable", "0 W",
    ),
    "mostly dropouts": (
        lambda c: c.now(
            pl.when((TIME // (SECOND // 4)) % 2 == 0).then(0.0).otherwise(POWER).alias("power_w")
        ),
        "range", "unusable", "0 W",
    ),
    "a wrong counter": (lambda c: _counted(c, 1.4), "counter", "usable", "wrong rate"),
    "a counter that resets": (lambda c: _counted(c, 1.0, reset=True), "counter", "usable", "backwards"),
    "a counter alone": (_counted_alone, "counter", "usable", "nothing to check its rate against"),
    "two counters in one column": (lambda c: _counted_alone(c, 1e6), "counter", "unusable", "backwards"),
    "a GPU without log": (lambda c: _second_gpu(c, logged=False), "identity", "unusable", "1 GPU of the 2"),
    "one GPU logged twice": (lambda c: _second_gpu(c, logged=True), "identity", "unusable", "twice"),
    "a power cap": (
        lambda c: c.now(
            pl.when(_within(c, 0.0, 0.6)).then(pl.lit("0x0000000000000004")).otherwise(pl.lit("0x0"))
            .alias("throttle_reasons")
        ),
        "throttling", "usable", "power cap",
    ),
    "too hot": (
        lambda c: c.now(pl.lit("SW Thermal Slowdown").alias("throttle_reasons")),
        "throttling", "usable", "back: thermal (software) 100 %",
    ),
    "never idle": (lambda c: c.only(~_beyond(c, -0.05)), "idle", "usable", "idle power is not known"),
    "another program": (
        lambda c: c.now(pl.when(_beyond(c, 0.0)).then(POWER + 200).otherwise(POWER).alias("power_w")),
        "idle", "usable", "another program",
    ),
    "another GPU's log": (
        lambda c: c.now(pl.when(_beyond(c, 0.0)).then(POWER).otherwise(POWER - 292).alias("power_w")),
        "idle", "unusable", "follow",
    ),
    "work outside the trace": (
        lambda c: c.now(
            pl.when(_beyond(c, 3.0)).then(pl.lit(400.0) + POWER % 1).otherwise(POWER).alias("power_w")
        ),
        "outside", "usable", "outside the trace",
    ),
    "whole seconds": (
        lambda c: c.now((TIME // SECOND * SECOND).alias("time_ns")), "stamps", "usable", "whole",
    ),
    "two seconds late": (lambda c: c.now(TIME + 2 * SECOND), "clock", "unusable", "late"),
    "in step with the load": (lambda c: _in_step(c, 0.1), "beat", "unusable", "in step"),
    "nearly in step with the load": (lambda c: _in_step(c, 0.0993), "beat", "usable", "in step"),
}  # fmt: skip
BURSTS: dict[str, tuple[Callable[[Logged], Logged], str, str, str]] = {
    "three seconds early": (lambda c: c.now(TIME - 3 * SECOND), "clock", "unusable", "early"),
    "a clock that drifts": (lambda c: _stamped_fast(c, 1.01), "drift", "unusable", "drift"),
}


def _judged(case: Logged, check: str, verdict: str, word: str) -> None:
    checked = case.checked()
    rows = checked.findings.filter(pl.col("check") == check)
    worst = rows.filter(pl.col("verdict") == verdict)
    assert worst.height, f"{check} is {rows['verdict'].to_list()}: {checked.sentence()}"
    assert any(word in reason for reason in worst["reason"]), worst["reason"].to_list()
    assert checked.verdict != "good"
    if verdict == "unusable":
        assert checked.verdict == "unusable"
    assert any(check in reason for reason in checked.reasons)


@pytest.mark.parametrize("fault", STEP)
def test_a_fault_in_a_log_of_one_load(fault: str, step: Logged) -> None:
    plant, *expected = STEP[fault]
    _judged(plant(step), *expected)


@pytest.mark.parametrize("fault", BURSTS)
def test_a_fault_in_a_log_of_bursts(fault: str, bursts: Logged) -> None:
    plant, *expected = BURSTS[fault]
    _judged(plant(bursts), *expected)


def test_a_beat_leaves_attribution_its_readings(step: Logged) -> None:
    """Integrated power is wrong by it; what ran in each window is known all the same."""
    checked = STEP["in step with the load"][0](step).checked()
    assert checked.verdict == "unusable"
    assert not checked.unusable


def test_a_dozen_readings_place_no_work(data: Path) -> None:
    """Eleven readings a second apart, flat but for the last: work in their midst is not ten seconds early."""
    log = read_telemetry(data / "telemetry" / "NLP__modelsFT_nvidia_nvidia_power_gpt2_16.csv", "+00:00")
    one = log.filter(pl.col("device") == 0)
    first = int(one["time_ns"].min())  # type: ignore[arg-type]
    work = _work(np.array([first + 2 * SECOND]), np.array([first + 7 * SECOND]))
    findings = Logged(one, work, None).checked().findings
    assert findings.filter(pl.col("check") == "clock")["verdict"].to_list() == ["good"]


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("transient_response_3090", "rtx-3090"),
        ("5050_3090", "rtx-3090"),
        ("transient_response_k40m", "tesla-k40m"),
    ],
)
def test_whole_logs_are_good(name: str, gpu: str, data: Path) -> None:
    checked = _wave(data, name, gpu).checked()
    assert checked.verdict == "good", checked.sentence()


def test_a_whole_log_of_bursts_can_be_used(bursts: Logged) -> None:
    checked = bursts.checked()
    assert checked.verdict in ("good", "usable"), checked.sentence()


def test_whole_logs_without_a_trace_can_be_used(data: Path) -> None:
    """Every log of the folder that holds more than a moment."""
    logs = [p for p in sorted((data / "telemetry").glob("*.csv")) if "comm_test" not in p.name]
    judged = {}
    for path in logs:
        telemetry = read_telemetry(path, "+00:00")
        if telemetry["time_ns"].n_unique() > 10:
            judged[path.name] = Logged(telemetry, {}, None).checked()
    assert len(judged) >= 8
    assert not {n: c.sentence() for n, c in judged.items() if c.verdict == "unusable"}


def test_gpus_with_the_same_result_share_one_row() -> None:
    rows = [
        {"device": gpu, "check": check, "verdict": verdict, "value": None, "unit": None, "reason": reason}
        for gpu in range(8)
        for check, verdict, reason in (
            ("gaps", "good", "no gaps between readings"),
            ("range", "good" if gpu < 7 else "unusable", f"highest reading {600 + gpu}.0 W"),
        )
    ]
    checked = CheckedPower("unusable", pl.DataFrame(rows))
    assert checked.results() == [
        ("unusable", "range", "GPU 7: highest reading 607.0 W"),
        ("good", "gaps", "GPUs 0 to 7: no gaps between readings"),
        ("good", "range", "GPUs 0 to 6: highest reading 600.0 to 606.0 W"),
    ]
