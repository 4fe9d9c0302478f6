"""Settings of a project: ``tracetool.toml``, or ``[tool.tracetool]`` in ``pyproject.toml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import tomli

from tracetool.compare.run_options import RunOptions, basis_named, compared_by
from tracetool.compare.spread import Spread
from tracetool.compare.thresholds import METRICS, Threshold, parse_thresholds
from tracetool.core.errors import BadInput
from tracetool.core.paths import small_text

FILES: Final = ("tracetool.toml", "pyproject.toml")
#: A spread a project states itself is taken as well known.
_STATED_WORTH: Final = 30.0
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*%")


class _Raw(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    """The settings as written."""

    fail_on: list[str] = []
    ignore: list[str] = []
    gpu: str | None = None
    clock_mhz: float | None = None
    mem_clock_mhz: float | None = None
    power_cap_w: float | None = None
    energy: str = "auto"
    by: str | None = None
    depth: int | None = None
    baseline: str | None = None
    branch: str = "main"
    last: int = 10
    strict: bool = False
    spread: dict[str, str] = {}
    base: list[str] = []
    head: list[str] = []
    out: list[str] = []


@dataclass(frozen=True)
class Settings:
    """The settings, checked; ``file`` is the file they come from (None: defaults)."""

    file: Path | None = None
    thresholds: tuple[Threshold, ...] = ()
    ignore: tuple[str, ...] = ()
    options: RunOptions = field(default_factory=RunOptions)
    baseline: str | None = None
    branch: str = "main"
    last: int = 10
    strict: bool = False
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    base: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    out: tuple[str, ...] = ()


def find_settings(start: Path) -> Path | None:
    """Return the nearest settings file of a folder or its parents: the first that holds settings."""
    for folder in (start.absolute(), *start.absolute().parents):
        for name in FILES:
            file = folder / name
            if file.is_file() and (name == FILES[0] or "tracetool" in _tools(file)):
                return file
    return None


def _tools(file: Path) -> Mapping[str, Any]:
    tools = _load(file).get("tool", {})
    return tools if isinstance(tools, dict) else {}


def _load(file: Path) -> Mapping[str, Any]:
    try:
        return tomli.loads(small_text(file))
    except (ValueError, RecursionError) as error:
        raise BadInput.in_file(file, f"cannot be read as TOML: {error}", "see docs/ci.md") from error


def read_settings(file: Path | None) -> Settings:
    """Return the settings of a file; the defaults for None.

    Raises
    ------
    BadInput
        If the file is not TOML, or holds an unknown name or a value of the wrong kind.
    """
    if file is None:
        return Settings()
    raw: Any = _load(file)
    if file.name == "pyproject.toml":
        raw = _tools(file).get("tracetool", {})
    try:
        stated = msgspec.convert(raw, _Raw)
    except msgspec.ValidationError as error:
        raise BadInput.in_file(file, f"settings: {error}", "see docs/ci.md for the names") from error
    if stated.last < 1:
        raise BadInput.in_file(file, "settings: last must be 1 or more")
    return Settings(
        file,
        parse_thresholds(stated.fail_on),
        tuple(stated.ignore),
        RunOptions(
            basis_named(stated.energy),
            stated.gpu,
            stated.clock_mhz,
            stated.mem_clock_mhz,
            stated.power_cap_w,
            compared_by(stated.by, stated.depth),
            stated.depth,
        ),
        stated.baseline,
        stated.branch,
        stated.last,
        stated.strict,
        {key: _spread(file, key, text) for key, text in stated.spread.items()},
        tuple(_from(file, p) for p in stated.base),
        tuple(_from(file, p) for p in stated.head),
        tuple(stated.out),
    )


def _from(file: Path, path: str) -> str:
    """Return a path of the settings as seen from their folder."""
    return path if "://" in path or Path(path).is_absolute() else str(file.parent / path)


def _spread(file: Path, key: str, text: str) -> Spread:
    metric = key.rpartition(":")[2]
    percent = _PERCENT.fullmatch(text.strip())
    if metric not in METRICS or not percent:
        raise BadInput.in_file(file, f"settings: spread {key} = {text!r}", 'write spread.energy = "0.8%"')
    return Spread(float(percent.group(1)) / 100.0, _STATED_WORTH, f"the stated spread of {text.strip()}")
