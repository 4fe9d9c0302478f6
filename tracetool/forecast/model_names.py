"""Models by name: sizes their authors publish, in ``models.toml``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import tomli

from tracetool.core.errors import BadInput


@cache
def named_models() -> Mapping[str, Mapping[str, Any]]:
    """Return the fields of each model that has a name, by name."""
    return tomli.loads(files(__package__).joinpath("models.toml").read_text("utf-8"))


#: What follows a model's name where it was trained further: weights differ, sizes do not.
_TRAINED_FURTHER: Final = ("-instruct", "-thinking", "-chat", "-it", "-hf")
#: Digits of a date, year and month or month and day, at the end of a name.
_DATE: Final = 4


def resolved(name: str) -> str:
    """Return the name of ``models.toml`` for one as publishers write it: any case, their own name before it.

    Endings of models that were trained further, and dates, are left out where the whole name is not known.

    Examples
    --------
    >>> resolved("meta-llama/Llama-3.1-70B-Instruct"), resolved("Qwen3-8B"), resolved("no/such-model")
    ('llama-3.1-70b', 'qwen3-8b', 'such-model')
    """
    key = name.strip().lower()
    key = key if key in named_models() else key.rpartition("/")[2]
    while key not in named_models():
        shorter = _without_ending(key)
        if shorter == key:
            break
        key = shorter
    return key


def _without_ending(key: str) -> str:
    head, _, date = key.rpartition("-")
    if head and len(date) == _DATE and date.isdigit():
        return head
    return next((key.removesuffix(end) for end in _TRAINED_FURTHER if key.endswith(end)), key)


def fields_of(name: str) -> Mapping[str, Any]:
    """Return the fields of a named model; see :func:`resolved`.

    Raises
    ------
    BadInput
        If there is none of that name; the nearest are listed.
    """
    models = named_models()
    key = resolved(name)
    if key not in models:
        near = difflib.get_close_matches(key[:100], models, n=4, cutoff=0.5) or sorted(models)
        raise BadInput(
            f"{name[:100]}: no such file, and no model of that name",
            f"give a config.json or a name such as {', '.join(near[:8])}",
        )
    return models[key]
