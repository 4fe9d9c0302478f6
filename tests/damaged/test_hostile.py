"""Files made to hurt: each ends in a run, or in exit 2 with one line and nothing left behind."""

# ruff: noqa: E501, ISC004 - the hostile bytes are written out

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.damaged.refused import refused
from tests.sources.makers import (
    TRACES,
    Sample,
    kineto,
    kineto_document,
    kineto_events,
    nsys_sqlite,
    nsys_tables,
    write_tables,
)
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput, TracetoolError
from tracetool.sources.detect import all_formats
from tracetool.tables.run import Run

FLIPPED = [s for s in TRACES if s.format != "nsys_folder"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_give_a_run_or_one_line(tmp_path: Path, data: st.DataObject) -> None:
    sample: Sample = data.draw(st.sampled_from(FLIPPED))
    raw = bytearray(sample.make(tmp_path).read_bytes())
    for _ in range(data.draw(st.integers(1, 40))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    bad = tmp_path / "flipped.bin"
    bad.write_bytes(bytes(raw))
    out = tmp_path / "run"
    shutil.rmtree(out, ignore_errors=True)
    try:
        ingest([bad], out=out)
    except TracetoolError as error:
        assert error.exit_code == 2
        assert not out.exists()
        assert "\n" not in error.line()
    else:
        run = Run.open(out)
        assert (run.kernels["duration_ns"] >= 0).all()
        assert set(run.kernels["signature"]) == set(run.signatures["signature"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(min_size=1, max_size=4000), head=st.sampled_from(
    [b"", b"SQLite format 3\0", b"\x1f\x8b\x08", b'{"traceEvents":[', b"[", b"PAR1", b"NVIDIA Tegra Profiler Report 1.\n",
     b'{"rocprofiler-sdk-tool":[', b"timestamp, power.draw [W]\n",
     b'"Kind","Agent_Id","Kernel_Name","Start_Timestamp",'
     b'"End_Timestamp"\n', b"\xff\xfe", b"<nvidia_smi_log>", b"# gpu pwr\n"]))  # fmt: skip
def test_random_bytes_behind_any_head_are_refused_or_read(tmp_path: Path, raw: bytes, head: bytes) -> None:
    path = tmp_path / "noise"
    path.write_bytes(head + raw)
    out = tmp_path / "run"
    shutil.rmtree(out, ignore_errors=True)
    try:
        ingest([path], out=out, tz="+00:00")
    except TracetoolError as error:
        assert error.exit_code in (2, 3)
        assert "\n" not in error.line()
        assert not out.exists()


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    refused(tmp_path / "absent.sqlite", tmp_path / "run")
    assert not (tmp_path / "absent.sqlite").exists()


def test_a_pipe_and_a_link_to_nothing_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(tmp_path / "pipe", tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    refused(tmp_path / "link", tmp_path / "run")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(tmp_path / "loop", tmp_path / "run")


@pytest.mark.skipif(os.name == "nt", reason="names there are text")
def test_a_name_that_is_not_text_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff\xfe.csv")
    try:
        path.write_text("kernel,start_us,duration_us\nk,1,1\n")
    except OSError:
        pytest.skip("a file system whose names are text")
    assert "not UTF-8" in refused(path, tmp_path / "run")


def test_a_link_to_a_trace_is_read(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(nsys_sqlite(tmp_path))
    assert Run.open(ingest([tmp_path / "link"], out=tmp_path / "run")).kernels.height == 4


def test_a_zip_bomb_is_stopped_and_can_be_let_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracetool.tables import unpacked

    monkeypatch.setattr(unpacked, "HARMLESS_BYTES", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    document = json.dumps(kineto_document(kineto_events()))
    path.write_bytes(gzip.compress(document.encode() + b" " * (40 << 20)))
    assert "TRACETOOL_MAX_GZ_RATIO" in refused(path, tmp_path / "run")
    monkeypatch.setenv("TRACETOOL_MAX_GZ_RATIO", "100000")
    assert Run.open(ingest([path], out=tmp_path / "run")).kernels.height == 4


def test_deep_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text(
        '{"schemaVersion":1,"deviceProperties":' + "[" * 200_000 + "]" * 200_000 + ',"traceEvents":[]}'
    )
    refused(path, tmp_path / "run")
    path.write_text('{"deviceProperties":[],"traceEvents":[{"ph":"X","cat":"kernel","args":' + "[" * 100_000)
    refused(path, tmp_path / "run")


def test_absurd_numbers_are_kept_apart_and_counted(tmp_path: Path) -> None:
    tables = nsys_tables()
    columns, rows = tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    good = rows[0]
    odd: list[list[object]] = []
    for start, end in ((-(2**62), 5), (2**63 - 1, 2**63 - 1), (500, 100), (0, 2**62), (None, 7)):
        odd.append([start, end, *good[2:]])
    huge = [*good[:10], 10**9, 10**9, 2**62, 2**40, -4, 7, *good[16:]]
    zero = [700, 700, *good[2:]]
    tables["CUPTI_ACTIVITY_KIND_KERNEL"] = (columns, [*rows, *odd, huge, zero])
    run = Run.open(ingest([write_tables(tmp_path / "t.sqlite", tables)], out=tmp_path / "run"))
    assert run.kernels.filter(pl.col("kind") == "kernel").height == 3 + 2
    rejected = run.table("rejected")
    assert rejected.height == len(odd)
    assert set(rejected["reason"]) >= {"ends before it starts", "no start or end"}
    assert rejected["place"].str.contains("CUPTI_ACTIVITY_KIND_KERNEL row").all()
    assert any("5 rows could not be used" in w for w in run.info["warnings"])
    strange = run.kernels.filter(pl.col("grid_x") == 10**9)
    assert strange["grid_z"].to_list() == [None]
    assert strange["block_y"].to_list() == [None]


def test_one_dirty_cell_costs_its_row_alone(tmp_path: Path) -> None:
    """A column decoded whole must not be lost to text, a fraction or bytes in one of its cells."""
    tables = nsys_tables()
    columns, rows = tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    many = [[i * 1000, i * 1000 + 500, *rows[0][2:]] for i in range(60_000)]
    many[777][0] = "tomorrow"
    many[778][10] = 2.5
    many[779][3] = b"\xff\xfe"
    tables["CUPTI_ACTIVITY_KIND_KERNEL"] = (columns, many)
    run = Run.open(ingest([write_tables(tmp_path / "t.sqlite", tables)], out=tmp_path / "run"))
    assert run.kernels.filter(pl.col("kind") == "kernel").height == 59_999
    assert run.table("rejected")["place"].to_list() == ["CUPTI_ACTIVITY_KIND_KERNEL row 778"]


HOSTILE = "k\x00\x1b[31m'; DROP TABLE x;--\u202e\r\n|<script>alert(1)</script>`$(rm -rf)`"


def test_hostile_names_reach_the_run_without_control_characters(tmp_path: Path) -> None:
    tables = nsys_tables()
    columns, strings = tables["StringIds"]
    tables["StringIds"] = (columns, [[1, HOSTILE], *strings[1:]])
    tables['odd"name; --'] = (["x INTEGER"], [[1]])
    run = Run.open(ingest([write_tables(tmp_path / "t.sqlite", tables)], out=tmp_path / "run"))
    name = run.kernels.filter(pl.col("kind") == "kernel")["name"][0]
    assert "DROP TABLE" in name
    assert not any(ord(c) < 32 for c in name)
    events = kineto_events()
    events[3]["name"] = HOSTILE
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(kineto_document(events)))
    run = Run.open(ingest([path], out=tmp_path / "run"))
    assert not any(ord(c) < 32 for n in run.table("operators")["name"] for c in n)


def test_odd_events_are_counted_not_fatal(tmp_path: Path) -> None:
    events: list[object] = [*kineto_events()]
    events += [None, 7, "text", [1], {"ph": "X", "cat": ["kernel"], "name": {}}, {"ph": "X", "cat": "kernel", "name": "late",
               "ts": "soon", "dur": None, "args": {"device": 0}},
               {"ph": "X", "cat": "kernel", "name": "k2", "ts": 1e300, "dur": 1, "args": {"device": 0, "grid": "no"}},
               {"ph": "X", "cat": "kernel", "name": "k3", "ts": 2000, "dur": -5, "args": "none"}]  # fmt: skip
    document = json.dumps(kineto_document(events)).replace('"dur": 9.5', '"dur": NaN')  # type: ignore[arg-type]
    path = tmp_path / "odd.json"
    path.write_text(document)
    run = Run.open(ingest([path], out=tmp_path / "run"))
    assert run.kernels.filter(pl.col("kind") == "kernel").height == 3
    assert run.table("rejected").height == 3 + 3


def test_wrong_encodings_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_bytes("timestamp, power.draw [W]\n2025/07/11 08:32:53.000, 100.0 W\n".encode("utf-16"))
    run = Run.open(ingest([], [path], tz="+00:00", out=tmp_path / "run"))
    assert run.telemetry["power_w"].to_list() == [100.0]
    trace = tmp_path / "latin.json"
    raw = json.dumps(kineto_document(kineto_events())).replace("reduce_kernel", "r\u00e9duire")
    trace.write_bytes(raw.encode().decode("unicode_escape").encode("latin-1", "replace"))
    assert Run.open(ingest([trace], out=tmp_path / "run")).kernels.height == 4


def test_the_source_is_never_changed(tmp_path: Path) -> None:
    for sample in TRACES:
        path = sample.make(tmp_path)
        if path.is_dir():
            continue
        before = path.read_bytes()
        path.chmod(0o400)
        ingest([path], out=tmp_path / "run")
        assert path.read_bytes() == before
        assert not [p for p in tmp_path.iterdir() if p.name.startswith(path.name + "-")]  # -wal, -journal
        path.chmod(0o600)
        path.unlink()


def test_a_folder_that_is_no_run_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("x")
    with pytest.raises(BadInput, match="not a run"):
        ingest([kineto(tmp_path)], out=tmp_path / "precious")
    assert (tmp_path / "precious" / "thesis.tex").exists()


def _start(arguments: list[str], **more: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tracetool", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
        **more,  # type: ignore[call-overload]
    )  # fmt: skip


def test_a_full_disk_ends_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    source = kineto(tmp_path)
    events = [e for _ in range(200) for e in kineto_events()]
    source.write_bytes(gzip.compress(json.dumps(kineto_document(events)).encode()))

    def small_files() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    # else Python cuts the compiled modules short that it writes beside the package, for all later processes
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    job = _start(["ingest", str(source), "-o", str(tmp_path / "run")], preexec_fn=small_files, env=env)
    _, said = job.communicate(timeout=200)
    assert job.returncode == 2, said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1, said
    assert "cannot be written" in said
    assert [p.name for p in tmp_path.iterdir()] == [source.name]


def _holds_open(process: int, path: Path) -> bool:
    """Whether a process has a file open (where the system cannot tell: yes)."""
    files = Path(f"/proc/{process}/fd")
    if not files.is_dir():
        return True
    with contextlib.suppress(OSError):
        for one in files.iterdir():
            with contextlib.suppress(OSError):
                if one.readlink() == path.resolve():
                    return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_signal_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    scratch = tmp_path / "temporary"
    scratch.mkdir()
    source = tmp_path / "long.json"
    body = ",".join(json.dumps(e) for e in kineto_events())
    with source.open("w") as out:
        out.write('{"deviceProperties": [], "traceEvents": [' + body)
        for _ in range(20_000):
            out.write("," + body)
        out.write("]}")
    job = _start(
        ["ingest", str(source), "-o", str(tmp_path / "run")], env={**os.environ, "TMPDIR": str(scratch)}
    )
    while job.poll() is None and not _holds_open(job.pid, source):
        time.sleep(0.005)
    job.send_signal(number)
    _, said = job.communicate(timeout=200)
    assert job.returncode in (128 + number, 0), said  # 0 if it had already finished
    assert job.returncode == 0 or len(said.splitlines()) == 1
    assert "Traceback" not in said
    assert not list(scratch.iterdir())
    left = {p.name for p in tmp_path.iterdir()} - {source.name, scratch.name}
    assert left <= ({"run"} if job.returncode == 0 else set())


def test_a_database_that_holds_no_rows_is_an_empty_run(tmp_path: Path) -> None:
    tables = {name: (columns, []) for name, (columns, _) in nsys_tables().items()}
    run = Run.open(ingest([write_tables(tmp_path / "t.sqlite", tables)], out=tmp_path / "run"))
    assert run.kernels.height == 0
    assert run.signatures.height == 0
    assert any("no kernel" in w for w in run.info["warnings"])


def test_an_unknown_database_is_told_by_its_tables(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "music.db")
    db.execute("CREATE TABLE songs (title TEXT)")
    db.commit()
    db.close()
    assert "songs" in refused(tmp_path / "music.db", tmp_path / "run")


def test_every_format_refuses_an_empty_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert "0 bytes" in refused(empty, tmp_path / "run")
    assert all_formats()
