"""Colors that people with any color vision distinguish, the same for a family in every picture.

References
----------
.. [1] P. Tol, "Colour Schemes", SRON technical note EPS-TN-09-002, scheme "muted".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

_QUALITATIVE: Final = (
    "#88ccee", "#cc6677", "#ddcc77", "#117733", "#aa4499", "#44aa99", "#332288", "#999933", "#882255",
)  # fmt: skip
#: Color of every family beyond the first nine, and of what has no family.
OTHER: Final = "#bbbbbb"


def family_colors(families: Sequence[str]) -> dict[str, str]:
    """Return a color per family, distinct for the first nine, which should be the most important ones.

    >>> family_colors(["gemm", "softmax"])
    {'gemm': '#88ccee', 'softmax': '#cc6677'}
    """
    return {f: _QUALITATIVE[i] if i < len(_QUALITATIVE) else OTHER for i, f in enumerate(families)}


def ink_on(color: str) -> str:
    """Return black or white, whichever is read better on ``color`` (WCAG 2 contrast).

    >>> ink_on("#88ccee"), ink_on("#332288")
    ('#000', '#fff')
    """
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ np.array([0.2126, 0.7152, 0.0722]))
    return "#000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#fff"
