"""Columns of Perfetto traces hold what a reader finds that goes from packet to packet."""

from __future__ import annotations

import random
import time
import zlib
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from tests.sources import packet_reader
from tests.sources.counter_makers import systems_pftrace
from tests.sources.makers import _field, pftrace
from tests.sources.random_packets import NOTES, packets_of, torch_packets_of
from tracetool.sources.io.protobuf import BrokenMessage, Message, fields
from tracetool.sources.io.protobuf_columns import read_fields
from tracetool.sources.io.protobuf_frames import windows
from tracetool.sources.pytorch.perfetto import recorded
from tracetool.sources.rocm.event_rows import NUMBER, TEXT
from tracetool.sources.rocm.track_events import Events, read_events

#: Traces drawn, and damaged ones of each sample.
EXAMPLES = 40


def _damaged(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                changed[at : at + rng.randrange(1, 9)] = b""
            case 2:
                changed[at:at] = rng.randbytes(rng.randrange(1, 9))
            case _:
                changed[at:at] = changed[at : at + rng.randrange(1, 200)]
    return bytes(changed) or b"\n"


def _stated(events: Events, name: str) -> dict[int, object]:
    """Return what slices state under a name: whole numbers, None for what 64 bits do not hold, or texts."""
    notes = events.notes[name]
    rows = zip(notes.slice.tolist(), notes.kind.tolist(), notes.value.tolist(), strict=True)
    return {row: value if kind == NUMBER else events.texts[value] if kind == TEXT else None
            for row, kind, value in rows}  # fmt: skip


def _held(note: float | str) -> object:
    return note if isinstance(note, str) else int(note) if abs(note) < 2**63 else None


def _assert_same(raw: bytes) -> None:
    """Assert that both readers hold the same, or refuse the trace."""
    try:
        truth = packet_reader.read_events(raw)
    except (BrokenMessage, zlib.error):
        with pytest.raises((BrokenMessage, zlib.error)):
            read_events(raw, NOTES)
        return
    events = read_events(raw, NOTES)
    assert events.slices.rows() == [(s.name, s.category, s.track) for s in truth.slices]
    for name in NOTES:
        expected = {i: _held(s.notes[name]) for i, s in enumerate(truth.slices) if name in s.notes}
        assert _stated(events, name) == expected
    within = [c.time_ns if c.time_ns is not None and abs(c.time_ns) < 2**63 else None for c in truth.counts]
    counts = zip(truth.counts, within, strict=True)
    assert events.counts.drop("value").rows() == [(c.track, c.category, ns) for c, ns in counts]
    np.testing.assert_array_equal(events.counts["value"].to_numpy(), [c.value for c in truth.counts])
    tracks = {track: (name, unit) for track, name, unit in events.tracks.rows()}
    assert tracks == {uuid: (t.name, t.unit) for uuid, t in truth.tracks.items()}
    assert events.stages == truth.stages


@pytest.mark.parametrize("make", [pftrace, systems_pftrace])
def test_samples_and_damaged_ones_are_read_as_packet_by_packet(make: object, tmp_path: Path) -> None:
    raw = make(tmp_path).read_bytes()  # type: ignore[operator]
    _assert_same(raw)
    for seed in range(EXAMPLES):
        _assert_same(_damaged(raw, random.Random(seed)))


def test_drawn_packets_are_read_as_packet_by_packet() -> None:
    for seed in range(EXAMPLES):
        _assert_same(packets_of(seed))


def test_packets_of_many_windows_are_read_as_packet_by_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracetool.sources.io.protobuf_frames.WINDOW_MESSAGES", 60)
    monkeypatch.setattr("tracetool.sources.io.protobuf_frames.WINDOW_BYTES", 3_000)
    monkeypatch.setattr("tracetool.sources.rocm.event_rows.WINDOW_MESSAGES", 50)
    monkeypatch.setattr("tracetool.sources.rocm.packets.WINDOW_BYTES", 3_000)
    _assert_same(b"".join(packets_of(seed) for seed in range(EXAMPLES)))


@pytest.mark.parametrize("few", [1, 48])
def test_fields_of_many_messages_are_those_of_each(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracetool.sources.io.protobuf_columns.FEW", few)
    rng = random.Random(few)
    messages = [_damaged(packets_of(seed), rng) for seed in range(60)]
    raw = b"".join(messages)
    ends = np.cumsum([len(m) for m in messages])
    found = read_fields(raw, ends - [len(m) for m in messages], ends).in_order()
    held = zip(*(c.tolist() for c in (found.number, found.wire, found.value, found.start)), strict=True)
    listed = [(n, w, v if w == 0 else raw[s : s + v]) for n, w, v, s in held]
    expected, broken = [], []
    for i, message in enumerate(messages):
        try:
            for number, wire, value in fields(memoryview(message)):
                expected.append((number, wire, value if isinstance(value, int) else bytes(value)))
        except BrokenMessage:
            broken.append(i)
    assert listed == expected
    assert sorted(found.broken.tolist()) == broken


def test_messages_of_a_file_are_found_whatever_lies_between() -> None:
    rng = random.Random(4)
    contents = [rng.choice((b"", b"\n" * 9, rng.randbytes(rng.randrange(300)))) for _ in range(3000)]
    between = [rng.choice((b"", b"", b"", _field(2, 5), _field(3, b"\n\x01"))) for _ in contents]
    odd_key = b"\x8a\x00\x03abc"
    raw = b"".join(_field(1, c) + b for c, b in zip(contents, between, strict=True)) + odd_key
    found = [raw[a:b] for w in windows(raw) for a, b in zip(w.starts.tolist(), w.ends.tolist(), strict=True)]
    assert found == [*contents, b"abc"]


def test_packets_packed_again_and_again_are_refused() -> None:
    raw = packets_of(1)
    for depth in range(12):
        raw = _field(1, _field(50, zlib.compress(raw)))
        if depth < 7:
            read_events(raw)
    with pytest.raises(BrokenMessage, match="packed more than 8 times"):
        read_events(raw)


def test_packed_packets_that_fill_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracetool.sources.rocm.packets.HARMLESS_BYTES", 1 << 20)
    monkeypatch.setattr("tracetool.sources.rocm.packets.available_bytes", lambda: 50 << 20)
    bomb = _field(1, _field(50, zlib.compress(_field(1, _field(23, 1)) * 200_000)))
    read_events(bomb)
    with pytest.raises(BrokenMessage, match="take more than 2 MB"):
        read_events(bomb * 4)


@pytest.mark.parametrize(
    "packet",
    [
        _field(1, _field(11, _field(9, 1))),
        _field(1, _field(6, _field(1, _field(1, 6) + _field(2, 5)))),
        _field(1, _field(60, _field(1, 7) + _field(2, "x"))),
        _field(1, _field(10, 3) + _field(12, _field(2, _field(1, 1) + _field(2, "a")))),
        _field(1, _field(50, zlib.compress(_field(1, _field(8, 5))))),
        _field(2, 1) + _field(1, b""),
    ],
)
def test_a_file_of_nothing_but_one_kind_takes_as_long_per_byte_as_any(packet: bytes) -> None:
    raw = packet * (400_000 // len(packet))
    start_s = time.process_time()
    read_events(raw)
    assert time.process_time() - start_s < 6


def test_one_packet_of_a_million_fields_is_read() -> None:
    raw = _field(1, _field(8, 1) * 300_000 + _field(53, b""))
    start_s = time.process_time()
    assert read_events(raw).stages == 1
    assert time.process_time() - start_s < 6


def _slices_one_by_one(raw: bytes) -> list[tuple[int, int]]:
    """Return start and end of each begin that has one: the first that waits takes the next end."""
    slices: list[list[int | None]] = []
    waiting: dict[int, deque[list[int | None]]] = {}
    for packet in Message(memoryview(raw)).messages(1):
        event = packet.message(11)
        assert event is not None
        if event.number(9) == 1:
            slices.append([packet.number(8), None])
            waiting.setdefault(event.number(11), deque()).append(slices[-1])
        elif waiting.get(event.number(11)):
            waiting[event.number(11)].popleft()[1] = packet.number(8)
    return [(start, end) for start, end in slices if start is not None and end is not None]


def test_ends_are_those_of_the_first_slices_that_wait() -> None:
    for seed in range(EXAMPLES):
        raw = torch_packets_of(seed)
        met = recorded(raw)
        found = list(zip(met.slices.start_ns.tolist(), met.slices.end_ns.tolist(), strict=True))
        assert found == _slices_one_by_one(raw)


def test_times_beyond_64_bits_are_out_of_range() -> None:
    packets = [_field(8, 2**64 - 9 + i) + _field(11, _field(9, i) + _field(23, "k")) for i in (1, 2)]
    met = recorded(b"".join(_field(1, p) for p in packets))
    assert (met.out_of_range, len(met.slices.name)) == (["k"], 0)
    assert met.base_ns < 2**63


def test_arguments_of_lists_without_end_are_refused() -> None:
    value = _field(4, 1)
    for _ in range(200):
        value = _field(12, value)
    event = _field(9, 1) + _field(11, 1) + _field(4, _field(10, "grid") + value)
    with pytest.raises(BrokenMessage, match="more than 100 lists"):
        recorded(_field(1, _field(8, 5) + _field(11, event)))
