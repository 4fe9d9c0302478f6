"""What cannot be used is rejected and counted to the last row, in every format; nothing is made of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import NIGHTLY
from tests.sources.logs import LOGS, NVIDIA_SMI, START_S, Log
from tests.sources.makers import kineto_document, kineto_events, nsys_sqlite, rocprofv3_json
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput
from tracetool.sources.columns import KEPT_ROWS, measured
from tracetool.sources.telemetry.logs import read_telemetry
from tracetool.tables.run import Run

#: What no reading is. A log meets a third of them, the next one another; ``make fuzz`` tries all.
NO_NUMBERS = ("nan", "inf", "-inf", "1e400", "1O5.3", "-7e30")
TRIED = [
    (i, value) for i in range(len(LOGS)) for j, value in enumerate(NO_NUMBERS) if NIGHTLY or (i + j) % 3 == 0
]
LOG_IDS = [f"{log.format}-{i}" for i, log in enumerate(LOGS)]


def _rejected(run: Run) -> int:
    (source,) = run.info["sources"]
    table = run.table("rejected")
    assert source["rejected"] == (int(table["rows"].sum()) if table.height else 0)
    return int(source["rejected"])


def test_more_rows_than_are_listed_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "kernels.csv"
    bad = "".join(f"k,{i + 10},{-5}\n" for i in range(50_000))
    path.write_text("kernel,start_us,duration_us\nk,1,1\n" + bad)
    run = Run.open(ingest([path], out=tmp_path / "run"))
    assert run.kernels.height == 1
    assert _rejected(run) == 50_000
    assert run.table("rejected").height == KEPT_ROWS + 1
    assert any("50,000 rows could not be used" in w for w in run.info["warnings"])


def test_more_lines_than_are_listed_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "smi.csv"
    path.write_text(NVIDIA_SMI + "no time, 0, GPU-aaaa, 1 W, [N/A], 1 MHz, 5\n" * 50_000)
    run = Run.open(ingest([], [path], tz="+00:00", out=tmp_path / "run"))
    assert run.telemetry.height == 3
    assert _rejected(run) == 50_000


#: How a later reading stands in logs of counters: what is before it, the number, what is behind it.
COUNTERS = {
    "zeus_windows": (",", "100.0", ",50.0"),
    "powercap": ("energy_uj:", "50000000", "\n"),
    "slurm_energy": ("|", "330", "|"),
}


def _second_value(log: Log, value: str) -> str:
    """Return a log whose second reading is something else; its counter where it has no power."""
    for written in ("110.000", "110.00", "110.0", "110", "110000", "200000"):
        for before, after in (
            (" ", " "), (",", "\n"), (",", ","), ('"', '"'), (">", " "), (" ", ","), (" ", "\n"), (" ", "W"),
            ("\t", "\t"),
        ):  # fmt: skip
            if f"{before}{written}{after}" in log.text:
                return log.text.replace(f"{before}{written}{after}", f"{before}{value}{after}", 1)
    if log.format in COUNTERS:
        before, written, after = COUNTERS[log.format]
        first, _, last = log.text.rpartition(f"{before}{written}{after}")
        return f"{first}{before}{value}{after}{last}"
    raise AssertionError(f"{log.format}: the second reading is not there")


def _readings(run: Run) -> pl.DataFrame:
    """Return the readings of GPUs and hosts."""
    return run.table("telemetry")


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Log], Run]:
    """Return a function that gives the run of a log as it was made, read once."""

    @cache
    def read(log: Log) -> Run:
        folder = tmp_path_factory.mktemp(log.format)
        path = folder / log.name
        path.write_text(log.text)
        zone = "+00:00" if log.domain == "local" else None
        return Run.open(ingest([], [path], tz=zone, out=folder / "whole"))

    return read


@pytest.mark.parametrize(("number", "value"), TRIED, ids=[f"{LOG_IDS[i]}-{value}" for i, value in TRIED])
def test_a_reading_that_is_no_number_is_rejected_and_counted(
    number: int, value: str, tmp_path: Path, whole_run: Callable[[Log], Run]
) -> None:
    log = LOGS[number]
    path = tmp_path / log.name
    zone = "+00:00" if log.domain == "local" else None
    whole = whole_run(log)
    path.write_text(_second_value(log, value))
    run = Run.open(ingest([], [path], tz=zone, out=tmp_path / "run"))
    assert _rejected(run) == _rejected(whole) + 1
    damaged, sound = _readings(run), _readings(whole)
    fewer = damaged.select(pl.col("power_w", "energy_j").count()).sum_horizontal()[0]
    all_of_them = sound.select(pl.col("power_w", "energy_j").count()).sum_horizontal()[0]
    # of a job without its own energy the step with most stands for it
    assert fewer < all_of_them or damaged["energy_j"].sum() < sound["energy_j"].sum()
    numbers = damaged.select(pl.col(pl.Float64).drop_nulls().is_finite().all())
    assert all(numbers.row(0))
    assert run.devices.height == whole.devices.height
    direct = read_telemetry(path, tz=zone)
    assert direct["power_w"].drop_nulls().is_finite().all()


def _late(log: Log) -> str:
    for early, late in (
        ("2026/01/05 05:00:01", "9999/01/05 05:00:01"), ("20260105   05:00:01", "99990105   05:00:01"),
        ("Jan  5 05:00:01 2026", "Jan  5 05:00:01 9999"), (f"{(START_S + 1) * 1000}", "9" * 19),
        (f"{START_S + 1}", "99999999999"),
    ):  # fmt: skip
        if early in log.text:
            return log.text.replace(early, late)
    pytest.skip("stamps of its own")


@pytest.mark.parametrize("log", LOGS, ids=LOG_IDS)
def test_a_stamp_beyond_64_bits_is_rejected_and_counted(log: Log, tmp_path: Path) -> None:
    path = tmp_path / log.name
    path.write_text(_late(log))
    zone = "+00:00" if log.domain == "local" else None
    run = Run.open(ingest([], [path], tz=zone, out=tmp_path / "run"))
    if log.format == "zeus_windows":
        pytest.skip("a window's end may be the stamp of the next")
    seconds = (_readings(run)["time_ns"] // 10**9 - START_S).unique().to_list()
    assert 1 not in seconds
    assert all(0 <= s <= 3 for s in seconds)
    assert _rejected(run) >= 1


BROKEN = [
    # Two lines in one, the first cut within its GPU's name, and a name cut short.
    "2026/01/05 05:00:03.250, 0, GPU-aa2026/01/05 05:00:04.250, 0, GPU-aaaa, 100.00 W, [N/A], 1410 MHz, 50\n",
    "2026/01/05 05:00:03.250, 0, GPU-a, 100.00 W, [N/A], 1410 MHz, 50\n",
    "2026/01/05 05:00:03.250, 0, GPU-bbbb, nan, [N/A], nan, nan\n",
]


@pytest.mark.parametrize("line", BROKEN)
def test_a_broken_line_makes_no_gpu(line: str, tmp_path: Path) -> None:
    path = tmp_path / "smi.csv"
    more = "".join(
        f"2026/01/05 05:01:{i:02d}.250, 0, GPU-aaaa, {100 + i}.00 W, [N/A], 1410 MHz, 50\n" for i in range(20)
    )
    path.write_text(NVIDIA_SMI + line + more)
    run = Run.open(ingest([], [path], tz="+00:00", out=tmp_path / "run"))
    assert run.devices.height == 1
    assert run.telemetry["device"].unique().to_list() == [0]
    assert run.telemetry.height == 23
    assert _rejected(run) == 1


@pytest.mark.parametrize(
    ("cell", "number"),
    [("18.81 W", 18.81), ("(1269Mhz)", None), ("1269Mhz", 1269.0), ("39.0c", 39.0), ("5e2", 500.0), ("-", None),  # noqa: E501
     ("[N/A]", None), ("N/A", None), ("", None), ("[Requires driver 555]", None), ("45 C (edge 2)", 45.0)],
)  # fmt: skip
def test_cells_of_monitors(cell: str, number: float | None) -> None:
    found = pl.DataFrame({"c": [cell.strip("()")]}).select(measured("c")).item()
    assert found == (1269.0 if cell == "(1269Mhz)" else number)


@pytest.mark.parametrize("cell", ["nan", "NaN W", "-inf", "Infinity", "1O5.3 W", "11.0.5", "1#0"])
def test_cells_that_are_broken(cell: str) -> None:
    assert pl.DataFrame({"c": [cell]}).select(measured("c").is_nan()).item()


@pytest.mark.parametrize("start", ["1e400", "nan", "inf", "9e18", "1e300", "99999999999999999999", "-1e19"])
def test_a_launch_beyond_64_bits_is_rejected(start: str, tmp_path: Path) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(f"kernel,start_us,duration_us\nk,1,1\nk,{start},1\nk,3,1\n")
    run = Run.open(ingest([path], out=tmp_path / "run"))
    assert run.kernels["start_ns"].to_list() == [1000, 3000]
    assert _rejected(run) == 1


@pytest.mark.parametrize("ts", [1e300, 9.9e15, -1e300, 1e17])
def test_an_event_beyond_64_bits_is_rejected(ts: float, tmp_path: Path) -> None:
    events = kineto_events()
    late = next(e for e in events if e.get("cat") == "kernel")
    path = tmp_path / "t.json"
    path.write_text(json.dumps(kineto_document([*events, {**late, "ts": ts}])))
    run = Run.open(ingest([path], out=tmp_path / "run"))
    assert run.kernels.filter(pl.col("kind") == "kernel").height == 3
    assert _rejected(run) == 1


@pytest.mark.parametrize("start", [2**63, 2**64 - 1, 2**64, 10**30, -(2**63)])
def test_a_dispatch_beyond_64_bits_is_rejected_or_refused(start: int, tmp_path: Path) -> None:
    path = rocprofv3_json(tmp_path)
    document = json.loads(path.read_text())
    dispatches = document["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    dispatches.append({**dispatches[0], "start_timestamp": start})
    path.write_text(json.dumps(document))
    try:
        run = Run.open(ingest([path], out=tmp_path / "run"))
    except BadInput as error:
        assert "\n" not in error.line()
        assert not (tmp_path / "run").exists()
    else:
        assert run.kernels.filter(pl.col("kind") == "kernel").height == len(dispatches) - 1
        assert _rejected(run) == 1


def test_a_start_that_overflows_on_the_run_s_clock_is_rejected(tmp_path: Path) -> None:
    path = nsys_sqlite(tmp_path)
    made = sqlite3.connect(path)
    made.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = ?", (2**61,))
    made.execute(
        'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = ?, "end" = ? WHERE rowid = 1',
        (7 * 10**18, 7 * 10**18 + 5),
    )
    made.commit()
    made.close()
    run = Run.open(ingest([path], out=tmp_path / "run"))
    assert (run.kernels["start_ns"] >= 2**61).all()
    assert run.kernels.filter(pl.col("kind") == "kernel").height == 2
    assert _rejected(run) == 1
