"""Shares as users state them: a fraction, or a text in per cent."""

from __future__ import annotations

import math

from tracetool.core.errors import BadInput

#: Largest share that is taken: more is a slip of the pen. [1]
_MOST = 10.0


def stated_share(value: float | str, option: str) -> float:
    """Return the share that a fraction (``0.03``) or a text in per cent (``"3%"``) states. [1]

    Parameters
    ----------
    value : float or str
        What was given.
    option : str
        The option's name, for messages.

    Raises
    ------
    BadInput
        If it is no share, below zero, above 1000 %, or a plain number of 1 or more: 3 may be meant as 3 %.
    """
    text = str(value).strip()
    in_percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{option} {text}: not a share", f"write {option} 3% or {option} 0.03")
    if not in_percent and number >= 1.0:
        raise BadInput(f"{option} {text}: a fraction, or per cent?", f"write {option} {text}% for {text} %")
    share = number / 100.0 if in_percent else number
    if not 0.0 <= share <= _MOST:
        raise BadInput(f"{option} {text} must lie between 0 and {100.0 * _MOST:g} %")
    return share
