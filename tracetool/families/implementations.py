"""Implementations of a law in libraries: one file each, in the folder of its group of families.

An implementation is a kernel (or a set of kernels) that one library calls for an operator: FlashAttention 3
in vLLM, the FP8 product of SGLang. Its file ``families/<group>/implementations/<name>.toml`` states

title
    What people call it.
stack
    The library that calls it, empty where several call the same kernels (cuBLAS).
names
    What tables call it in their column ``implementation``.
words
    Words whose presence in another name identifies it, all of them.

and a section for each law it was fitted for: the coefficients on every GPU that are not the law's priors,
under ``[<law>.on.<architecture>]`` those that differ there, under
``[<law>.in."<stack>".<architecture>]`` those that differ there in another version of the library, ``gpus``
with the rows measured on each, and the 90 % band of ln(measured / predicted) on shapes held back.
``families/<group>/transfer.toml`` holds, by law, how much wider the bounds of a mixture are where another
library ran the rows, the share of other versions and libraries that run a kernel which was not measured
there, and the band of kernels that another of their library stood for. ``families/transfer.toml`` holds what
all laws share on another GPU of an architecture and on another architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any

import numpy as np
import tomli

from tracetool.core.interval import Band
from tracetool.core.library_versions import before_version, nearest_version, version_number
from tracetool.hardware.architecture import generations_apart, load_architecture
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number

#: Half the width of a typical implementation's own band. [ln]
_TYPICAL = prior_number("implementations.typical_band")
#: Generations that architectures count as further apart where one has matrix instructions of warpgroups or of
#: tensor memory and the other has not: libraries build other kernels for them. [1] A prior.
OTHER_KERNELS = 3.0


def architecture_distance(one: str, another: str) -> tuple[bool, float]:
    """Return the distance of two architectures as a sort key: equal ones first, then by generations."""
    more = OTHER_KERNELS if has_warpgroups(one) != has_warpgroups(another) else 0.0
    return one != another, generations_apart(one, another) + more


@cache
def has_warpgroups(name: str) -> bool:
    """Return whether an architecture multiplies by more than a warp: from Hopper on, in data centers."""
    return load_architecture(name).has_warpgroups


@dataclass(frozen=True)
class FittedLaw:
    """One law's coefficients under one implementation."""

    values: Mapping[str, float]
    by_architecture: Mapping[str, Mapping[str, float]]
    gpus: Mapping[str, int]  # rows measured on each
    versions: frozenset[str]  # stacks with their versions, as words
    band: Band  # of ln(measured / predicted) on these GPUs
    band_by_architecture: Mapping[str, Band]
    by_version: Mapping[tuple[str, str], Mapping[str, float]] = field(
        default_factory=dict
    )  # of other versions
    band_by_version: Mapping[tuple[str, str], Band] = field(default_factory=dict)  # by architecture, too
    lent_by: str = ""  # the law of another format it was fitted for
    kv_formats: Mapping[str, frozenset[str]] = field(
        default_factory=dict
    )  # of keys and values, by GPU; none where a law has no such

    def on(self, architecture: str, stack: str = "") -> dict[str, float]:
        """Return the coefficients on GPUs of an architecture: those of the nearest one measured.

        Where ``stack`` states a version, those of the nearest version measured there.
        """
        near = min(self.architectures, key=lambda name: architecture_distance(name, architecture), default="")
        changed = self.by_version.get((self._version(near, stack), near), {})
        return {**self.values, **self.by_architecture.get(near, {}), **changed}

    def band_on(self, architecture: str, stack: str = "") -> Band:
        """Return the 90 % band of ln(measured / predicted) on GPUs of an architecture, in a version."""
        band = self.band_by_architecture.get(architecture, self.band)
        return self.band_by_version.get((self._version(architecture, stack), architecture), band)

    def versions_on(self, architecture: str) -> frozenset[str]:
        """Return the versions measured on GPUs of an architecture."""
        return self.versions | {version for version, on in self.by_version if on == architecture}

    def _version(self, architecture: str, stack: str) -> str:
        return nearest_version(stack, self.versions_on(architecture))

    def kv_formats_on(self, gpu: Gpu) -> frozenset[str]:
        """Return the formats of keys and values measured on a GPU, else on its architecture, else on any."""
        if gpu.name in self.kv_formats:
            return self.kv_formats[gpu.name]
        alike = [v for k, v in self.kv_formats.items() if load_gpu(k).architecture == gpu.architecture]
        return frozenset[str]().union(*(alike or self.kv_formats.values()))

    @property
    def architectures(self) -> tuple[str, ...]:
        """Architectures of the GPUs measured."""
        return tuple(sorted({load_gpu(name).architecture for name in self.gpus}))


@dataclass(frozen=True)
class Implementation:
    """Fitted laws of one library's kernels."""

    name: str
    title: str
    stack: str
    names: frozenset[str]
    words: tuple[str, ...]
    laws: Mapping[str, FittedLaw]


@dataclass(frozen=True)
class TransferBands:
    """90 % bands of ln(measured / predicted) of a law away from the GPUs an implementation was fitted on."""

    same_architecture: Band  # over the typical width beside the implementation's own [1]
    other_architecture: Band  # where memory brings an SM as much as on a GPU measured
    other_library: float = 1.0  # factor on the ln of the bounds of a mixture where no candidate ran the row
    other_version: float = 1.0  # on those of an implementation in another version of its library
    swapped: float = 0.0  # share of other versions and libraries that run another kernel
    stand_in: Band = (0.0, 0.0)  # of kernels that another one of their library stood for

    def on_architecture(self, own: Band) -> Band:
        """Return the band on another GPU of an architecture where an implementation has one of its own."""
        low, high = (typical_beside(own) * side for side in self.same_architecture)
        return min(own[0], low), max(own[1], high)

    def apart(self, own: Band, wider: float) -> Band:
        """Return the band on another architecture, ``wider`` than there with alike memory."""
        low, high = (wider * side for side in self.other_architecture)
        return min(own[0], low), max(own[1], high)


def typical_beside(own: Band) -> float:
    """Return the width of an implementation's own band and a typical one, as independent. [ln]

    What a kernel's law leaves where it was fitted it leaves on the next GPU, too, with what that changes.
    """
    return float(np.hypot((own[1] - own[0]) / 2.0, _TYPICAL))


@cache
def implementations(law: str) -> tuple[Implementation, ...]:
    """Return the implementations fitted for a law, by name."""
    return tuple(one for one in _all_implementations() if law in one.laws)


@cache
def fitted_libraries() -> frozenset[str]:
    """Return the libraries some implementation was fitted for."""
    return frozenset(one.stack for one in _all_implementations() if one.stack)


@cache
def transfer_bands(law: str) -> TransferBands | None:
    """Return a law's error bands, found by leaving out GPUs and architectures; None where there are none."""
    for folder in _folders():
        file = folder / "transfer.toml"
        if file.is_file() and (entry := tomli.loads(file.read_text("utf-8")).get(law)):
            library, version = (float(entry[name]["value"]) for name in ("other_library", "other_version"))
            swapped = float(entry["swapped"]["value"]) if "swapped" in entry else 0.0
            stand_in = _band(entry, "stand_in") if "stand_in_low" in entry else (0.0, 0.0)
            return TransferBands(*bands_elsewhere(), library, version, swapped, stand_in)
    return None


@cache
def bands_elsewhere() -> tuple[Band, Band]:
    """Return what all laws share of 90 % bands on another GPU of an architecture and on another one.

    The first is over :func:`typical_beside`, the second where memory is alike.
    """
    entry = tomli.loads((resources.files("tracetool.families") / "transfer.toml").read_text("utf-8"))
    return _band(entry, "same_architecture"), _band(entry, "other_architecture")


@cache
def _all_implementations() -> tuple[Implementation, ...]:
    read = []
    for folder in _folders():
        files = [f for f in (folder / "implementations").iterdir() if f.name.endswith(".toml")]
        read += [_read(file.name[:-5], tomli.loads(file.read_text("utf-8"))) for file in files]
    return tuple(sorted(read, key=lambda one: one.name))


def _folders() -> list[Traversable]:
    """Return the groups of families that have implementations."""
    packages = resources.files("tracetool.families").iterdir()
    return [folder for folder in packages if (folder / "implementations").is_dir()]


def _read(name: str, document: Mapping[str, Any]) -> Implementation:
    laws = {key: entry for key, entry in document.items() if isinstance(entry, Mapping)}
    return Implementation(
        name,
        document["title"],
        document["stack"],
        frozenset(words_of(text) for text in document["names"]),
        tuple(document["words"]),
        MappingProxyType({key: _fitted(entry) for key, entry in laws.items()}),
    )


def _fitted(entry: Mapping[str, Any]) -> FittedLaw:
    by_gpu: Mapping[str, Mapping[str, Any]] = entry.get("on", {})
    by_generation = {(words_of(v), a): c for v, on in entry.get("in", {}).items() for a, c in on.items()}
    return FittedLaw(
        _values({k: v for k, v in entry.items() if isinstance(v, Mapping) and "unit" in v}),
        MappingProxyType({architecture: _values(changed) for architecture, changed in by_gpu.items()}),
        MappingProxyType({name: int(rows) for name, rows in entry["gpus"].items()}),
        frozenset(words_of(text) for text in entry["versions"]),
        _band(entry, "spread"),
        MappingProxyType(
            {a: _band(changed, "spread") for a, changed in by_gpu.items() if "spread_low" in changed}
        ),
        MappingProxyType({key: _values(changed) for key, changed in by_generation.items()}),
        MappingProxyType({key: _band(changed, "spread") for key, changed in by_generation.items()}),
        kv_formats=MappingProxyType({k: frozenset(v) for k, v in entry.get("kv_formats", {}).items()}),
    )


def _values(entry: Mapping[str, Any]) -> Mapping[str, float]:
    return MappingProxyType({k: float(v["value"]) for k, v in entry.items() if not k.startswith("spread_")})


def _band(entry: Mapping[str, Any], name: str) -> Band:
    return (float(entry[f"{name}_low"]["value"]), float(entry[f"{name}_high"]["value"]))


def words_of(text: str) -> str:
    """Return a name in lower case with its words parted by single underscores.

    >>> words_of("vLLM flash-attn FA3")
    'vllm_flash_attn_fa3'
    """
    spaced = "".join(c if c.isalnum() or c == "." else " " for c in text.lower())
    return "_".join(spaced.split())


def library_of(stack: str) -> str:
    """Return the library of a stack that may state a version, with or without a v before it.

    >>> library_of("vLLM v0.24.0"), library_of("trtllm-1.3.0rc20"), library_of("TensorRT-LLM")
    ('vllm', 'trtllm', 'trtllm')
    """
    letters = "".join(c for c in before_version(stack.lower()) if c.isalpha())
    return _ALIASES.get(letters, letters)


def release_of(stack: str) -> tuple[str, tuple[int, ...]]:
    """Return the library of a stack and the numbers of its version, however both are written.

    >>> release_of("TensorRT-LLM v1.3.0rc20") == release_of("trtllm_1.3.0rc20")
    True
    >>> release_of("vllm 0.24.0+cu128") == release_of("vLLM 0.24")
    True
    """
    return library_of(stack), version_number(stack)


def distinctive_words(called: str) -> set[str]:
    """Return the words of an implementation's name, without those for what it is built with or for.

    Kernels of two libraries that share only these are as far apart as any.

    >>> sorted(distinctive_words("moe_torch_flow_cutlass")), sorted(distinctive_words("fused_moe_triton"))
    ([], ['triton'])
    """
    return _without(called, words={"cutlass", "moe", "fused", "attention", "attn", "torch", "flow"})


def _without(called: str, words: set[str]) -> set[str]:
    return set(called.split("_")) - words


#: What people call a library, and what the files call it.
_ALIASES = {"tensorrtllm": "trtllm", "trt": "trtllm", "pytorch": "torch", "sgl": "sglang"}
