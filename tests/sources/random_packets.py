"""Random packets of Perfetto traces: all that the readers look at, in any order, some of it odd."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence

from tests.sources.counter_makers import _double
from tests.sources.makers import _debug, _field

#: Annotations that are read, and one that is not.
NOTES = ("begin_ns", "end_ns", "agent", "queue", "grid_size", "corr_id", "other")
_CATEGORIES = ("kernel_dispatch", "hip_api", "memory_copy", "device_power", "odd")
_TEXTS = ("(256,1,1)", "Agent 4", "", "99999999999999999999", "\u0663", "[1, 2]")
_WHOLE = (0, 1, 2, 5, 127, 128, 300, 2**31, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_DOUBLES = (0.0, -0.0, 1.5, -2.7, 1e300, float("nan"), float("inf"), 9.3e18)
_TRACKS = (1, 2, 900, 901)
_Choices = Sequence[tuple[float, Callable[[], bytes]]]


def packets_of(seed: int) -> bytes:
    """Return a trace of rocprofv3's or rocprof-sys's kind."""
    rng = random.Random(seed)
    packets = [_packet(rng) for _ in range(rng.randrange(1, 150))]
    if rng.random() < 0.3:
        packed = b"".join(_field(1, p) for p in packets[:20])
        packets.insert(rng.randrange(len(packets)), _field(50, zlib.compress(packed)))
    return b"".join(_field(1, p) for p in packets)


def _some(rng: random.Random, choices: _Choices) -> bytes:
    return b"".join(make() for share, make in choices if rng.random() < share)


def _packet(rng: random.Random) -> bytes:
    pick = rng.choice
    return _some(
        rng,
        (
            (0.9, lambda: _field(10, pick((5, 5, 5, 6)))),
            (0.05, lambda: _field(13, pick((1, 2, 3)))),
            (0.02, lambda: _field(41, 1)),
            (0.15, lambda: _field(12, _interned(rng))),
            (0.07, lambda: _field(6, _clocks(rng))),
            (0.05, lambda: _field(59, _field(58, pick((6, 64, 65))) + _field(11, _field(11, pick(_TRACKS))))),
            (0.1, lambda: _field(60, _track(rng))),
            (0.02, lambda: _field(53, b"")),
            (0.8, lambda: _field(8, pick((pick(_WHOLE), *[rng.randrange(10**6)] * 20)))),
            (0.1, lambda: _field(58, pick((6, 64, 65, 3)))),
            (0.8, lambda: _field(11, _event(rng))),
        ),
    )


def _interned(rng: random.Random) -> bytes:
    tables = {1: _CATEGORIES, 2: ("kernel", "CopyHostToDevice"), 3: NOTES, 29: _TEXTS}
    entries = []
    for _ in range(rng.randrange(1, 5)):
        table = rng.choice(list(tables))
        entry = _field(1, rng.randrange(1, 6)) + _field(2, rng.choice(tables[table]))
        odd = rng.choice((_field(1, 3) + _field(2, 77), _field(2, "a"), _field(1, b"q") + _field(2, "s")))
        entries.append(_field(table, odd if rng.random() < 0.05 else entry))
    return b"".join(entries)


def _clocks(rng: random.Random) -> bytes:
    readings = []
    for _ in range(rng.randrange(1, 4)):
        reading = _field(1, rng.choice((6, 6, 64, 65, 3))) + _field(2, rng.choice((0, 100, 10**15)))
        more = ((0.4, lambda: _field(3, 1)), (0.2, lambda: _field(4, rng.choice((0, 1, 1000)))))
        readings.append(_field(1, reading + _some(rng, more)))
    return b"".join(readings)


def _track(rng: random.Random) -> bytes:
    pick = rng.choice
    counter = (
        (0.6, lambda: _field(6, pick(("watts", "mW", "")))),
        (0.6, lambda: _field(4, pick((0, 1, 4, 2**64 - 1)))),
        (0.6, lambda: _field(5, pick((0, 1)))),
    )
    parts = (
        (0.9, lambda: _field(1, pick(_TRACKS))),
        (0.6, lambda: _field(pick((2, 10)), pick(("GPU Power [0] (S)", "[GPU 1] Power")))),
        (0.7, lambda: _field(8, _some(rng, counter))),
    )
    return _some(rng, parts)


def _event(rng: random.Random) -> bytes:
    pick = rng.choice
    parts = (
        (0.95, lambda: _field(9, pick((1, 1, 1, 2, 4, 4)))),
        (0.3, lambda: _field(10, rng.randrange(1, 6))),
        (0.4, lambda: _field(23, pick(("kernel_x", "memset", "")))),
        (0.02, lambda: _field(23, 55)),
        (0.4, lambda: _field(3, rng.randrange(1, 6))),
        (0.6, lambda: _field(22, pick(_CATEGORIES))),
        (0.6, lambda: _field(11, pick(_TRACKS))),
        (0.3, lambda: _field(30, pick(_WHOLE))),
        (0.3, lambda: _double(44, pick(_DOUBLES))),
        *[(0.5, lambda: _field(4, _note(rng)))] * 6,
        (0.7, lambda: _field(4, _field(10, "begin_ns") + _field(3, rng.randrange(10**9)))),
    )
    return _some(rng, parts)


def _note(rng: random.Random) -> bytes:
    pick = rng.choice
    named = pick((_field(1, rng.randrange(1, 7)), _field(10, pick(NOTES)), _field(10, pick(NOTES))))
    values = (
        lambda: _field(pick((2, 3, 4, 7)), pick(_WHOLE)),
        lambda: _double(5, pick(_DOUBLES)),
        lambda: _field(6, pick(_TEXTS)),
        lambda: _field(17, rng.randrange(1, 6)),
        lambda: b"",
    )
    return named + pick(values)() + (pick(values)() if rng.random() < 0.1 else b"")


def torch_packets_of(seed: int) -> bytes:
    """Return begins and ends as PyTorch's monitor writes them, their tracks and arguments drawn."""
    rng = random.Random(seed)
    packets = []
    for _ in range(rng.randrange(1, 200)):
        event = _field(9, rng.choice((1, 2))) + _field(11, rng.choice((1, 1, 2, 3)))
        for _ in range(rng.randrange(4)):
            event += _field(
                4, _debug(rng.choice(("device", "grid", "Input Dims", "cbid", "other")), _value(rng))
            )
        packets.append(_field(8, 10**18 + rng.randrange(10**6)) + _field(11, event))
    return b"".join(_field(1, p) for p in packets)


def _value(rng: random.Random, depth: int = 0) -> object:
    if depth < 3 and rng.random() < 0.5:
        return [_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return rng.choice((0, 7, 2**31, 1.5, "", "float", "[1, 2]", {"a": 1}))
