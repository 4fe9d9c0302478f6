"""Which GPU a name or a device string means; of the boards' files only their names are read."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources

#: Words a device string carries that do not tell boards apart.
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
    """Return a board's other names: they stand before the first section, so the rest need not be parsed."""
    text = (resources.files(__package__) / "gpus" / f"{name}.toml").read_text("utf-8")
    return list(tomllib.loads(re.split(r"(?m)^\[", text, maxsplit=1)[0]).get("aliases", ()))


@cache
def _spellings() -> tuple[tuple[tuple[str, ...], str], ...]:
    found = [(_words(n), n) for n in gpu_names()]
    found += [(_words(a), n) for n in gpu_names() for a in _aliases(n)]
    return tuple(found)


def match_gpu(device: str) -> str | None:
    """Return the name of the GPU a device string means, or None if no rule knows it.

    Case, punctuation and makers' words are ignored. A string that says more than an alias
    (a memory size, a driver's suffix) still matches when every word of the alias is in it;
    the alias with the most words wins, and a tie between boards is no match.

    >>> match_gpu("NVIDIA A100-SXM4-80GB"), match_gpu("Tesla V100-SXM2-16GB"), match_gpu("Voodoo 2")
    ('a100-sxm', 'v100-sxm2-16gb', None)
    """
    asked = _words(device)
    if not asked:
        return None
    exact = {n for words, n in _spellings() if words == asked}
    if len(exact) == 1:
        return exact.pop()
    held = [(len(words), n) for words, n in _spellings() if words and set(words) <= set(asked)]
    if not held:
        return None
    longest = max(size for size, _ in held)
    best = {n for size, n in held if size == longest}
    return best.pop() if len(best) == 1 else None
