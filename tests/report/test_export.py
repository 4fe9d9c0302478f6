"""``tracetool export``: other tools read the same kernels and the same joules."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracetool as tt
from tests.conftest import Tool
from tests.report.trace_processor import rows_of
from tests.sources.packet_reader import Slice, slices
from tests.varint import read_varint
from tracetool.report.export.lanes import lanes_of
from tracetool.report.export.openmetrics import write_openmetrics
from tracetool.report.export.perfetto import write_perfetto
from tracetool.report.export.protobuf import double_field, message_field, varint, varints, whole_field
from tracetool.report.export.timeline import Timeline

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
PLACE = ["start_ns", "duration_ns", "device", "stream", "kind", "name"]
HOSTILE = 'k<"\\\n\t\x1b[31m{}#,é>\x00'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    out = tmp_path_factory.mktemp("export") / "train.tracetool"
    log = SAMPLES / "h100_training_power.csv"
    return tt.ingest(SAMPLES / "h100_training.sqlite", power=log, out=out)


@pytest.fixture(scope="module")
def written(run: tt.Run) -> tt.Run:
    tt.export(run, run.path.with_name("run.pftrace"), clock=1005)
    return run


@pytest.fixture(scope="module")
def perfetto(written: tt.Run) -> Path:
    return written.path.with_name("run.pftrace")


@pytest.fixture(scope="module")
def exported(perfetto: Path) -> list[Slice]:
    return list(slices(perfetto.read_bytes()))


@pytest.fixture(scope="module")
def attributed(run: tt.Run) -> dict[str, float]:
    groups = run.attribute().energy.filter(pl.col("signature").is_not_null()).group_by("family")
    return dict(groups.agg(pl.col("energy_j").sum()).iter_rows())


def _joules(events: list[Slice]) -> dict[str, float]:
    sums: Counter[str] = Counter()
    for event in events:
        if "energy_j" in event.notes:
            sums[str(event.notes["family"])] += float(event.notes["energy_j"])  # type: ignore[assignment]
    return dict(sums)


def test_joules_by_family_are_those_of_attribute(exported: list[Slice], attributed: dict[str, float]) -> None:
    assert _joules(exported) == pytest.approx(attributed, rel=1e-6)


def test_perfettos_trace_processor_gives_the_joules_back(
    run: tt.Run, perfetto: Path, attributed: dict[str, float], tmp_path: Path, root: Path
) -> None:
    """The engine of its user interface opens the file; the query is that of docs/export.md."""
    page = (root / "docs" / "export.md").read_text("utf-8")
    sums = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)[0]
    count = "select category, count(*), sum(dur) from slice group by category"
    faults = "select name from stats where severity in ('error', 'data_loss') and value > 0"
    counters = "select distinct t.name, t.unit from counter c join counter_track t on c.track_id = t.id"
    arrows = "select count(*) from flow"
    families, slices_, faulty, tracks, flows = rows_of(
        perfetto, tmp_path, sums, count, faults, counters, arrows
    )
    assert dict(families) == pytest.approx(attributed, rel=1e-6)  # type: ignore[call-overload]
    assert not faulty
    held = {kind: (n, total) for kind, n, total in slices_}
    kernels = run.kernels.filter(pl.col("kind") == "kernel")
    assert held["kernel"][0] == 2 * kernels.height  # recorded, and the replay
    assert held["host_call"][0] == run.table("host_calls").height
    assert {"GPU 0 power predicted", "GPU 0 power measured (power.draw)"} <= {name for name, _ in tracks}
    assert flows[0][0] == run.kernels.drop_nulls(["launch_ns", "correlation"]).height


def test_what_is_exported_is_read_back_to_the_nanosecond(run: tt.Run, perfetto: Path) -> None:
    again = tt.ingest(perfetto, gpu="h100-sxm", out=perfetto.with_name("again.tracetool"))
    assert again.kernels.select(PLACE).sort(PLACE).equals(run.kernels.select(PLACE).sort(PLACE))
    for table in ("ranges", "host_calls"):
        columns = ["start_ns", "duration_ns", "name"]
        own, read = (r.table(table).select(columns).sort(columns) for r in (run, again))
        assert read.equals(own), table


def test_the_replay_in_chrome_json_is_not_read_as_work_that_ran(run: tt.Run, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    tt.export(run, path, clock=1005)
    again = tt.ingest(path, gpu="h100-sxm", out=tmp_path / "again.tracetool")
    own, read = (
        r.kernels.filter(pl.col("kind") == "kernel")
        .select("start_ns", "duration_ns", "name")
        .sort("start_ns")
        for r in (run, again)
    )
    assert read.select("duration_ns", "name").equals(own.select("duration_ns", "name"))
    assert again.devices.height == 1
    replayed = f"{run.kernels.height:,} activities of an export's replay never ran"
    assert any(replayed in w for w in again.info["warnings"])


def test_perfettos_own_messages_hold_the_same(
    run: tt.Run, perfetto: Path, attributed: dict[str, float]
) -> None:
    """An independent reader: every slice ends, at the nanosecond its argument states; tracks are stated."""
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = messages.Trace()
    trace.ParseFromString(perfetto.read_bytes())
    names, texts, tracks, open_slices = {}, {}, {}, {}
    joules: Counter[str] = Counter()
    events = []
    for place, packet in enumerate(trace.packet):
        names |= {e.iid: e.name for e in packet.interned_data.debug_annotation_names}
        texts |= {e.iid: e.str.decode() for e in packet.interned_data.debug_annotation_string_values}
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("track_event"):
            events.append((packet.timestamp, place, packet.track_event))
    counters: Counter[str] = Counter()
    arrows: Counter[int] = Counter()
    for time_ns, _, event in sorted(events, key=lambda e: e[:2]):
        assert event.track_uuid in tracks
        arrows.update(event.flow_ids)
        if event.type == event.TYPE_SLICE_BEGIN:
            values = {names[a.name_iid]: a for a in event.debug_annotations}
            open_slices.setdefault(event.track_uuid, []).append(values)
            if "energy_j" in values:
                joules[texts[values["family"].string_value_iid]] += values["energy_j"].double_value
            if "begin_ns" in values:
                assert values["begin_ns"].int_value == time_ns
        elif event.type == event.TYPE_SLICE_END:
            values = open_slices[event.track_uuid].pop()
            assert "end_ns" not in values or values["end_ns"].int_value == time_ns
        else:
            assert tracks[event.track_uuid].counter.unit_name
            counters[tracks[event.track_uuid].name] += 1
    assert not any(open_slices.values())
    assert dict(joules) == pytest.approx(attributed, rel=1e-6)
    assert {"GPU 0 power predicted", "GPU 0 power measured (power.draw)"} <= set(counters)
    processes = {t.process.process_name for t in tracks.values()} - {""}
    assert processes == {"recorded", "replay at 1005 MHz on h100-sxm"}
    launched = run.kernels.join(
        run.table("host_calls"), left_on=["correlation", "launch_ns"], right_on=["correlation", "start_ns"]
    )
    assert launched.height > 0
    assert sum(n == 2 for n in arrows.values()) == launched.height


def test_energy_of_the_replay_is_that_of_predict(run: tt.Run, exported: list[Slice]) -> None:
    joules = sum(
        float(event.notes["predicted_energy_j"])
        for event in exported
        if event.category == "kernel" and "begin_ns" not in event.notes
    )
    expected = run.predict(clock=1005).totals["kernel_energy_j"].item()
    assert joules == pytest.approx(expected, rel=1e-6)


def test_chrome_json_holds_the_same(run: tt.Run, attributed: dict[str, float], tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    tt.export(run, path)
    document = json.loads(gzip.decompress(path.read_bytes()))
    activities = [e for e in document["traceEvents"] if e["ph"] == "X" and "energy_j" in e["args"]]
    sums: Counter[str] = Counter()
    for event in activities:
        sums[event["args"]["family"]] += event["args"]["energy_j"]
    assert dict(sums) == pytest.approx(attributed, rel=1e-6)
    origin = document["baseTimeNanoseconds"]
    starts = sorted(origin + round(e["ts"] * 1e3) for e in activities)
    assert starts == sorted(run.kernels["start_ns"].to_list())
    assert sum(round(e["dur"] * 1e3) for e in activities) == run.kernels["duration_ns"].sum()


_SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\} (\S+)')


def _metrics(text: str) -> dict[tuple[str, str], float]:
    """Return the samples of OpenMetrics text, strictly: every line is told before its sample, EOF is last."""
    assert text.endswith("# EOF\n")
    values: dict[tuple[str, str], float] = {}
    stated: dict[str, str] = {}
    for line in text.splitlines()[:-1]:
        if line.startswith("# "):
            _, keyword, name, rest = line.split(" ", 3)
            assert keyword in ("TYPE", "UNIT", "HELP")
            if keyword == "TYPE":
                assert name not in stated
                stated[name] = rest
            continue
        match = _SAMPLE.fullmatch(line)
        assert match, line
        name = match[1]
        base = name.removesuffix("_total") if name.endswith("_total") else name
        assert stated[base] == ("counter" if name.endswith("_total") else "gauge")
        assert (name, match[2]) not in values
        values[name, match[2]] = float(match[3])
    return values


def test_metrics_are_openmetrics(run: tt.Run, attributed: dict[str, float], tmp_path: Path) -> None:
    path = tmp_path / "metrics.txt"
    tt.export(run, path)
    values = _metrics(path.read_text("utf-8"))
    for family, joules in attributed.items():
        own = values["tracetool_energy_joules_total", f'gpu="0",family="{family}"']
        assert own == pytest.approx(joules, rel=1e-6)
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    parsed = {f.name: f for f in parser.text_string_to_metric_families(path.read_text("utf-8"))}
    assert parsed["tracetool_energy_joules"].type == "counter"
    assert parsed["tracetool_energy_joules"].unit == "joules"


@pytest.mark.parametrize("logged", [True, False])
def test_families_have_the_energies_and_ends_of_attribute(run: tt.Run, tmp_path: Path, logged: bool) -> None:
    """One word, one number: its kernels' errors cancel in a family, their ends added up do not."""
    if not logged:
        run = tt.ingest(SAMPLES / "h100_training.sqlite", out=tmp_path / "bare.tracetool")
    path = tmp_path / "metrics.prom"
    families = tt.export(run, path).families
    values = _metrics(path.read_text("utf-8"))
    groups = tt.energy_by(run, ["gpu", "family"]).groups.filter(pl.col("launches") > 0)[:-1]
    rows = {(0, str(row["name"]).split(" / ")[1]): row for row in groups.iter_rows(named=True)}
    assert len(rows) == families.height > 3
    stems = ("", "predicted_") if logged else ("predicted_",)
    for row in families.iter_rows(named=True):
        expected = rows[row["device"], row["family"]]
        assert row["launches"] == expected["launches"]
        for stem in stems:
            for end, last in (("", "_total"), ("_low", ""), ("_high", "")):
                joules = pytest.approx(expected[f"{stem}energy{end}_j"], rel=1e-9)
                assert row[f"{stem}energy{end}_j"] == joules
                metric = f"tracetool_{stem}energy{end}_joules{last}"
                assert values[metric, f'gpu="0",family="{row["family"]}"'] == joules
    assert ("energy_j" in families.columns) == logged


def test_metrics_escape_their_labels() -> None:
    rows = pl.DataFrame(
        {"device": [0], "family": [HOSTILE], "launches": [1], "duration_ns": [1], "energy_j": [math.nan]}
    )
    file = io.BytesIO()
    write_openmetrics(rows, None, file)
    labels = {labels for _, labels in _metrics(file.getvalue().decode())}
    assert labels == {
        'gpu="0",family="' + HOSTILE.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') + '"'
    }


def test_hostile_names_come_back_as_they_were() -> None:
    frame = pl.DataFrame(
        {
            "start_ns": [5, 7], "duration_ns": [0, 3], "track": [HOSTILE] * 2, "name": [HOSTILE, ""],
            "family": [None, HOSTILE], "energy_j": [math.inf, 0.1],
            "count": [-1, 2**62], "flag": [True, None],
        }
    )  # fmt: skip
    timeline = Timeline(-(10**18))
    timeline.add_slices(timeline.add_process(HOSTILE), "kernel", frame)
    file = io.BytesIO()
    write_perfetto(timeline, file)
    first, second = slices(file.getvalue())
    assert (first.name, first.notes) == (HOSTILE, {"count": -1, "flag": 1})
    assert (second.name, second.notes) == ("", {"family": HOSTILE, "energy_j": 0.1, "count": 2**62})


@settings(max_examples=40)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8))
def test_columns_of_varints_hold_their_rows_in_bytes_of_one_length(values: list[int]) -> None:
    rows = varints(np.array(values))
    raw, at, read = rows.written(), 0, []
    for _ in values:
        begin = at
        value, at = read_varint(raw, at)
        read.append(value)
        assert at - begin == rows.length
    assert at == len(raw)
    assert read == [v % 2**64 for v in values]
    assert len(varints(np.full(3, values[0])).written()) == 3 * len(varint(values[0] % 2**64))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_messages_have_the_parts_that_are_there(rows: list[tuple[int, bool, bool]]) -> None:
    values = np.array([v for v, _, _ in rows])
    here, there = (np.array([r[i] for r in rows]) for i in (1, 2))
    body = message_field(
        3,
        whole_field(1, values).only(here),
        double_field(2, values * 1.0),
        whole_field(4, values).only(there),
    )
    raw, at = body.written(), 0
    for value, first, last in rows:
        assert raw[at] == 0x1A
        size, at = read_varint(raw, at + 1)
        end, fields = at + size, {}
        while at < end:
            tag, at = read_varint(raw, at)
            if tag & 7 == 1:
                fields[tag >> 3], at = struct.unpack_from("<d", raw, at)[0], at + 8
            else:
                fields[tag >> 3], at = read_varint(raw, at)
        assert at == end
        assert fields == {2: float(value)} | ({1: value} if first else {}) | ({4: value} if last else {})
    assert at == len(raw)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)), max_size=25), st.booleans()
)
def test_slices_of_a_lane_never_cross(spans: list[tuple[int, int, int]], nested: bool) -> None:
    spans.sort(key=lambda s: (s[0], s[1], -s[2]))
    track, start, length = (
        (np.array(c, np.int64) for c in zip(*spans, strict=True)) if spans else [np.zeros(0, int)] * 3
    )
    lane = lanes_of(track, start, start + length, nested=nested)
    for i in range(len(spans)):
        for j in range(i):
            if (track[i], lane[i]) == (track[j], lane[j]) and start[i] < start[j] + length[j]:
                assert nested
                assert start[i] + length[i] <= start[j] + length[j]


@pytest.mark.parametrize("name", ["run.svg", "absent/run.pftrace", "run"])
def test_a_file_that_cannot_be_written_is_usage(
    run: tt.Run, tmp_path: Path, name: str, command: Tool
) -> None:
    done = command("export", str(run.path), "-o", str(tmp_path / name))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert not list(tmp_path.iterdir())


def test_metrics_take_no_clock(run: tt.Run, tmp_path: Path, command: Tool) -> None:
    done = command("export", str(run.path), "-o", str(tmp_path / "m.prom"), "--clock", "1005")
    assert done.returncode == 2
    assert "--clock" in done.stderr
    assert not list(tmp_path.iterdir())
