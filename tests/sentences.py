"""Numbers of printed sentences, against what they must be."""

from __future__ import annotations

import re
from typing import Any

import pytest

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def numbers(sentence: str, *names: str) -> list[float]:
    """Return the numbers of a sentence, those of names and the level of its intervals left out."""
    text = sentence.replace("(90 %: ", "(")
    for name in sorted(filter(None, names), key=len, reverse=True):
        text = text.replace(name, "")
    return [float(n.replace(",", "").rstrip(".")) for n in _NUMBER.findall(text)]


def close(values: list[float], *, percent: bool = False) -> list[Any]:
    """Return what numbers of a sentence must be; a percentage, the last of them, has one decimal."""
    each = [pytest.approx(v, rel=1e-3) for v in values]
    return [*each[:-1], pytest.approx(values[-1], abs=0.051)] if percent else each
