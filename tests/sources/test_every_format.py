"""Every format: told by content, read whole to the nanosecond, no other claims it, damage is told."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from tests.sources.logs import LOGS, START_S, Log
from tests.sources.makers import LAUNCHES, TOTAL_NS, TRACES, Sample
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput, TracetoolError
from tracetool.sources.detect import all_formats, detect
from tracetool.sources.telemetry.logs import read_log, read_telemetry
from tracetool.tables.run import Run

TRACE_IDS = [f"{s.format}-{i}" for i, s in enumerate(TRACES)]
LOG_IDS = [f"{log.format}-{log.name}" for log in LOGS]


def test_every_format_is_described_and_has_a_sample() -> None:
    """The listing is complete, and a new format cannot come without a test."""
    sampled = {s.format for s in TRACES} | {log.format for log in LOGS}
    elsewhere = {
        "nsys_rep",
        "tracetool_power",
        "ncu_csv",
        "rocprofv3_counters",
        "execution_trace",
    }  # need another program, or tests of their own
    for name, found in all_formats().items():
        assert found.title
        assert found.made_by
        assert found.tried
        assert found.checked
        assert found.suffixes
        assert name in sampled | elsewhere, f"{name}: add a sample to tests/sources"


@pytest.mark.parametrize("sample", TRACES, ids=TRACE_IDS)
def test_a_trace_is_told_by_content_alone(sample: Sample, tmp_path: Path) -> None:
    path = sample.make(tmp_path)
    if path.is_file():
        path = path.rename(path.with_name("strange.name"))
    assert detect(path)[0] == sample.format


@pytest.mark.parametrize("sample", TRACES, ids=TRACE_IDS)
def test_a_trace_gives_its_kernels_to_the_nanosecond(sample: Sample, tmp_path: Path) -> None:
    run = Run.open(ingest([sample.make(tmp_path)], out=tmp_path / "out"))
    kernels = run.kernels.filter(pl.col("kind") == "kernel").sort("process", "start_ns")
    assert kernels.height == sample.kernels
    names = [n for n, *_ in LAUNCHES]
    assert set(kernels["name"]) == set(names)
    if sample.kernels == len(LAUNCHES):
        assert kernels["name"].to_list() == names
        assert int(kernels["duration_ns"].sum()) == TOTAL_NS
        assert kernels["start_ns"].diff().drop_nulls().to_list() == [300_000, 100_000]
    if sample.geometry:
        blocks = kernels.select(pl.col("grid_x") * pl.col("grid_y") * pl.col("grid_z")).to_series()
        assert blocks.head(2).to_list() == [128, 8]
        assert kernels["block_x"].head(2).to_list() == [256, 512]
    assert run.signatures["launches"].sum() == run.kernels.height
    assert int(run.signatures["duration_ns"].sum()) == int(run.kernels["duration_ns"].sum())
    assert set(run.kernels["signature"]) == set(run.signatures["signature"])


LINKED = [
    s
    for s in TRACES
    if s.format
    in (
        "nsys_sqlite",
        "nsys_folder",
        "kineto",
        "rocprofv3_csv",
        "rocprofv3_json",
        "rpd",
        "xplane",
        "torch_pftrace",
    )
]


@pytest.mark.parametrize("sample", LINKED, ids=[s.format for s in LINKED])
def test_kernels_know_what_launched_them(sample: Sample, tmp_path: Path) -> None:
    run = Run.open(ingest([sample.make(tmp_path)], out=tmp_path / "out"))
    kernels = run.kernels.filter(pl.col("kind") == "kernel").sort("start_ns")
    wait = kernels["start_ns"] - kernels["launch_ns"]
    expected = 12_000 if sample.format in ("kineto", "torch_pftrace") else 9_000
    assert wait.to_list() == [expected] * 3
    calls = run.table("host_calls").filter(pl.col("kind") == "launch")
    assert calls.height == 3
    if sample.format != "rpd":
        assert run.table("ranges").filter(pl.col("name").str.contains("step")).height == 1
        assert kernels["range"].is_not_null().sum() >= 2


@pytest.mark.parametrize("sample", TRACES, ids=TRACE_IDS)
def test_no_secret_of_the_recorded_process_enters_a_run(sample: Sample, tmp_path: Path) -> None:
    out = ingest([sample.make(tmp_path)], out=tmp_path / "out").path
    everything = (out / "run.json").read_text()
    for file in out.glob("*.parquet"):
        everything += pl.read_parquet(file).write_json()
    assert "hunter2" not in everything
    assert "someone" not in everything


@pytest.mark.parametrize("sample", TRACES, ids=TRACE_IDS)
def test_every_prefix_gives_a_run_or_one_line(sample: Sample, tmp_path: Path) -> None:
    whole = sample.make(tmp_path)
    if whole.is_dir():
        pytest.skip("a folder has no prefix")
    raw = whole.read_bytes()
    for share in (0.02, 0.3, 0.7, 0.95, 0.999):
        cut = tmp_path / f"cut_{whole.name}"
        cut.write_bytes(raw[: int(len(raw) * share)])
        out = tmp_path / "cut_run"
        try:
            ingest([cut], out=out)
        except TracetoolError as error:
            assert not out.exists()
            assert "\n" not in error.line()
            assert cut.name in error.line()


@pytest.mark.parametrize("log", LOGS, ids=LOG_IDS)
def test_a_log_gives_watts_clocks_and_counters_at_their_times(log: Log, tmp_path: Path) -> None:
    path = tmp_path / log.name
    path.write_text(log.text)
    assert detect(path, "telemetry")[0] == log.format
    assert read_log(path).clock.domain == log.domain
    table = read_telemetry(path, tz="+00:00" if log.domain == "local" else None)
    table = table.filter(
        (pl.col("scope") == log.scope) & (pl.col("device").is_null() | (pl.col("device") == 0))
    )
    assert table["device"].null_count() == (0 if log.scope == "gpu" else table.height)
    power = table.drop_nulls("power_w")
    assert power["power_w"].to_list() == pytest.approx(list(log.watts))
    first = int(log.offset_s * 1e9) + (0 if log.domain == "session" else START_S * 10**9)
    step = 2 if log.rows == 2 else 1
    expected = [first + i * step * 10**9 for i in range(log.rows)]
    assert table["time_ns"].unique().sort().to_list() == expected
    if log.clock_mhz:
        assert set(table["clock_mhz"].drop_nulls()) == {log.clock_mhz}
    assert table["energy_j"].drop_nulls().unique().sort().to_list() == pytest.approx(list(log.energy))


def _warnings_of(path: Path, content: bytes) -> list[str] | None:
    """Write a log and return what its reading warns of; None where it is refused, in one line."""
    path.write_bytes(content)
    try:
        trace = read_log(path)
    except BadInput as error:
        assert "\n" not in error.line()
        return None
    assert trace.telemetry.height > 0
    return trace.warnings


@pytest.mark.parametrize("log", LOGS, ids=LOG_IDS)
def test_a_damaged_log_gives_readings_or_one_line(log: Log, tmp_path: Path) -> None:
    raw = log.text.encode()
    for i in range(12):
        bad = bytearray(raw[: max(1, len(raw) * (i % 4 + 1) // 4)])
        for j in range(i):
            bad[(j * 7919 + i * 104_729) % len(bad)] = (j * 31 + i) % 256
        path = tmp_path / log.name
        _warnings_of(path, bytes(bad))


@pytest.mark.parametrize("log", LOGS, ids=LOG_IDS)
def test_nul_bytes_in_a_log_are_told(log: Log, tmp_path: Path) -> None:
    """What a crash or a full disk leaves: a block of NULs within, and one before every line but the first."""
    raw = log.text.encode()
    first, *lines = raw.split(b"\n")
    block = raw[: len(raw) // 2] + bytes(30) + raw[len(raw) // 2 :]
    path = tmp_path / log.name
    for torn in (block, b"\n\0".join([first, *lines]), first + b"\n" + bytes(300)):
        warnings = _warnings_of(path, torn)
        assert warnings is None or b"\0" not in torn or any("NUL byte" in warning for warning in warnings)


def test_utf16_in_gzip_holds_no_torn_lines(tmp_path: Path) -> None:
    path = tmp_path / "smi.csv.gz"
    text = next(log.text for log in LOGS if log.format == "nvidia_smi")
    warnings = _warnings_of(path, gzip.compress(text.encode("utf-16")))
    assert warnings is not None
    assert not any("NUL byte" in warning for warning in warnings)


def test_the_page_of_formats_is_the_formats(root: Path) -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("docs_formats_page", root / "docs" / "formats_page.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text("utf-8") == module.page(), "run: python docs/formats_page.py"
