"""Makers of GPUs as messages write them, and a GPU of each to name in one."""

from __future__ import annotations

from typing import Final

_TITLES: Final = {"amd": "AMD", "nvidia": "NVIDIA"}
_EXAMPLES: Final = {"amd": "mi300x", "nvidia": "h100-sxm"}


def maker_title(vendor: str) -> str:
    """Return a maker's name as the maker writes it.

    >>> maker_title("amd")
    'AMD'
    """
    return _TITLES.get(vendor, vendor)


def example_gpu(vendor: str | None) -> str:
    """Return a GPU of a maker; of NVIDIA where none is known.

    >>> example_gpu("amd"), example_gpu(None)
    ('mi300x', 'h100-sxm')
    """
    return _EXAMPLES.get(vendor or "", _EXAMPLES["nvidia"])
