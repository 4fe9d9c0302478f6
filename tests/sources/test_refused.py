"""Every format: no other one claims its samples; damage that leaves nothing to read is refused in a line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.damaged.fuzz import CASES, Case
from tracetool.core.errors import TracetoolError
from tracetool.sources.detect import all_formats, detect, probe_file
from tracetool.sources.format import ReadOptions


def _short(raw: bytes) -> bytes:
    return raw[: max(len(raw) // 12, 24)]


def _half(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def _head(raw: bytes) -> bytes:
    return raw.split(b"\n", 1)[0] + b"\n"


def _no_numbers(raw: bytes) -> bytes:
    return re.sub(rb"(?<=[\s,:|=({])[0-9][0-9.:/TZ-]*", b"x", raw)


def _zeroed(raw: bytes) -> bytes:
    return raw[: len(raw) // 8] + bytes(len(raw) - len(raw) // 8)


DAMAGES: tuple[Callable[[bytes], bytes], ...] = (_short, _half, _head, _no_numbers, _zeroed)


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_only_its_format_claims_a_sample_and_damage_is_refused(case: Case, tmp_path: Path) -> None:
    """Of five damages at least two leave nothing to read; a folder's are those of its files."""
    whole = case.make(tmp_path)
    probe = probe_file(whole)
    scores = {name: found.sniff(probe) for name, found in all_formats().items()}
    claimed = scores.pop(case.format)
    assert claimed > max(scores.values()), max(scores, key=lambda name: scores[name])
    files = sorted(p for p in whole.rglob("*") if p.is_file()) if whole.is_dir() else [whole]
    raws = [p.read_bytes() for p in files]
    refused = []
    for damage in DAMAGES:
        for path, raw in zip(files, raws, strict=True):
            path.write_bytes(damage(raw))
        try:
            detect(whole)[1].read(whole, ReadOptions())
        except TracetoolError as error:
            line = error.line()
            assert "\n" not in line
            assert any(p.name in line for p in (whole, *files)), line
            refused.append(damage.__name__)
    assert len(refused) >= 2, refused
