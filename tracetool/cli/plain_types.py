"""Arguments that need no conversion, spared the library Typer loads for those that do.

Text, paths and switches are what they are. Typer hands them to pydantic all the same, whose import takes as
long as half of polars' and a tenth of a short read. Where its inner workings are others than known here,
everything is left to it.
"""

from __future__ import annotations

import os
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

if TYPE_CHECKING:
    from typer.models import ParameterInfo


def spare(command: Any, above: Any = None) -> None:
    """Let a command and its subcommands take plain arguments as they are, in place.

    Parameters
    ----------
    command : click.Command
        Typer's, whole.
    above : click.Context, optional
        The context of the group it belongs to.
    """
    try:
        from typer._coercion import RuntimeParam, build_runtime_param

        called = [list(signature(f).parameters) for f in (RuntimeParam._coerce_value, build_runtime_param)]
    except (ImportError, AttributeError):  # another release
        return
    if called != [["self", "value", "param", "ctx"], ["descriptor"]]:
        return  # or it would fail at the first argument

    class Plain(RuntimeParam):
        """Takes plain values as they are and leaves all others to Typer."""

        def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
            made = plain_value(value, self.annotation, self.parameter_info)
            if made is None:
                return build_runtime_param(param.type_descriptor)._coerce_value(value, param=param, ctx=ctx)
            return made

    try:
        context = command.context_class(command, parent=above, **command.context_settings)
        for param in command.get_params(context):  # --help among them, which it makes when first asked
            if hasattr(param, "_runtime_param"):
                said = param.type_descriptor
                param._runtime_param = Plain(said.parameter_info, said.annotation)
    except (AttributeError, TypeError):
        return
    for below in getattr(command, "commands", {}).values():
        spare(below, context)


def plain_value(value: Any, kind: Any, info: ParameterInfo) -> Any:
    """Return a value that is of its kind already, None where it must be converted or looked at.

    Parameters
    ----------
    value : object
        As given on the command line, or the default.
    kind : type
        What the command declares.
    info : ParameterInfo
        What else it asks of the value.
    """
    if info.parser is not None:
        return None
    if get_origin(kind) is list and isinstance(value, list | tuple):
        made = [plain_value(v, get_args(kind)[0], info) for v in value]
        return None if any(m is None for m in made) else made
    if kind is Path and isinstance(value, str | Path):
        return _plain_path(value, info)
    if kind not in (str, bool, int, float) or type(value) is not kind:
        return None
    if (info.min is not None and value < info.min) or (info.max is not None and value > info.max):
        return None
    return value


def _plain_path(value: str | Path, info: ParameterInfo) -> Path | None:
    asked = info.exists or info.resolve_path or info.writable or info.allow_dash or info.path_type is not None
    if asked or not (info.file_okay and info.dir_okay):
        return None
    path = Path(value)
    return None if path.exists() and info.readable and not os.access(path, os.R_OK) else path
