"""Versions of libraries: their numbers, and the nearest measured one."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: What a release counts as where candidates state their numbers. [1] By definition above any candidate's.
RELEASE = 10**6
#: Numbers of a version that count: major, minor, patch and candidate. [1] By definition of their names.
PLACES = 4
_VERSION = re.compile(r"v?\d")


def version_number(stack: str) -> tuple[int, ...]:
    """Return the numbers of the version a stack states, the release after its candidates; () where none.

    What it was built for, behind a plus, is no part of the version.

    >>> version_number("trtllm 1.3.0rc20"), version_number("vllm 0.24"), version_number("sglang")
    ((1, 3, 0, 20), (0, 24, 0, 1000000), ())
    """
    version = stack.partition("+")[0]
    numbers = [int(text) for text in re.findall(r"\d+", version)][:PLACES]
    if not numbers:
        return ()
    if len(numbers) < PLACES or "rc" not in version.lower():
        numbers = [*[*numbers, 0, 0][: PLACES - 1], RELEASE]
    return tuple(numbers)


def before_version(stack: str) -> str:
    """Return a stack's text before its version, which begins at the first digit or the v before that.

    >>> before_version("vllm v0.19.1"), before_version("sglang")
    ('vllm ', 'sglang')
    """
    return _VERSION.split(stack, maxsplit=1)[0]


def nearest_version(stack: str, measured: Iterable[str]) -> str:
    """Return which of the versions measured is nearest to a stack's, the newer of two; "" without any.

    >>> nearest_version("vllm 0.19.1", ["vllm 0.24.0", "vllm 0.22.0"])
    'vllm 0.22.0'
    >>> nearest_version("vllm", ["vllm 0.24.0", "vllm 0.22.0"])
    'vllm 0.24.0'
    """
    number, versions = version_number(stack), sorted(measured, key=version_number, reverse=True)
    if not number:
        return versions[0] if versions else ""

    def away(name: str) -> tuple[int, ...]:
        return tuple(abs(a - b) for a, b in zip(version_number(name), number, strict=False))

    return min(versions, key=away, default="")
