"""Definitions in force until the next of the same key, found for each place where one is used."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Ints
from tracetool.sources.io.protobuf_columns import Wholes


class Latest:
    """Rows of definitions, found by group, key and place.

    Parameters
    ----------
    group, place : array of int, from 0
        Whom each definition is for, and where it stands.
    key : array of uint64
        What it defines.

    Notes
    -----
    Of two definitions at one place the second holds.
    """

    def __init__(self, group: Ints, key: Wholes, place: Ints) -> None:
        self._keys = np.unique(key)
        self._last = int(place.max(initial=0))
        pair = group * len(self._keys) + np.searchsorted(self._keys, key)
        self._pairs = np.unique(pair)
        ranked = np.searchsorted(self._pairs, pair) * (self._last + 1) + place
        self._rows = np.argsort(ranked, kind="stable")
        self._ranked = ranked[self._rows]

    def find(self, group: Ints, key: Wholes, place: Ints) -> Ints:
        """Return the row of the last definition of each key at its place or before, -1 where there is none.

        >>> names = Latest(np.array([0, 0, 1]), np.array([7, 7, 7], np.uint64), np.array([0, 5, 5]))
        >>> names.find(np.array([0, 0, 1]), np.array([7, 7, 7], np.uint64), np.array([4, 5, 4])).tolist()
        [0, 1, -1]
        """
        if not len(self._rows):
            return np.full(len(key), -1)
        code = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        pair = group * len(self._keys) + code
        which = np.minimum(np.searchsorted(self._pairs, pair), len(self._pairs) - 1)
        is_defined = (self._keys[code] == key) & (self._pairs[which] == pair)
        lowest = which * (self._last + 1)
        at = np.searchsorted(self._ranked, lowest + np.minimum(place, self._last), side="right") - 1
        is_defined &= (at >= 0) & (self._ranked[at] >= lowest)
        return np.where(is_defined, self._rows[at], -1)
