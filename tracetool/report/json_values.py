"""Values as JSON allows them: read by every command's output, so without any table library."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """Return a value without NaN and infinities, which JSON has not: they become None, at any depth.

    >>> plain({1: (float("nan"), 2.5)})
    {'1': [None, 2.5]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value
