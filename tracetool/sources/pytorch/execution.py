"""Operators of an execution trace, as PyTorch's observer and Chakra write them: shapes and types, no times.

Schemas: ``torch/csrc/profiler/standalone/execution_trace_observer.cpp`` (JSON) and mlcommons/chakra's
``schema/protobuf/et_def.proto`` (messages behind their lengths).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from tracetool.sources.io.protobuf import BrokenMessage, Message, varint

#: Chakra's converter divides a call at what it launches: ``aten::copy_(0)``, ``aten::copy_(1)``.
_PART = re.compile(r"\(\d+\)$")
_TENSOR = re.compile(r"^Tensor\((.*)\)$")
SCHEMA: dict[str, pl.DataType] = {
    "record_function": pl.Int64(), "name": pl.String(), "input_dims": pl.String(), "input_types": pl.String(),
    "concrete_inputs": pl.String(),
}  # fmt: skip


class _Node(msgspec.Struct):
    name: Any = None
    inputs: Any = None  # a list in the first schema, where shapes stand beside it
    input_shapes: Any = None
    input_types: Any = None
    attrs: Any = None
    rf_id: Any = None


class _Document(msgspec.Struct):
    schema: Any = None
    nodes: list[_Node] = []


def read_json(raw: bytes) -> pl.DataFrame:
    """Return the operators of an observer's file.

    Raises
    ------
    ValueError
        If it is no JSON of this kind.
    """
    document = msgspec.json.decode(raw, type=_Document)
    return _table(_of_node(node) for node in document.nodes)


def _of_node(node: _Node) -> tuple[Any, Any, Any, Any, Any]:
    if isinstance(node.inputs, dict):
        values, shapes, types = (node.inputs.get(k) for k in ("values", "shapes", "types"))
    else:
        values, shapes, types = node.inputs, node.input_shapes, node.input_types
    number = node.rf_id
    for attribute in node.attrs if isinstance(node.attrs, list) else ():
        if isinstance(attribute, dict) and attribute.get("name") == "rf_id":
            number = attribute.get("value")
    return number, node.name, values, shapes, types


def read_protobuf(raw: bytes) -> pl.DataFrame:
    """Return the operators of a Chakra file.

    Raises
    ------
    BrokenMessage
        If it is cut short or damaged.
    """
    return _table(_of_messages(memoryview(raw)))


def _of_messages(raw: memoryview) -> Iterator[tuple[Any, Any, Any, Any, Any]]:
    at = 0
    while at < len(raw):
        size, at = varint(raw, at)
        if at + size > len(raw):
            raise BrokenMessage(f"a node reaches beyond the end at byte {at}")
        node, at = Message(raw[at : at + size]), at + size
        inputs, number = node.message(8), None
        for attribute in node.messages(10):
            if attribute.text(1) == "rf_id":
                number = max(attribute.number(9), attribute.number(13))
        if inputs is not None:
            yield number, node.text(2), *(_literal(inputs.text(i)) for i in (1, 2, 3))


def _literal(text: str) -> Any:
    """Return a list as Python or JSON writes it, None for anything else."""
    if len(text) > 1 << 16:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _table(nodes: Iterable[tuple[Any, Any, Any, Any, Any]]) -> pl.DataFrame:
    rows = [
        {
            "record_function": number, "name": _PART.sub("", name), "input_dims": json.dumps(shapes),
            "input_types": json.dumps([_type(t) for t in types]),
            "concrete_inputs": json.dumps(_scalars(values, shapes, types)),
        }
        for number, name, values, shapes, types in nodes
        if _is_number(number) and isinstance(name, str)
        and isinstance(shapes, list) and isinstance(types, list) and shapes
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=SCHEMA)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 62


def _type(spelled: Any) -> str:
    """Return a type as the profiler spells it."""
    text = spelled if isinstance(spelled, str) else ""
    tensor = _TENSOR.match(text)
    if tensor:
        return tensor[1]
    return "Scalar" if text in ("Int", "Double", "Bool") else "TensorList" if "Tensor(" in text else ""


def _scalars(values: Any, shapes: Sequence[Any], types: Sequence[Any]) -> list[str]:
    """Return scalars as text, "" for tensors, as the profiler's JSON has them."""
    listed = values if isinstance(values, list) else []
    scalars = []
    for i in range(len(shapes)):
        kind = types[i] if i < len(types) else ""
        value = listed[i] if i < len(listed) else ""
        scalars.append("" if "Tensor" in str(kind) or value == "<None>" else str(value))
    return scalars


def state_shapes(operators: pl.DataFrame, stated: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Return a profile's operators with the shapes an execution trace states, and how many it stated.

    Parameters
    ----------
    operators : DataFrame
        With ``name`` and ``record_function``, the number both files give a call.
    stated : DataFrame
        Columns of :data:`SCHEMA`.

    Notes
    -----
    Only calls of the same name are joined: the numbers of another run would join anything.
    """
    columns = ("input_dims", "input_types", "concrete_inputs")
    if not operators.height or "record_function" not in operators.columns:
        return operators, 0
    calls = stated.unique(["record_function", "name"], keep="first", maintain_order=True)
    once = calls.unique("record_function", keep="none", maintain_order=True)
    names = pl.col("name").cast(pl.String)
    joined = operators.select(names, pl.col("record_function").cast(pl.Int64)).join(
        once, on=["record_function", "name"], how="left", maintain_order="left"
    )
    recorded = {c: operators[c].cast(pl.String) if c in operators.columns else None for c in columns}
    unknown = pl.Series([True] * operators.height)
    if (dims := recorded["input_dims"]) is not None:
        unknown = dims.is_null()
    newly_known = unknown & joined["input_dims"].is_not_null()
    filled = []
    for c in columns:
        values = recorded[c]
        base = pl.lit(None, dtype=pl.String) if values is None else pl.lit(values)
        filled.append(pl.when(pl.lit(newly_known)).then(pl.lit(joined[c])).otherwise(base).alias(c))
    return operators.with_columns(filled), int(newly_known.sum())


def add_stated_shapes(stated: Mapping[str, pl.DataFrame], profiles: Sequence[Any]) -> list[str]:
    """State the shapes of execution traces in the profiles of the same run, in place; return what was joined.

    Parameters
    ----------
    stated : mapping of str to DataFrame
        Operators by the file's name.
    profiles : sequence of Trace
        Those with operators of their own.
    """
    notes = []
    for name, table in stated.items():
        total = 0
        for profile in profiles:
            profile.operators, stated_count = state_shapes(profile.operators, table)
            total += stated_count
        notes.append(
            f"{name}: states the shapes of {total:,} calls of operators"
            if total
            else f"{name}: no call of an operator has its number and name: another run's, or shapes are known"
        )
    return notes
