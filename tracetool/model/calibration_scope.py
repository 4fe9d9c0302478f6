"""Which implementations a user's own calibration was fitted to: rows of others keep the delivered ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tracetool.families.implementations import library_of, words_of
from tracetool.families.pricing import laws
from tracetool.hardware.coefficient_files import CalibrationFile


def fitted_to(file: CalibrationFile) -> Mapping[str, frozenset[str]]:
    """Return by law the implementations a file was fitted to; laws that state none serve every row."""
    stated = {name: file.about.get(f"fitted_to_{name}") for name in laws()}
    return {name: frozenset(text.split(", ")) for name, text in stated.items() if isinstance(text, str)}


def ran_by(stack: str, name: str) -> str:
    """Return a library and its implementation in the form calibrations name them; "" for neither.

    >>> ran_by("vLLM 0.24.0", "flash-attn FA3"), ran_by("vllm 0.22", ""), ran_by("", "")
    ('vllm/flash_attn_fa3', 'vllm/', '')
    """
    return f"{library_of(stack)}/{words_of(name)}" if stack or name else ""


def may_match_fitted(stack: str, name: str, fitted_names: Collection[str]) -> bool:
    """Return whether rows of a library and an implementation may be among those fitted; "" matches any.

    >>> may_match_fitted("vllm 0.22", "flash_attn_fa3", {"vllm/flash_attn_fa3"})
    True
    >>> may_match_fitted("sglang", "", {"vllm/flash_attn_fa3"})
    False
    """
    stated = ran_by(stack, name).partition("/")[::2]
    pairs = (one.partition("/")[::2] for one in fitted_names)
    return any(all(not a or not b or a == b for a, b in zip(stated, pair, strict=True)) for pair in pairs)
