"""A folder is the registry: its modules, or one of each package in it, define a constant of one type."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import Protocol, TypeVar


class Named(Protocol):
    """An object that has a name."""

    @property
    def name(self) -> str:
        """Name of the object."""


T = TypeVar("T")
N = TypeVar("N", bound=Named)


@cache
def _modules(package: str) -> tuple[tuple[str, ModuleType], ...]:
    names = sorted(m.name for m in _children(package) if not m.name.startswith("_"))
    return tuple((name, importlib.import_module(f"{package}.{name}")) for name in names)


def _children(package: str) -> list[pkgutil.ModuleInfo]:
    return list(pkgutil.iter_modules(importlib.import_module(package).__path__))


@cache
def packages(parent: str, folder: str) -> tuple[str, ...]:
    """Return the dotted names of the plug-in folders called ``folder`` inside the packages of ``parent``.

    Parameters
    ----------
    parent : str
        Dotted name of a package, e.g. ``tracetool.sources``.
    folder : str
        Name of the folder each of its packages may have, e.g. ``formats``.
    """
    inside = [f"{parent}.{child.name}" for child in _children(parent) if child.ispkg]
    return tuple(f"{name}.{folder}" for name in inside if any(c.name == folder for c in _children(name)))


def members_inside(parent: str, folder: str, constant: str, kind: type[T]) -> dict[str, T]:
    """Return the plug-ins of every folder called ``folder`` in the packages of ``parent``, by file name.

    Raises
    ------
    TypeError
        As :func:`members`, and if two files have one name.
    """
    plugins: dict[str, T] = {}
    for package in packages(parent, folder):
        for name, plugin in members(package, constant, kind).items():
            if name in plugins:
                raise TypeError(f"{package}.{name}: another package of {parent} has a plug-in of that name")
            plugins[name] = plugin
    return plugins


@cache
def constants_inside(parent: str, constant: str, kind: type[N], *, module: str = "") -> tuple[N, ...]:
    """Return a constant of the modules in the packages of ``parent``, a tuple of plug-ins each.

    Parameters
    ----------
    parent : str
        Dotted name of a package, e.g. ``tracetool.families``.
    constant : str
        Name of the constant, e.g. ``LAWS``: a tuple of objects that have a ``name``.
    kind : type
        Type of each.
    module : str
        The module of each package that must define it; by default any of its modules may.

    Raises
    ------
    TypeError
        If a package does not define it, holds something else in it, or two plug-ins have one name.
    """
    plugins: dict[str, N] = {}
    for child in (c for c in _children(parent) if c.ispkg):
        package = f"{parent}.{child.name}"
        for name, one in _modules(package):
            if module not in {"", name}:
                continue
            values = getattr(one, constant, None if module else ())
            if not isinstance(values, tuple) or not all(isinstance(value, kind) for value in values):
                raise TypeError(f"{package}.{name} must define {constant}: tuple of {kind.__name__}")
            for value in values:
                if (key := value.name) in plugins:
                    raise TypeError(f"{package}.{name}: {constant} has a second {key!r}")
                plugins[key] = value
        if module and module not in {name for name, _ in _modules(package)}:
            raise TypeError(f"{package} must have a module {module} that defines {constant}")
    return tuple(plugins.values())


def members(package: str, constant: str, kind: type[T]) -> dict[str, T]:
    """Return the plug-ins of a folder by file name.

    Parameters
    ----------
    package : str
        Dotted name of the folder, e.g. ``tracetool.report.renderers``.
    constant : str
        Name every file must define, e.g. ``RENDERER``.
    kind : type
        Type the constant must have.

    Raises
    ------
    TypeError
        If a file in the folder does not define it: a fault of ours, caught by the tests.
    """
    plugins: dict[str, T] = {}
    for name, module in _modules(package):
        value = getattr(module, constant, None)
        if not isinstance(value, kind):
            raise TypeError(f"{package}.{name} must define {constant}: {kind.__name__}")
        plugins[name] = value
    return plugins
