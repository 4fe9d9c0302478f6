"""Numbers and counts as people read them: significant digits, thousands separated, nouns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

_OF_ONE_GPU: Final = re.compile(r"GPU (\d+): (.*)", re.DOTALL)
#: A figure that stands alone, not in a name such as ``H100 80GB``, and a range of two.
_FIGURE: Final = r"(?<![\w.,-])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w]|\.\d)"
_FIGURES: Final = re.compile(rf"({_FIGURE})(?: to ({_FIGURE}))?")
#: From so many GPUs on, sentences that differ in figures alone give their range. [1]
_MANY: Final = 3


def number(value: float | None, digits: int = 4, places: int | None = None) -> str:
    """Return a number with ``digits`` significant figures, thousands separated, no exponent in between.

    With ``places``, at most so many decimals; what would round to zero is said to be below the last.

    >>> number(0.0001234, places=3), number(-0.0001234, places=3), number(0.01234, places=3)
    ('<0.001', '>-0.001', '0.012')
    >>> [number(v) for v in (1234567.8, 45.678, 0.00012345, 0.0, None, float("nan"), 3.2e-9)]
    ['1,234,568', '45.68', '0.0001234', '0', '', '–', '3.2e-09']
    >>> [number(v) for v in (9.9996, 999.96, 0.99996)]
    ['10.00', '1,000', '1.000']
    """
    if value is None:
        return ""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    size = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded number: 9.9996 is 10.00
    if places is not None and size < 0:
        least = 10.0**-places
        below = f"<{least:.{places}f}" if value > 0 else f">-{least:.{places}f}"
        return f"{value:.{places}f}" if abs(value) >= least / 2 else below
    if size < -6 or size > 14:
        return f"{value:.{max(digits - 2, 1)}g}"
    return f"{value:,.{max(digits - 1 - size, 0)}f}" if size < digits else f"{value:,.0f}"


def share(pct: float) -> str:
    """Return a share in per cent with one decimal; what would round to zero is said to be below 0.1.

    >>> share(93.58), share(0.02), share(0.0)
    ('93.6', '<0.1', '0.0')
    """
    return "<0.1" if 0.0 < pct < 0.05 else f"{round(pct, 1) + 0.0:,.1f}"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun.

    >>> counted(1, "GPU"), counted(2, "GPU"), counted(1500, "signature"), counted(2, "copy", "copies")
    ('1 GPU', '2 GPUs', '1,500 signatures', '2 copies')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def spans(numbers: Iterable[int]) -> str:
    """Return numbers with those that follow one another joined.

    >>> spans([0, 1, 2, 5, 7, 8]), spans([3])
    ('0 to 2, 5, 7, 8', '3')
    """
    runs: list[list[int]] = []
    for value in sorted(set(numbers)):
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def of_gpus(sentences: Sequence[str]) -> list[str]:
    """Return sentences once each: what is said of several GPUs in the same words names them together.

    Of three GPUs and more, what differs in figures alone gives the range of each figure.

    >>> of_gpus(["GPU 0: usable", "26 ms window", "GPU 1: usable", "26 ms window"])
    ['GPUs 0, 1: usable', '26 ms window']
    >>> of_gpus([f"GPU {i}: {i + 3}.0 ms (90 %: {i + 2}.8 to {i + 3}.2)" for i in range(3)])
    ['GPUs 0 to 2: 3.0 to 5.0 ms (90 %: 2.8 to 5.2)']
    """
    alike: dict[str, list[re.Match[str]]] = {}
    for sentence in sentences:
        if of_one := _OF_ONE_GPU.fullmatch(sentence):
            alike.setdefault(_FIGURES.sub("#", of_one[2]), []).append(of_one)
    many = {
        words: _with_ranges([one[2] for one in ones])
        for words, ones in alike.items()
        if len({one[1] for one in ones}) >= _MANY
    }
    named: dict[str, list[int]] = {}
    for sentence in sentences:
        of_one = _OF_ONE_GPU.fullmatch(sentence)
        said = many.get(_FIGURES.sub("#", of_one[2]), of_one[2]) if of_one else sentence
        named.setdefault(said, []).extend([int(of_one[1])] if of_one else [])
    return [
        f"GPU{'s' * (len(set(gpus)) > 1)} {spans(gpus)}: {said}" if gpus else said
        for said, gpus in named.items()
    ]


def _with_ranges(sentences: Sequence[str]) -> str:
    """Return a sentence for several that differ in figures alone: each figure as its range."""
    figures = iter(zip(*(_FIGURES.findall(sentence) for sentence in sentences), strict=True))

    def ranged(first: re.Match[str]) -> str:
        texts = [text for pair in next(figures) for text in pair if text]
        low, high = (pick(texts, key=lambda text: float(text.replace(",", ""))) for pick in (min, max))
        return f"{low} to {high}" if low != high or first[2] else low

    return _FIGURES.sub(ranged, sentences[0])
