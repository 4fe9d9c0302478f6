"""Colours that people with any colour vision tell apart, the same for a family in every picture.

References
----------
.. [1] P. Tol, "Colour Schemes", SRON technical note EPS-TN-09-002, scheme "muted".
.. [2] J. R. Nuñez, C. R. Anderton, R. S. Renslow, "Optimizing colormaps with consideration for color
   vision deficiency", PLOS ONE 13(7), 2018: cividis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tracetool.vocabulary.arrays import Floats

_QUALITATIVE: Final = (
    "#88ccee", "#cc6677", "#ddcc77", "#117733", "#aa4499", "#44aa99", "#332288", "#999933", "#882255",
)  # fmt: skip
#: Colour of every family beyond the first nine, and of what has no family.
OTHER: Final = "#bbbbbb"
_CIVIDIS: Final = (
    (0.0, (0, 34, 78)), (0.2, (53, 69, 108)), (0.4, (102, 105, 112)), (0.6, (148, 142, 119)),
    (0.8, (200, 184, 102)), (1.0, (254, 232, 56)),
)  # fmt: skip


def family_colours(families: Sequence[str]) -> dict[str, str]:
    """Return a colour per family, distinct for the first nine, which should be the most important ones.

    >>> family_colours(["gemm", "softmax"])
    {'gemm': '#88ccee', 'softmax': '#cc6677'}
    """
    return {f: _QUALITATIVE[i] if i < len(_QUALITATIVE) else OTHER for i, f in enumerate(families)}


def sequential(share: Floats) -> list[str]:
    """Return colours from dark blue (0) to yellow (1) whose lightness rises evenly.

    >>> sequential(np.array([0.0, 1.0]))
    ['#00224e', '#fee838']
    """
    places = np.array([p for p, _ in _CIVIDIS])
    channels = np.array([c for _, c in _CIVIDIS], dtype=np.float64)
    clipped = np.clip(np.nan_to_num(share), 0.0, 1.0)
    mixed = np.stack([np.interp(clipped, places, channels[:, i]) for i in range(3)], axis=-1)
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in np.rint(mixed).astype(int)]


def ink_on(colour: str) -> str:
    """Return black or white, whichever is read better on ``colour`` (WCAG 2 contrast).

    >>> ink_on("#88ccee"), ink_on("#332288")
    ('#000', '#fff')
    """
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ np.array([0.2126, 0.7152, 0.0722]))
    return "#000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#fff"
