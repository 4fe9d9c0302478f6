"""Operators of a compiled XLA module: shapes, formats, products and convolutions (``xla/service/hlo.proto``).

A kernel states the instruction it runs (``hlo_op``), not its operands. They stand in the module, which the
profile holds beside the events. Products and convolutions, alone, within a fusion or as a library's call, are
stated in the order of JAX's primitives: ``dot_general`` of (batch, m, k) and (batch, k, n),
``conv_general_dilated`` of (batch, channels, space) and (filters, channels, space).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tracetool.sources.io.protobuf import Message

#: ``PrimitiveType`` of ``xla_data.proto`` as number formats.
_FORMATS = {
    1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "int16", 8: "int32", 9: "int64",
    10: "fp16", 11: "fp32", 12: "fp64", 15: "complex64", 16: "bf16", 18: "complex128", 19: "fp8", 20: "fp8",
    21: "int4", 22: "int4", 23: "fp8", 24: "fp8", 25: "fp8", 28: "fp8", 29: "fp8",
}  # fmt: skip
_TUPLE = 13
#: Of HloInstructionProto.
_NAME, _OPCODE, _SHAPE, _METADATA, _WINDOW, _CONVOLUTION = 1, 2, 3, 7, 15, 16
_TARGET, _DOT, _ID, _OPERANDS, _CALLED, _CONFIG, _GROUPS = 28, 30, 35, 36, 38, 43, 50
_NUMBERED = re.compile(r"(?:\.\d+)+$")


@dataclass(frozen=True)
class Shape:
    """Sizes and number format of an array; a tuple's are those of its first array."""

    sizes: tuple[int, ...]
    format: str

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)


@dataclass(frozen=True)
class Operator:
    """Work that an instruction states, as the columns of ``operators``.

    Parameters
    ----------
    name : str
        ``xla::`` and JAX's primitive of products and convolutions, else the instruction without its number.
    path : str
        Where the program calls it: ``jit(f)/jvp(Model)/Dense_0/dot_general``.
    dims, types, scalars : str
        Sizes and formats per operand and scalar arguments, as JSON.
    """

    name: str
    path: str
    dims: str
    types: str
    scalars: str


@dataclass(frozen=True)
class _Instruction:
    stated: Message
    shape: Shape

    @property
    def opcode(self) -> str:
        return self.stated.text(_OPCODE)


def operators(raw: memoryview) -> dict[str, Operator]:
    """Return the operators of a module by the name of their instruction.

    Parameters
    ----------
    raw : memoryview
        An ``HloProto``.

    Raises
    ------
    BrokenMessage
        If it is damaged.
    """
    module = Message(raw).message(1)
    if module is None:
        return {}
    computations = {c.number(5): _instructions(c) for c in module.messages(3)}
    listed: dict[str, Operator] = {}
    for instructions in computations.values():
        for instruction in instructions.values():
            name = instruction.stated.text(_NAME)
            if instruction.opcode not in ("parameter", "constant", "tuple", "get-tuple-element", "bitcast"):
                listed[name] = _operator(name, instruction, instructions, computations)
    return listed


def _instructions(computation: Message) -> dict[int, _Instruction]:
    stated = computation.messages(2)
    return {i.number(_ID): _Instruction(i, _shape(i.message(_SHAPE))) for i in stated}


def _shape(stated: Message | None, depth: int = 0) -> Shape:
    if stated is None:
        return Shape((), "")
    if stated.number(2) == _TUPLE and depth < 4:
        return _shape(next(stated.messages(4), None), depth + 1)
    return Shape(tuple(stated.numbers(3)), _FORMATS.get(stated.number(2), ""))


def _operator(
    name: str, instruction: _Instruction, beside: dict[int, _Instruction],
    computations: dict[int, dict[int, _Instruction]],
) -> Operator:  # fmt: skip
    metadata = instruction.stated.message(_METADATA)
    path = metadata.text(2) if metadata else ""
    for inner, around in ((instruction, beside), *_within(instruction, computations)):
        stated = _product(inner, around) or _convolution(inner, around)
        if stated is not None:
            primitive, shapes, scalars = stated
            return Operator(f"xla::{primitive}", path, *_as_json(shapes, scalars))
    shapes = [s for s in _operands(instruction, beside) if s.format]
    return Operator(f"xla::{_NUMBERED.sub('', name)}", path, *_as_json(shapes, ()))


def _within(
    instruction: _Instruction, computations: dict[int, dict[int, _Instruction]]
) -> Iterator[tuple[_Instruction, dict[int, _Instruction]]]:
    """Yield the instructions fused into one."""
    if instruction.opcode != "fusion":
        return
    for number in instruction.stated.numbers(_CALLED):
        around = computations.get(number, {})
        yield from ((inner, around) for inner in around.values())


def _operands(instruction: _Instruction, beside: dict[int, _Instruction]) -> list[Shape]:
    numbers = instruction.stated.numbers(_OPERANDS)
    return [beside[n].shape for n in numbers if n in beside]


Stated = tuple[str, Sequence[Shape], Sequence[str]]


def _as_json(shapes: Sequence[Shape], scalars: Sequence[str]) -> tuple[str, str, str]:
    count = max(len(shapes), len(scalars))
    dims = [list(s.sizes) for s in shapes] + [[]] * (count - len(shapes))
    types = [s.format for s in shapes] + [""] * (count - len(shapes))
    return json.dumps(dims), json.dumps(types), json.dumps([*scalars]) if scalars else "[]"


def _product(instruction: _Instruction, beside: dict[int, _Instruction]) -> Stated | None:
    """Return a product's operands as (batch, m, k) and (batch, k, n)."""
    target = instruction.stated.text(_TARGET)
    if instruction.opcode == "dot":
        stated = instruction.stated.message(_DOT)
        numbers = [stated.numbers(i) for i in (1, 2, 3, 4)] if stated else None
    elif instruction.opcode == "custom-call" and target.startswith("__cublas"):
        numbers = _library_numbers(instruction.stated.text(_CONFIG))
    else:
        return None
    operands = _operands(instruction, beside)
    if numbers is None or len(operands) < 2:
        return None
    first, second = operands[:2]
    left_k, right_k, left_b, right_b = numbers
    if not _within_rank(first, left_k + left_b) or not _within_rank(second, right_k + right_b):
        return None
    k = math.prod(first.sizes[i] for i in left_k)
    batch = math.prod(first.sizes[i] for i in left_b)
    if k != math.prod(second.sizes[i] for i in right_k) or not batch or not k:
        return None
    m, n = first.elements // (batch * k), second.elements // (batch * k)
    return "dot_general", (Shape((batch, m, k), first.format), Shape((batch, k, n), second.format)), ()


def _within_rank(shape: Shape, axes: Sequence[int]) -> bool:
    return all(0 <= axis < len(shape.sizes) for axis in axes)


def _library_numbers(config: str) -> list[list[int]] | None:
    """Return the axes that a library's product contracts and batches, as its JSON states them."""
    try:
        stated: Any = json.loads(config)
        stated = stated.get("gemm_backend_config", stated)["dot_dimension_numbers"]
        return [
            [int(axis) for axis in stated.get(f"{side}_{kind}_dimensions", [])]
            for kind in ("contracting", "batch")
            for side in ("lhs", "rhs")
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _convolution(instruction: _Instruction, beside: dict[int, _Instruction]) -> Stated | None:
    """Return a convolution's data and filters, channels first, with stride, padding, dilation and groups.

    A gradient's result stands for the operand it is the gradient of: its products are the same.
    """
    target = instruction.stated.text(_TARGET)
    axes, window = instruction.stated.message(_CONVOLUTION), instruction.stated.message(_WINDOW)
    operands = _operands(instruction, beside)
    if axes is None or window is None or len(operands) < 2:
        return None
    image, filters = operands[:2]
    if target.endswith("BackwardInput"):
        image = instruction.shape
    elif target.endswith("BackwardFilter"):
        filters = instruction.shape
    places = [axes.number(7), axes.number(8), *axes.numbers(11)]
    of_filters = [axes.number(4), axes.number(3), *axes.numbers(6)]
    if not _within_rank(image, places) or not _within_rank(filters, of_filters):
        return None
    steps = [(d.number(2, 1), d.number(3)) for d in window.messages(1)]
    groups = max(1, instruction.stated.number(_GROUPS, 1))
    ordered = (
        Shape(tuple(image.sizes[i] for i in places), image.format),
        Shape(tuple(filters.sizes[i] for i in of_filters), filters.format),
    )
    stride, padding = [s for s, _ in steps], [p for _, p in steps]
    return "conv_general_dilated", ordered, ("", "", str(stride), str(padding), str(groups))
