"""Models by name: sizes their authors publish, in ``models.toml``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import tomli

from tracetool.core.errors import BadInput


@cache
def named_models() -> Mapping[str, Mapping[str, Any]]:
    """Return the fields of each model that has a name, by name."""
    return tomli.loads(files(__package__).joinpath("models.toml").read_text("utf-8"))


def fields_of(name: str) -> Mapping[str, Any]:
    """Return the fields of a named model.

    Raises
    ------
    BadInput
        If there is none of that name; the nearest are listed.
    """
    models = named_models()
    key = name.strip().lower()
    if key not in models:
        near = difflib.get_close_matches(key[:100], models, n=4, cutoff=0.5) or sorted(models)
        raise BadInput(
            f"{name[:100]}: no such file, and no model of that name",
            f"give a config.json or a name such as {', '.join(near[:8])}",
        )
    return models[key]
