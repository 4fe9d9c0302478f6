"""Quantiles of many small times without keeping them all."""

from __future__ import annotations

from collections.abc import Mapping

_MOST = 65_536


class Spread:
    """Collects times and returns their quantiles; beyond 65,536 every second one is kept, and so on."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[int] = []
        self._every = 1

    def add(self, value_ns: int) -> None:
        """Take one time. [ns]"""
        if self.count % self._every == 0:
            self._kept.append(value_ns)
            if len(self._kept) >= _MOST:
                self._kept = self._kept[::2]
                self._every *= 2
        self.count += 1

    def summary(self, divide_by: float = 1.0) -> Mapping[str, float | int]:
        """Return count, median, 95th percentile and largest kept, divided by ``divide_by``.

        Examples
        --------
        >>> spread = Spread()
        >>> for value in range(1, 101):
        ...     spread.add(value)
        >>> spread.summary()
        {'count': 100, 'p50': 51.0, 'p95': 96.0, 'max': 100.0}
        """
        if not self._kept:
            return {"count": 0}
        ordered = sorted(self._kept)

        def at(share: float) -> float:
            return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / divide_by

        return {"count": self.count, "p50": at(0.5), "p95": at(0.95), "max": ordered[-1] / divide_by}
