"""Memory that is used again at the next clock: fresh pages for gigabytes cost more than the sums in them."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from tracetool.vocabulary.arrays import Numbers


class Scratch:
    """Named arrays that keep their memory between calls; what was in them is overwritten."""

    def __init__(self) -> None:
        self._kept: dict[str, Numbers] = {}

    def take(self, name: str, n: int, dtype: DTypeLike = np.float64) -> Numbers:
        """Return an array of ``n``, its contents undefined."""
        found = self._kept.get(name)
        if found is None or len(found) < n or found.dtype != np.dtype(dtype):
            found = self._kept[name] = np.empty(n, dtype)
        return found[:n]
