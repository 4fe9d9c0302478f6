"""Files of one JSON object a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def decoded_lines(
    text: str, row: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the rows of a file's lines, and the numbers of the lines that are none.

    Parameters
    ----------
    text : str
        The file. A last line without its end, as a killed writer leaves it, counts as any other.
    row : callable
        From a line's object to its row, or None where it holds nothing that is wanted.
    """
    import msgspec  # as every reader's library: not before a file needs it

    decoder = msgspec.json.Decoder(dict[str, Any])
    rows, bad = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            decoded = row(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            decoded = None
        if decoded is None:
            bad.append(number)
        else:
            rows.append(decoded)
    return rows, bad


def real(value: object) -> float | None:
    """Return a number of JSON; None where it is none, or a whole number beyond a float.

    >>> real(3), real("3"), real(True), real(10**400)
    (3.0, None, None, None)
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
