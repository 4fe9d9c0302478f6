"""Entries of a list of all GPUs: a few numbers of each file, read without parsing the rest of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

import tomli

from tracetool.hardware.architecture import load_architecture
from tracetool.hardware.load import load_gpu
from tracetool.hardware.number import Number, read_number

#: Numbers of a list, by their section. An inline table of TOML stands on one line, so that line is enough.
_LISTED: Final = {
    "sm_count": "compute",
    "clock_max_mhz": "clocks",
    "dram_bytes_per_s": "memory",
    "power_limit_w": "power",
    "knee_mhz": "voltage",
}
_WANTED: Final = re.compile(rf"(?m)^(?:\[.*\]|(?:{'|'.join(_LISTED)})\s*=.*)$")


@dataclass(frozen=True)
class ListedGpu:
    """A GPU of a list: names, and numbers where more than its power sensor is known."""

    name: str
    title: str
    vendor: str
    architecture: str
    memory_type: str
    numbers: dict[str, Number]

    def value(self, key: str) -> float | None:
        """Return a number in the unit of its file; None for a GPU known only by its power sensor."""
        return self.numbers[key].value if key in self.numbers else None


def read_listed(name: str) -> ListedGpu:
    """Return the entry of a GPU in the list.

    Raises
    ------
    BadInput
        If the GPU's file states a number without its evidence, or none of that name where it must.
    """
    return parse_listed(name, (resources.files(__package__) / "gpus" / f"{name}.toml").read_text("utf-8"))


def parse_listed(name: str, text: str) -> ListedGpu:
    """Return the entry of a GPU in the list from the text of its file."""
    head, _, tables = text.partition("\n[")
    document: dict[str, Any] = tomli.loads(head)
    sections = tomli.loads("\n".join(_WANTED.findall(f"[{tables}")))
    architecture = load_architecture(str(document["architecture"]))
    numbers = {
        key: read_number(f"{name}.toml", f"{section}.{key}", sections[section][key])
        for key, section in _LISTED.items()
        if key in sections.get(section, {})
    }
    if document.get("scope", "model") == "model" and len(numbers) < len(_LISTED):
        numbers = {key: load_gpu(name).numbers[key] for key in _LISTED}
    return ListedGpu(
        name=name,
        title=str(document.get("title", name)),
        vendor=architecture.vendor,
        architecture=architecture.name,
        memory_type=str(document.get("memory_type", "")),
        numbers=numbers,
    )
