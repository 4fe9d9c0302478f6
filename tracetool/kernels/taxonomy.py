"""The closed list of families a kernel's name can state: what each does structurally, with one example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tracetool.families.registry import families


@dataclass(frozen=True)
class Family:
    """One family: its name, one line on what it does, and a kernel that belongs to it."""

    name: str
    meaning: str
    example: str


#: Every family of kernels, as lists show them; activities without a kernel's name are none.
FAMILIES: Final = tuple(
    Family(name, family.meaning, family.example) for name, family in families().items() if not family.activity
)

NAMES: Final = frozenset(f.name for f in FAMILIES)
