"""Which GPU a name or a device string means; of the GPUs' files only their names are read."""

from __future__ import annotations

import math
import re
import tomllib
from functools import cache
from importlib import resources
from itertools import pairwise

#: Words a device string carries that do not distinguish GPUs.
_NOISE = frozenset(
    (
        "nvidia",
        "amd",
        "tesla",
        "geforce",
        "quadro",
        "instinct",
        "corporation",
        "graphics",
        "radeon",
        "gpu",
        "oam",
        "vf",
    )
)


@cache
def gpu_names() -> tuple[str, ...]:
    """Return the names ``--gpu`` takes, in order."""
    folder = resources.files(__package__) / "gpus"
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml")))


def _words(text: str) -> tuple[str, ...]:
    split = re.sub(r"(?<=\d)(?=gb\b)", " ", text.lower())
    return tuple(w for w in re.split(r"[^a-z0-9.]+", split) if w and w not in _NOISE)


def _aliases(name: str) -> list[str]:
    """Return a GPU's other names: they stand before the first section, so the rest need not be parsed."""
    text = (resources.files(__package__) / "gpus" / f"{name}.toml").read_text("utf-8")
    return list(tomllib.loads(re.split(r"(?m)^\[", text, maxsplit=1)[0]).get("aliases", ()))


@cache
def _spellings() -> tuple[tuple[tuple[str, ...], str], ...]:
    found = [(_words(n), n) for n in gpu_names()]
    found += [(_words(a), n) for n in gpu_names() for a in _aliases(n)]
    return tuple(found)


def match_gpu(device: str, memory_bytes: float | None = None) -> str | None:
    """Return the name of the GPU a device string means, or None if no rule knows it.

    Case, punctuation and makers' words are ignored. A string that says more than an alias
    (a memory size, a driver's suffix) still matches when every word of the alias is in it;
    the alias with the most words wins, and a tie between GPUs is no match. Of GPUs whose names differ
    only by their memory the nearest in size is taken, unless the matching alias states a size itself.

    Parameters
    ----------
    device : str
        Name as a profiler wrote it.
    memory_bytes : float, optional
        Device memory the trace states; by default the size in ``device``, if there is one. [B]

    Examples
    --------
    >>> match_gpu("NVIDIA A100-SXM4-80GB"), match_gpu("Tesla V100-SXM2-16GB"), match_gpu("Voodoo 2")
    ('a100-sxm', 'v100-sxm2-16gb', None)
    >>> match_gpu("Tesla V100-DGXS-32GB"), match_gpu("Tesla V100-SXM2", memory_bytes=34e9)
    ('v100-sxm2-32gb', 'v100-sxm2-32gb')
    """
    asked = _words(device)
    matches = [(len(words), words, n) for words, n in _spellings() if words and set(words) <= set(asked)]
    if not matches:
        return None
    exact = [match for match in matches if match[1] == asked]
    longest = max(size for size, _, _ in matches)
    best = exact if len({n for _, _, n in exact}) == 1 else [m for m in matches if m[0] == longest]
    if len({n for _, _, n in best}) != 1:
        return None
    name = best[0][2]
    if any(_stated_bytes(words) for _, words, _ in best):
        return name
    size = memory_bytes or _stated_bytes(asked)
    return _nearest_in_memory(name, size) if size else name


def _stated_bytes(words: tuple[str, ...]) -> float | None:
    """Return the memory size among a name's words. [B]"""
    sizes = [float(size) for size, unit in pairwise(words) if unit == "gb" and size.isdigit()]
    return sizes[0] * 2**30 if sizes else None


@cache
def _memory_bytes(name: str) -> float:
    text = (resources.files(__package__) / "gpus" / f"{name}.toml").read_text("utf-8")
    number = tomllib.loads(text).get("memory", {}).get("memory_bytes", {})
    return float(number.get("value", "nan"))


def _nearest_in_memory(name: str, size_bytes: float) -> str:
    """Return the GPU nearest in memory size, by ratio, among those named alike but for that size."""
    model = re.sub(r"-\d+gb$", "", name)
    variants = [n for n in gpu_names() if re.sub(r"-\d+gb$", "", n) == model]
    if len(variants) == 1:
        return name
    apart = {n: abs(math.log(_memory_bytes(n) / size_bytes)) for n in variants}
    return min((n for n in variants if math.isfinite(apart[n])), key=lambda n: apart[n], default=name)
