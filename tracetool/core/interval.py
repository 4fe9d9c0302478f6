"""90 % intervals: the one level stated everywhere."""

from __future__ import annotations

from typing import Final

#: Two-sided level of every ``_low``/``_high`` pair the tool writes.
LEVEL: Final = 0.90
#: Standard normal quantile at (1 + LEVEL) / 2.
Z90: Final = 1.6448536269514722
#: Ends of the names of columns: the value, and the two ends of its 90 % interval.
ENDS: Final = ("", "_low", "_high")
#: Lower and upper bound of a 90 % interval, of ln(measured / predicted) where not said otherwise.
Band = tuple[float, float]
