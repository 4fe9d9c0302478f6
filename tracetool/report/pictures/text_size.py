"""How wide a text is in a picture, so that labels end where their rectangles do.

References
----------
.. [1] Advance widths of DejaVu Sans 2.37, the widest of the faces ``system-ui`` usually stands for.
"""

from __future__ import annotations

from typing import Final

from tracetool.core import escape

#: Widths in units of the letters' size. [1]
_WIDTHS: Final = {
    letter: width
    for letters, width in (
        ("ijl I'|", 0.30), (" .,:;·", 0.34), ("f()[]{}/\\-t", 0.40), ("r", 0.42), ("_*\"s", 0.53),
        ("cz", 0.56),
        ("kvxyL", 0.60), ("abdeghnopqu0123456789FPTYETS?$&", 0.64), ("ABKRVXZ", 0.70), ("CGDHNOQU", 0.79),
        ("w<>=+~#^", 0.84), ("M%@…", 1.0), ("mW", 1.0),
    )
    for letter in letters
}  # fmt: skip
_UNKNOWN: Final = 1.1
_BOLD: Final = 1.12
#: Fewer letters of a shortened name tell nothing.
_FEWEST: Final = 8


def text_width(text: str, size: float = 12.0, *, bold: bool = False) -> float:
    """Return the width of a text set at ``size``. [px]

    >>> text_width("ill") < text_width("MMM"), text_width("gemm") < text_width("gemm", bold=True)
    (True, True)
    """
    return size * (_BOLD if bold else 1.0) * sum(_WIDTHS.get(letter, _UNKNOWN) for letter in text)


def label_that_fits(text: str, width: float, *, bold: bool = False) -> str:
    """Return a label of at most ``width`` pixels, cut in the middle; empty where that would tell nothing.

    >>> label_that_fits("gemm", 100.0), label_that_fits("gemm_kernel_of_128x128", 30.0)
    ('gemm', '')
    """
    if text_width(text, bold=bold) <= width:
        return text
    letters = len(text) - 1
    while letters >= _FEWEST:
        shorter = escape.shorten(text, letters)
        over = text_width(shorter, bold=bold) - width
        if over <= 0:
            return shorter
        letters -= max(int(over / 14.0), 1)
    return ""
