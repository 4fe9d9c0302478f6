"""Kernel names cut to the columns there are, head and tail kept, different ones still different."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tracetool.core import escape

_ANONYMOUS: Final = re.compile(r"(<unnamed>|\(anonymous namespace\)|\{anonymous\}|at::native|at::cuda)::")
_ARGUMENTS: Final = re.compile(r"\((?!anonymous)[^()]*(\([^()]*\)[^()]*)*\)$")


def cell_width(text: str) -> int:
    """Return the columns of a terminal a text takes."""
    from rich.cells import cell_len

    return len(text) if text.isascii() else cell_len(text)


def compact(name: str) -> str:
    """Return a kernel's name without what most names share: return type, arguments, common namespaces.

    >>> compact("void at::native::<unnamed>::fill<at::native::Op<int>, 4>(int*, Op<int>)")
    'fill<Op<int>, 4>'
    """
    bare = name.lstrip()
    shorter = _ANONYMOUS.sub("", _ARGUMENTS.sub("", bare.removeprefix("void ")))
    return name[: len(name) - len(bare)] + (shorter or bare)


def shorten_names(names: Sequence[str], width: int) -> list[str]:
    """Return names of at most ``width`` columns, different ones different where the width allows it.

    >>> shorten_names(["gemm_a_128x128_stage_3_tn_bf16", "gemm_a_128x128_stage_4_tn_bf16"], 16)
    ['gemm…3_tn_bf16', 'gemm…4_tn_bf16']
    """
    shortened = {
        n: n if cell_width(n) <= width else cut_middle(compact(n), width) for n in dict.fromkeys(names)
    }
    counts = Counter(shortened.values())
    clashes: dict[str, list[str]] = {}
    for name, short in shortened.items():
        if counts[short] > 1:
            clashes.setdefault(short, []).append(name)
    for group in clashes.values():
        wholes = [compact(n) for n in group]
        if len(set(wholes)) < len(wholes):  # they differ in what is left out
            wholes = list(group)
        first, last = min(wholes), max(wholes)
        same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        lead = max(width // 4, 1)
        for name, whole in zip(group, wholes, strict=True):
            rest = whole[max(same, lead) :]
            shortened[name] = whole[:lead] + "…" + cut_middle(rest, width - lead - 1)
    return [shortened[n] for n in names]


def cut_middle(text: str, width: int) -> str:
    """Return text cut in the middle to at most ``width`` columns of the terminal."""
    size = max(width, 1)
    short = escape.shorten(text, size)
    while cell_width(short) > width and size > 1:  # characters two columns wide
        size -= 1
        short = escape.shorten(text, size)
    return short
