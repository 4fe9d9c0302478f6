"""GPUs by name or device string; of the GPUs' files only their names are read."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import tomli

#: Words a device string carries that do not distinguish GPUs.
_NOISE: Final = frozenset((
    "nvidia", "amd", "tesla", "geforce", "quadro", "instinct", "corporation", "graphics", "radeon", "gpu",
    "oam", "vf", "generation", "edition",
))  # fmt: skip
#: Words that make another GPU of a model: an RTX 4070 Ti or the RTX 4070 of a laptop is no RTX 4070.
_SUFFIX: Final = re.compile(r"ti|super|d|laptop|mobile|max|q|ada|pro|sff|xtx?|gre|3e|nx|nano")
#: How a GPU is mounted: one that is said to be mounted otherwise than its name says is another GPU.
_MOUNTS: Final = frozenset(("sxm", "pcie", "nvl"))
#: Generations of one socket, and the workstation whose GPUs have it.
_SXM: Final = re.compile(r"sxm\d|dgxs")
#: Words of GeForce names that are also written without a space: RTX3090, GTX1080Ti.
_JOINED: Final = re.compile(r"(?<=\b[rg]tx)(?=\d)|(?<=\d{4})(?=(?:ti|super|d)\b)")
#: The series of a GeForce, which people leave out: 4090.
_SERIES: Final = re.compile(r"^[rg]tx(?=\d{4})")
_SIZE: Final = re.compile(r"(\d+)gb?")
#: Words a user may add to a GPU's name: kind of memory, how it is mounted, packaged and cooled, its rack.
_HARMLESS: Final = re.compile(r"hbm\d?e?|gddr\d?x?|sxm|pcie|nvl\d*|mcm|mba|ac")
#: Memory or SMs stated this far from a GPU's are another one's, or those of a slice of it. [1] A prior.
ANOTHERS: Final = 0.25
#: Names a message lists in place of all of them, and the least likeness of one. [1]
_NEAREST: Final = 5
_ALIKE: Final = 0.4


@dataclass(frozen=True)
class _Name:
    """A name or device string: its words, and the memory size among them. [GB]"""

    words: frozenset[str]
    size_gb: float | None


@cache
def gpu_names() -> tuple[str, ...]:
    """Return the names ``--gpu`` takes, in order."""
    folder = resources.files(__package__) / "gpus"
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml")))


def _read_name(text: str) -> _Name:
    """Return the words of a name.

    >>> name = _read_name("NVIDIA A100-SXM4-40GB")
    >>> sorted(name.words), name.size_gb
    (['a100', 'sxm'], 40.0)
    """
    spaced = _JOINED.sub(" ", re.sub(r"(?<=\d)\s+(?=gb\b)", "", text.lower()))
    words = [w.strip(".") for w in re.split(r"[^a-z0-9.]+", spaced)]
    words = ["sxm" if _SXM.fullmatch(w) else w for w in words if w and w not in _NOISE]
    sizes = [float(m[1]) for w in words if (m := _SIZE.fullmatch(w))]
    return _Name(frozenset(w for w in words if not _SIZE.fullmatch(w)), sizes[0] if sizes else None)


def _aliases(name: str) -> list[str]:
    """Return a GPU's other names: they precede the first section, so the rest need not be parsed."""
    text = (resources.files(__package__) / "gpus" / f"{name}.toml").read_text("utf-8")
    return list(tomli.loads(re.split(r"(?m)^\[", text, maxsplit=1)[0]).get("aliases", ()))


@cache
def _spellings() -> tuple[tuple[_Name, str], ...]:
    return tuple((_read_name(text), name) for name in gpu_names() for text in (name, *_aliases(name)))


def match_gpu(device: str, memory_bytes: float | None = None) -> str | None:
    """Return the name of the GPU a device string means, or None if no rule resolves it.

    Case, punctuation and makers' words are ignored, and so is the generation of an SXM socket. A string that
    says more than a GPU's name (a driver's suffix) still matches when every word of the name is in it, unless
    what it says more is another model's (``Ti``, ``Laptop``) or another mount (PCIe against SXM). The name
    with the most words wins, and a tie between models is no match. Of GPUs whose names differ only by their
    memory the nearest in size is taken: the size that the string states, else the trace's.

    Parameters
    ----------
    device : str
        Name as a profiler wrote it.
    memory_bytes : float, optional
        Device memory the trace states. [B]

    Examples
    --------
    >>> match_gpu("NVIDIA A100-SXM4-80GB"), match_gpu("Tesla V100-SXM2-16GB"), match_gpu("Voodoo 2")
    ('a100-sxm', 'v100-sxm2-16gb', None)
    >>> match_gpu("Tesla V100-DGXS-32GB"), match_gpu("Tesla V100-SXM2", memory_bytes=34e9)
    ('v100-sxm2-32gb', 'v100-sxm2-32gb')
    """
    wanted = _read_name(device)
    matches = [
        (name, gpu)
        for name, gpu in _spellings()
        if name.words and name.words <= wanted.words and not _is_another(wanted.words - name.words, gpu)
    ]
    most = max((len(name.words) for name, _ in matches), default=0)
    best = [(name, gpu) for name, gpu in matches if len(name.words) == most]
    if len({_model(gpu) for _, gpu in best}) != 1:
        return None
    size_gb = wanted.size_gb or _bare_size(wanted, best[0][1])
    same_size = {gpu for name, gpu in best if name.size_gb == size_gb}
    if len(same_size) == 1 and (size_gb or not memory_bytes):
        return same_size.pop()
    return _nearest_in_memory(best[0][1], size_gb or (memory_bytes or math.nan) / 2**30)


def asked_gpu(text: str) -> str | None:
    """Return the name of the GPU a user means, or None: every word must be known, or it may be a typo.

    Names, aliases and whole device strings are taken as :func:`match_gpu` takes them, but a word beyond the
    GPU's name must say how it is mounted or what its memory is, and a stated size must be that memory's. A
    name may be divided otherwise, and that of a GeForce begin with its number.

    Examples
    --------
    >>> asked_gpu("NVIDIA H100 80GB HBM3"), asked_gpu("V100-DGXS-32GB"), asked_gpu("gb300-nvl72")
    ('h100-sxm', 'v100-sxm2-32gb', 'gb300')
    >>> asked_gpu("mi_300x"), asked_gpu("L40-S"), asked_gpu("4090")
    ('mi300x', 'l40s', 'rtx-4090')
    >>> asked_gpu("h100-pci"), asked_gpu("h200-80gb")
    (None, None)
    """
    return _asked_by_words(_as_spelled(text))


def _as_spelled(text: str) -> str:
    """Return a name as its words are divided in the files, where it is that of a GPU but for that."""
    return text if _asked_by_words(text) else _run_together().get(_letters(text), text)


def _letters(text: str) -> str:
    """Return a name's letters and digits in lower case, without makers' words."""
    words = re.split(r"[^a-z0-9.]+", text.lower())
    return "".join(word for word in words if word not in _NOISE).replace(".", "")


@cache
def _run_together() -> dict[str, str]:
    """Return a spelling of each GPU's names by their letters, of a GeForce also without its series."""
    spelled: dict[str, dict[str, str]] = {}
    for name in gpu_names():
        for text in (name, *_aliases(name)):
            letters = _letters(text)
            bare = _SERIES.sub("", letters) if _SERIES.match(name.replace("-", "")) else letters
            for one in (letters, bare):
                spelled.setdefault(one, {}).setdefault(name, text)
    return {letters: next(iter(of.values())) for letters, of in spelled.items() if len(of) == 1}


def _asked_by_words(text: str) -> str | None:
    """Return the name of the GPU of which a text says every word, and besides only its mount and memory."""
    gpu = text if text in gpu_names() else match_gpu(text)
    if gpu is None or gpu == text:
        return gpu
    asked = _read_name(text)
    bare = _bare_size(asked, gpu)
    size_gb = asked.size_gb or bare
    alike = [name for name, of in _spellings() if _model(of) == _model(gpu) and name.words <= asked.words]
    own_sizes = {name.size_gb for name, of in _spellings() if of == gpu}
    if size_gb and size_gb not in own_sizes and abs(size_gb / _memory_gb(gpu) - 1.0) > ANOTHERS:
        return None
    size_word = {f"{bare:g}"} if bare else set()
    more = (asked.words - name.words - size_word for name in alike)
    return gpu if any(all(_HARMLESS.fullmatch(word) for word in words) for words in more) else None


def variant_notes(text: str | None) -> list[str]:
    """Return a note on a name that several GPUs could mean: which is taken, and the others.

    Others are those whose names hold all its words, but other models of a series (``Ti``, ``Laptop``).

    >>> variant_notes("H100")
    ['gpu: H100 taken as h100-sxm (others: h100-nvl, h100-pcie)']
    >>> variant_notes("h100-sxm"), variant_notes("NVIDIA H100 80GB HBM3"), variant_notes(None)
    ([], [], [])
    """
    gpu = asked_gpu(text) if text else None
    if text is None or gpu is None or gpu == text:
        return []
    asked, taken = _read_name(_as_spelled(text)), _read_name(gpu)
    others = [name for name in gpu_names() if name != gpu and _could_mean(asked, _read_name(name))]
    states_all = taken.words <= asked.words and asked.size_gb == taken.size_gb
    return [f"gpu: {text} taken as {gpu} (others: {', '.join(others)})"] if others and not states_all else []


def _could_mean(asked: _Name, name: _Name) -> bool:
    """Return whether a name says what was asked, and besides only how the GPU is mounted or its memory."""
    more = name.words - asked.words
    same_size = asked.size_gb is None or name.size_gb in {None, asked.size_gb}
    return asked.words <= name.words and same_size and all(_HARMLESS.fullmatch(word) for word in more)


def nearest_gpus(text: str) -> list[str]:
    """Return the names nearest to one that is no GPU's: those that begin so, then those most like it.

    >>> nearest_gpus("h100-pci")[0], nearest_gpus("l40-s")[0], nearest_gpus("mi300x-foo")[0]
    ('h100-pcie', 'l40s', 'mi300x')
    """
    asked = text.strip().lower()
    begun = [name for name in gpu_names() if len(asked) > 1 and name.startswith(asked)]
    alike = difflib.get_close_matches(asked, gpu_names(), n=_NEAREST, cutoff=_ALIKE)
    near = list(dict.fromkeys([*begun, *alike]))[:_NEAREST]
    tolerated = match_gpu(text)
    return near if tolerated is None or tolerated in near else [*near[: _NEAREST - 1], tolerated]


def _is_another(more: frozenset[str], gpu: str) -> bool:
    """Return whether words beyond a GPU's name make it another GPU."""
    own_mount = _MOUNTS & _read_name(gpu).words
    return any(_SUFFIX.fullmatch(word) for word in more) or bool(own_mount and more & _MOUNTS)


def _model(gpu: str) -> str:
    """Return a GPU's name without its memory size."""
    return re.sub(r"-\d+gb$", "", gpu)


def _variants(gpu: str) -> Sequence[str]:
    """Return the GPUs whose names differ in memory size only."""
    return [n for n in gpu_names() if _model(n) == _model(gpu)]


def _bare_size(asked: _Name, gpu: str) -> float | None:
    """Return a memory size written without its unit, as in A100-80-PCIe. [GB]"""
    sizes = {name.size_gb for name, of in _spellings() if name.size_gb and _model(of) == _model(gpu)}
    return next((float(w) for w in asked.words if w.isdigit() and float(w) in sizes), None)


@cache
def _memory_gb(gpu: str) -> float:
    text = (resources.files(__package__) / "gpus" / f"{gpu}.toml").read_text("utf-8")
    number = tomli.loads(text).get("memory", {}).get("memory_bytes", {})
    return float(number.get("value", "nan")) / 2**30


def _nearest_in_memory(gpu: str, size_gb: float) -> str:
    """Return the GPU nearest in memory size, by ratio, among those whose names differ in it only."""
    variants = _variants(gpu)
    if len(variants) == 1 or math.isnan(size_gb):
        return gpu
    apart = {n: abs(math.log(_memory_gb(n) / size_gb)) for n in variants}
    return min((n for n in variants if math.isfinite(apart[n])), key=lambda n: apart[n], default=gpu)
