"""The shape of a file of ``architectures/``, and the registry of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from tracetool.core.registry import members
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.transformers_eager import Prompt


@dataclass(frozen=True)
class Architecture:
    """An architecture: the configurations it reads, and how.

    Parameters
    ----------
    types : tuple of str
        Values of ``model_type``, or of ``_class_name`` of a pipeline's transformer.
    read : callable
        Makes the model of a configuration and a name.
    eager : callable, optional
        Adds the operators of a batch of prompts as the transformers library runs them.
    """

    types: tuple[str, ...]
    read: Callable[[Config, str], Model]
    eager: Callable[[Graph, Config, Prompt], None] | None = None


@cache
def architectures() -> Mapping[str, Architecture]:
    """Return the architecture of each ``model_type``."""
    folder = f"{__name__.rpartition('.')[0]}.architectures"
    return {kind: one for one in members(folder, "ARCHITECTURE", Architecture).values() for kind in one.types}
