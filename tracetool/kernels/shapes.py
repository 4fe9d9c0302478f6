"""Operator calls to the numbers the model takes: m, n, k; rows, cols; q_len, kv_len; elements.

Which operator is of which family, and where its arguments stand, is each family's own: ``families/members``. A call that is not listed here is read by
the kernel's family: element counts for streaming kernels, the reduced axes for reductions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from tracetool.families import names
from tracetool.families.arguments import Reading
from tracetool.families.registry import families
from tracetool.kernels.argument_readers import (
    Reader,
    attention,
    conv_gradient,
    convolution,
    packed_attention,
    product,
)
from tracetool.kernels.calls import ITSELF, Call, Numbers, Shape, is_fused, numel, read_fused, size_of


def _rows_of(shape: Shape, inner: int) -> Numbers:
    inner = max(1, inner)
    return {"rows": numel(shape) / inner, "cols": inner, "elements": numel(shape)}


def _layer_norm(x: int, normalized: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        shape = call.shape(x)
        inner = call.integers(normalized)
        return _rows_of(shape, math.prod(inner) if inner else shape[-1]) if shape else None

    return read


def _last_axis(x: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        shape = call.shape(x)
        return _rows_of(shape, shape[-1]) if shape else None

    return read


def _channels(x: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        shape = call.shape(x)
        return _rows_of(shape, numel(shape) // max(1, shape[1])) if shape and len(shape) > 1 else None

    return read


def _group_norm(x: int, batch: int, group: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        shape, count, groups = call.shape(x), call.integers(batch), call.integers(group)
        if not shape:
            return None
        rows = (count[0] if count else shape[0]) * (groups[0] if groups else 1)
        return _rows_of(shape, numel(shape) // max(1, rows))

    return read


def _axis(x: int, dim: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        shape, axes = call.shape(x), call.integers(dim)
        if not shape:
            return None
        axis = axes[0] if axes and -len(shape) <= axes[0] < len(shape) else -1
        return _rows_of(shape, shape[axis])

    return read


def _reduced(call: Call) -> Numbers | None:
    shape = call.shape(0)
    if not shape:
        return None
    axes = [a for a in call.integers(1) if -len(shape) <= a < len(shape)]
    inner = math.prod(shape[a] for a in {a % len(shape) for a in axes}) if axes else numel(shape)
    return _rows_of(shape, inner)


def _message(call: Call) -> Numbers | None:
    """Bytes of the largest tensor of a communication call."""
    sizes = [numel(s) * size_of(f or call.dtype) for s, f in call.tensors]
    return {"bytes": max(sizes)} if sizes and max(sizes) > 0 else None


_COMMUNICATES = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast_$|record_param_comms|multimem"
)


def _embedding(table: int, index: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        weight, chosen = call.shape(table), call.shape(index)
        if not weight or chosen is None:
            return None
        width = numel(weight) // max(1, weight[0])
        return {
            "rows": numel(chosen),
            "cols": width,
            "elements": numel(chosen) * width,
            "reads": 1,
            "writes": 1,
        }

    return read


def _cat(call: Call) -> Numbers | None:
    total = sum(numel(s) for group in call.lists for s in group)
    return {"elements": total, "reads": 1, "writes": 1} if total else None


def _copied(call: Call) -> Numbers | None:
    """A copy writes its first argument and reads its second, each in its own format."""
    into, source = call.shape(0), call.shape(1)
    if not into or source is None:
        return None
    formats = [*call.formats, None, None]
    ratio = size_of(formats[1]) / size_of(formats[0])
    return {"elements": numel(into), "reads": ratio * numel(source) / max(1, numel(into)), "writes": 1}


def _pooled(x: int, *, backward: bool = False, indices: bool = False) -> Reader:
    """Pooling: the result is smaller by the stride of each axis; max pooling writes 64-bit places beside it."""

    def read(call: Call) -> Numbers | None:
        shape = call.shape(x)
        if not shape or len(shape) < 3:
            return None
        window, steps = call.integers(x + 1), call.integers(x + 2)
        step = steps[0] if steps else window[0] if window else 2
        shrink = float(max(1, step)) ** min(2, len(shape) - 2)
        places = 8.0 / size_of(call.dtype) if indices else 0.0
        if backward:
            return {"elements": numel(shape), "reads": (1.0 + places) / shrink, "writes": 1}
        return {"elements": numel(shape) / shrink, "reads": shrink, "writes": 1.0 + places}

    return read


def _tokens(first: int, count: int) -> Reader:
    """Servers' helpers work on the token tensors they are given, not on the caches and tables beside them."""

    def read(call: Call) -> Numbers | None:
        sizes = [numel(s) for s in (call.shape(i) for i in range(first, first + count)) if s]
        return {"elements": sum(sizes), "reads": 1, "writes": 1} if sizes else None

    return read


def _experts(call: Call) -> Numbers | None:
    """Tokens and the scores of every expert."""
    tokens, scores = call.shape(0), call.shape(1)
    if not tokens or not scores or len(tokens) != 2 or len(scores) != 2 or tokens[0] != scores[0]:
        return None
    return {"expert_count": scores[1], "model_width": tokens[1]}


def _fourier(x: int, axes: int, last: int, *, real: bool) -> Reader:
    """Fourier transform: ``elements`` in complex points, two real ones to each; ``cols`` points per transform.

    The complex side of a real transform holds half its last axis and one point; where that is the operand,
    ``last`` states the axis' full size.
    """

    def read(call: Call) -> Numbers | None:
        shape, chosen = call.shape(x), call.integers(axes)
        if not shape or not chosen or any(not -len(shape) <= axis < len(shape) for axis in chosen):
            return None
        full, stated = list(shape), call.integers(last)
        if stated:
            full[chosen[-1]] = stated[0]
        points = math.prod(full[axis] for axis in {axis % len(shape) for axis in chosen})
        if not math.prod(full):
            return None
        if not real:
            return {"elements": math.prod(full), "cols": points, "reads": 1, "writes": 1}
        length = full[chosen[-1]]
        half = (length // 2 + 1) / (length / 2)
        # an operand of real numbers holds two per complex point
        passes = {"reads": half, "writes": 1} if stated else {"reads": 2, "writes": 2 * half}
        return {"elements": math.prod(full) / 2, "cols": points, **passes}

    return read


def _state_scan(x: int) -> Reader:
    """Selective scan: input and step size of one shape, then the transition with a row of states per channel."""

    def read(call: Call) -> Numbers | None:
        sequence, step, transition = (call.shape(x + i) for i in range(3))
        if not sequence or step != sequence or not transition or len(transition) != 2:
            return None
        return {"elements": numel(sequence), "state": transition[-1], "reads": 2, "writes": 1}

    return read


def _foreach(call: Call) -> Numbers | None:
    groups = [g for g in call.lists if g]
    if not groups:
        return None
    return {"elements": sum(numel(s) for s in groups[0]), "reads": len(groups), "writes": 1}


def streaming(call: Call) -> Numbers | None:
    """Return the elements of the largest operand and how many of that size are read and written.

    Operands that are broadcast are counted by their share of the largest.
    """
    sizes = [(numel(s), size_of(f)) for s, f in call.tensors]
    if not sizes:
        return None
    largest = max(n for n, _ in sizes)
    if largest <= 0:
        return None
    reads = sum(n * b for n, b in sizes) / (largest * size_of(call.dtype))
    out = sum(1 for a, b in zip(sizes[:-1], sizes[-1:] * len(sizes), strict=False) if a == b)
    named_out = (
        len(call.tensors) > 2 and out and call.scalars and call.scalars[-1] == "" and len(call.scalars) > 2
    )
    return {
        "elements": largest,
        "reads": max(1.0, reads - (1 if named_out else 0)),
        "writes": 1,
        "dims": walked_dims([s for s, _ in call.tensors]),
    }


def walked_dims(shapes: list[Shape]) -> int:
    """Return the dimensions a kernel that computes offsets steps through: those that do not merge into one.

    Neighboring dimensions merge where every operand spans both or neither; of operands all alike some lie
    apart in memory, else there were no offsets to compute: at least two remain, three where there are so many.

    >>> walked_dims([(16, 559, 1024), (1024,)]), walked_dims([(16, 16, 559, 64), (16, 16, 559, 64)])
    (2, 3)
    """
    depth = max((len(s) for s in shapes), default=0)
    spans = [
        tuple((1,) * (depth - len(s)) + s)[i] > 1 for s in shapes for i in range(depth)
    ]  # operand by operand
    axes = [tuple(spans[o * depth + i] for o in range(len(shapes))) for i in range(depth)]
    used = [a for a in axes if any(a)]
    runs = sum(1 for i, a in enumerate(used) if not i or a != used[i - 1])
    return max(runs, min(len(used), 3)) if runs == 1 else runs


#: The function behind each way to state sizes.
_READINGS: Final[Mapping[Reading, Callable[..., Reader]]] = {
    Reading.PRODUCT: product,
    Reading.CONVOLUTION: convolution,
    Reading.CONVOLUTION_GRADIENT: conv_gradient,
    Reading.ATTENTION: attention,
    Reading.PACKED_ATTENTION: lambda: packed_attention,
    Reading.LAYER_NORM: _layer_norm,
    Reading.LAST_AXIS: _last_axis,
    Reading.CHANNELS: _channels,
    Reading.GROUP_NORM: _group_norm,
    Reading.AXIS: _axis,
    Reading.REDUCED: lambda: _reduced,
    Reading.EMBEDDING: _embedding,
    Reading.COPIED: lambda: _copied,
    Reading.CONCATENATED: lambda: _cat,
    Reading.POOLED: _pooled,
    Reading.TOKENS: _tokens,
    Reading.EXPERTS: lambda: _experts,
    Reading.FOURIER: _fourier,
    Reading.STATE_SCAN: _state_scan,
}
#: Family and reader of each operator, by its bare name.
READERS: Final[Mapping[str, tuple[str, Reader]]] = {
    operator: (name, _READINGS[stated.reading](*stated.places, **stated.flags))
    for name, family in families().items()
    for operator, stated in family.operators.items()
}


def read_shapes(call: Call) -> tuple[str | None, Numbers | None]:
    """Return the family a call implies and its numbers; None where the call implies neither.

    >>> from tracetool.kernels.calls import read_call
    >>> read_shapes(read_call("aten::mm", [[4, 8], [8, 9]]))
    ('gemm', {'batch': 1, 'm': 4, 'n': 9, 'k': 8})
    """
    if call.name.startswith("_foreach"):
        return names.OPTIMIZER, _foreach(call)
    if is_fused(call.name):
        return ITSELF, read_fused(call)
    if _COMMUNICATES.search(call.name):
        return names.COLLECTIVE, _message(call)
    family, reader = READERS.get(call.name, (None, None))
    return family, reader(call) if reader else None
