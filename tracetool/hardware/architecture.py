"""Numbers common to all GPUs of an architecture: one file per architecture, read at first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Final

import tomli

from tracetool.core.errors import BadInput
from tracetool.hardware.number import KINDS, Number, read_number
from tracetool.hardware.priors import prior_number

#: Sections of numbers that every GPU of the architecture has unless its own file says otherwise.
SHARED_SECTIONS: Final = ("compute", "clocks", "onchip", "link", "voltage")
#: What a power field of the driver is stated with.
_SENSOR_KEYS: Final = ("class", "kind", "source")


@dataclass(frozen=True)
class SensorRow:
    """The class of power sensor behind one field of the driver, and the evidence for it."""

    sensor_class: str
    kind: str
    source: str


@dataclass(frozen=True)
class OtherKernels:
    """Kernels made for another architecture that this one runs, at a share of its own matrix rate."""

    architecture: str
    rate_share: Number


@dataclass(frozen=True)
class Architecture:
    """An architecture: its place among the others, its sensors, and the numbers its GPUs share.

    Parameters
    ----------
    name, title, vendor : str
        Name as GPUs' files state it, the name people use, ``nvidia`` or ``amd``.
    targets : tuple of str
        What compilers call it: compute capabilities (``sm_90``) or gfx names (``gfx942``).
    generation : Number
        Place on the line from old to new kernels of libraries; time coefficients are carried over
        between architectures that are near on it.
    shared : mapping
        Numbers by section and key; a GPU's own take their place.
    sensors : mapping
        Sensor behind each field of the driver: ``draw``, and where they differ ``average``, ``instant``,
        ``counter`` and ``draw_530``.
    other_kernels : OtherKernels, optional
        Kernels of another architecture that libraries still launch on this one.
    segments : mapping
        Numbers by key that a market segment's GPUs have in place of the shared ones, by the segment a GPU's
        file names: the tensor cores of ``geforce`` accumulate in FP32 at half of the professional rate.
    """

    name: str
    title: str
    vendor: str
    targets: tuple[str, ...]
    generation: Number
    shared: Mapping[str, Mapping[str, Number]] = field(repr=False)
    sensors: Mapping[str, SensorRow] = field(repr=False)
    other_kernels: OtherKernels | None = None
    segments: Mapping[str, Mapping[str, Number]] = field(default_factory=dict, repr=False)

    @property
    def has_tensor_memory(self) -> bool:
        """Whether SMs accumulate products in a memory of their own, which lets two multiply one tile."""
        return "tensor_memory_bytes_per_sm" in self.shared.get("onchip", {})

    @property
    def has_warpgroups(self) -> bool:
        """Whether more than a warp multiplies a tile: from Hopper on, in data centers."""
        return self.other_kernels is not None or self.has_tensor_memory

    @property
    def scales_in_warps(self) -> bool:
        """Whether matrix instructions of single warps take 4 bits, and with them the scales of blocks."""
        return "tensor_fp4" in self.shared.get("compute", {}) and not self.has_warpgroups

    def numbers(self) -> tuple[Number, ...]:
        """Return every number of the file, for those who check units and sources."""
        more = (self.other_kernels.rate_share,) if self.other_kernels else ()
        tables = (*self.shared.values(), *self.segments.values())
        return (self.generation, *more, *(n for table in tables for n in table.values()))

    def of_segment(self, where: str, segment: str) -> Mapping[str, Number]:
        """Return the numbers of a market segment; BadInput if the architecture states none of that name."""
        if segment and segment not in self.segments:
            segments = ", ".join(sorted(self.segments)) or f"none in {self.name}.toml"
            raise BadInput.in_file(where, f"segment {segment!r} is unknown", f"known: {segments}")
        return self.segments.get(segment, {})


@cache
def architecture_names() -> tuple[str, ...]:
    """Return the names a GPU's file may give as its architecture, in order."""
    folder = resources.files(__package__) / "architectures"
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml")))


@cache
def load_architecture(name: str) -> Architecture:
    """Return an architecture by name.

    Raises
    ------
    BadInput
        If there is no such architecture, or its file states a number without its evidence.

    Examples
    --------
    >>> load_architecture("hopper").targets, load_architecture("hopper").generation.value
    (('sm_90',), 7.0)
    """
    if name not in architecture_names():
        raise BadInput(f"no architecture called {name!r}", f"known: {', '.join(architecture_names())}")
    text = (resources.files(__package__) / "architectures" / f"{name}.toml").read_text("utf-8")
    return build_architecture(name, tomli.loads(text))


def build_architecture(name: str, document: Mapping[str, Any]) -> Architecture:
    """Return the architecture a parsed TOML describes; BadInput names what is missing or wrong."""
    where = f"{name}.toml"
    missing = [key for key in ("title", "vendor", "targets", "lineage", "sensor") if key not in document]
    if missing:
        raise BadInput.in_file(where, f"{', '.join(missing)} missing")
    shared = {
        section: {k: read_number(where, f"{section}.{k}", v) for k, v in document.get(section, {}).items()}
        for section in SHARED_SECTIONS
    }
    return Architecture(
        name=name,
        title=str(document["title"]),
        vendor=str(document["vendor"]),
        targets=tuple(document["targets"]),
        generation=read_number(where, "lineage.generation", document["lineage"].get("generation")),
        shared=shared,
        sensors={k: _sensor_row(where, f"sensor.{k}", v) for k, v in document["sensor"].items()},
        other_kernels=_other_kernels(where, document.get("other_kernels")),
        segments={
            segment: {k: read_number(where, f"segments.{segment}.{k}", v) for k, v in table.items()}
            for segment, table in document.get("segments", {}).items()
        },
    )


def _sensor_row(where: str, key: str, entry: Any) -> SensorRow:
    if not isinstance(entry, Mapping) or any(k not in entry for k in _SENSOR_KEYS):
        raise BadInput.in_file(where, f"{key} is not a table with {', '.join(_SENSOR_KEYS)}")
    if entry["kind"] not in KINDS:
        raise BadInput.in_file(where, f"{key} is of kind {entry['kind']!r}", f"one of {', '.join(KINDS)}")
    return SensorRow(str(entry["class"]), str(entry["kind"]), str(entry["source"]))


def _other_kernels(where: str, entry: Any) -> OtherKernels | None:
    if entry is None:
        return None
    if not isinstance(entry, Mapping) or "architecture" not in entry:
        raise BadInput.in_file(where, "other_kernels names no architecture")
    share = read_number(where, "other_kernels.rate_share", entry.get("rate_share"))
    return OtherKernels(str(entry["architecture"]), share)


def generations_apart(one: str, other: str) -> float:
    """Return the distance of two architectures' kernels, another vendor's further still. [generations]

    >>> generations_apart("hopper", "hopper"), generations_apart("hopper", "blackwell")
    (0.0, 1.0)
    """
    mine, theirs = load_architecture(one), load_architecture(other)
    away = abs(mine.generation.value - theirs.generation.value)
    return away + prior_number("carried_time.other_vendor") * (mine.vendor != theirs.vendor)
