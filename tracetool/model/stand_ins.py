"""Whether an implementation ran a row, or is used in place of a kernel that was not measured (a stand-in).

A table may name a kernel of a known library that no implementation was fitted for: FlashAttention 4 where
FlashAttention 3 was measured. The nearest implementation of the library is then used in its place, with the
bounds found where implementations were left out and predicted by others. ``kernel_words.toml`` lists the
words by which a name is recognized.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

import tomli

from tracetool.families.implementations import Implementation, words_of


def kernels_of(name: str) -> frozenset[str]:
    """Return the kernels that a name refers to; empty where it refers to none.

    >>> sorted(kernels_of("vllm_flash_attn_fa4")), sorted(kernels_of("vllm_flashinfer_trtllmdecode"))
    (['flashattention', 'flashattention4'], ['trtllm'])
    >>> sorted(kernels_of("torch_flow_flashinfer")), sorted(kernels_of("torch_flow"))
    (['flashinfer'], [])
    """
    return _stated_kernels(name, _words()["kernels"]) or _stated_kernels(name, _words()["carriers"])


def stands_in(one: Implementation, called: str) -> bool:
    """Return whether a name refers to another kernel than the implementation's, which stands in for it."""
    named = kernels_of(called)
    if not named or called in one.names:
        return False
    of_implementation = frozenset().union(*map(kernels_of, (one.name, *one.names)))
    return not named <= of_implementation


def unlike(one: Implementation, called: str) -> bool:
    """Return whether a name refers to a kernel that shares no word with the implementation's.

    FlashAttention 3 shares one with FlashAttention 4, CUTLASS none with DeepGEMM.
    """
    of_implementation = frozenset().union(*map(kernels_of, (one.name, *one.names)))
    return stands_in(one, called) and not kernels_of(called) & of_implementation


def same_kernels(one: Implementation, called: str) -> bool:
    """Return whether an implementation's kernels are exactly those that a name refers to."""
    named = _stated_kernels(called, _words()["kernels"])
    return bool(named) and any(kernels_of(name) == named for name in (one.name, *one.names))


def _stated_kernels(name: str, words: Mapping[str, list[str]]) -> frozenset[str]:
    joined = words_of(name).replace("_", "")
    return frozenset(
        kernel for kernel, spellings in words.items() if any(word in joined for word in spellings)
    )


@cache
def _words() -> dict[str, dict[str, list[str]]]:
    return tomli.loads(resources.files(__package__).joinpath("kernel_words.toml").read_text("utf-8"))
