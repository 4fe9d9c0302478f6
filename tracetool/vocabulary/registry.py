"""A folder is the registry: every module in it defines one constant of one type."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


@cache
def _modules(package: str) -> tuple[tuple[str, ModuleType], ...]:
    root = importlib.import_module(package)
    names = sorted(m.name for m in pkgutil.iter_modules(root.__path__) if not m.name.startswith("_"))
    return tuple((name, importlib.import_module(f"{package}.{name}")) for name in names)


def members(package: str, constant: str, kind: type[T]) -> dict[str, T]:
    """Return the plug-ins of a folder by file name.

    Parameters
    ----------
    package : str
        Dotted name of the folder, e.g. ``tracetool.families.members``.
    constant : str
        Name every file must define, e.g. ``FAMILY``.
    kind : type
        Type the constant must have.

    Raises
    ------
    TypeError
        If a file in the folder does not define it: a fault of ours, caught by the tests.
    """
    found: dict[str, T] = {}
    for name, module in _modules(package):
        value = getattr(module, constant, None)
        if not isinstance(value, kind):
            raise TypeError(f"{package}.{name} must define {constant}: {kind.__name__}")
        found[name] = value
    return found
