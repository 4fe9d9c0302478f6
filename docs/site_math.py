"""Formulas of the site as MathML, which browsers draw without a script: a hook of MkDocs, named in ``site.py``."""

from __future__ import annotations

import html
import re
from typing import Any

#: How ``pymdownx.arithmatex`` marks a formula: a span within a line, a block on its own.
_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>',
    re.DOTALL,
)


def mathml(formula: str, *, block: bool) -> str:
    """Return a TeX formula as MathML; what the converter does not know is an error, for it would show as text.

    Raises
    ------
    ValueError
        If a command of the formula is unknown.
    """
    from latex2mathml.converter import convert

    made = str(convert(formula.strip(), display="block" if block else "inline"))
    if unknown := re.search(r"\\[A-Za-z]+", html.unescape(made)):
        raise ValueError(f"the site cannot draw {unknown[0]} of: {formula.strip()}")
    return made


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas of a page."""
    return _FORMULA.sub(lambda one: mathml(html.unescape(one[3]), block=one[2] == "["), content)
