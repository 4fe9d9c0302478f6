"""What was predicted, at a glance: one line for every output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: The words of each kind of source, by its key in a ``coverage`` document.
_WORDS: Final = {
    "shapes_pct": "shapes",
    "anchored_only_pct": "anchored only",
    "family_rate_pct": "a family's usual rate",
    "not_at_all_pct": "not at all",
}


def coverage_line(coverage: Mapping[str, float]) -> str:
    """Return the share of the kernels' time predicted from each kind of source.

    Examples
    --------
    >>> coverage_line({"shapes_pct": 82.2, "anchored_only_pct": 17.6, "family_rate_pct": 0.2})
    "predicted from: shapes 82 % of the kernels' time, anchored only 18 %, a family's usual rate <1 %"
    """
    shares = {words: coverage.get(key, 0.0) for key, words in _WORDS.items()}
    if not any(shares.values()):
        return "predicted from: nothing, there are no kernels"
    first, *rest = (f"{words} {_share(share)}" for words, share in shares.items() if share > 0)
    return ", ".join([f"predicted from: {first} of the kernels' time", *rest])


def _share(percent: float) -> str:
    return "<1 %" if 0.0 < percent < 0.5 else f"{percent:.0f} %"
