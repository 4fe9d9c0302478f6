"""A framework's call as profilers record it: shapes, types and scalars, taken out of their JSON.

PyTorch writes ``Input Dims`` (a list per argument, a list of lists for a list of tensors), ``Input type``
and ``Concrete Inputs`` (scalars as text, "" where there is none).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from tracetool.vocabulary.dtype import BYTES, canonical_dtype

Shape = tuple[int, ...]
#: What a call tells: numbers, flags and words by column name.
Numbers = dict[str, float | str | bool | None]
_NUMBER = re.compile(r"-?\d+")
#: Sizes above this are no sizes but damage.
_LARGEST = 1 << 48


@dataclass(frozen=True)
class Call:
    """One operator call.

    Parameters
    ----------
    name : str
        Bare name: ``aten::add_`` gives ``add``.
    shapes : tuple of (shape or None)
        Per argument; None where it is no tensor.
    lists : tuple of tuple of shape
        Per argument the shapes of a list of tensors, else empty.
    formats : tuple of (str or None)
        Number format of each argument.
    scalars : tuple of str
        Scalars as text.
    """

    name: str
    shapes: tuple[Shape | None, ...]
    lists: tuple[tuple[Shape, ...], ...]
    formats: tuple[str | None, ...]
    scalars: tuple[str, ...]

    def shape(self, place: int) -> Shape | None:
        """Return the shape of one argument, None where it is no tensor."""
        return self.shapes[place] if 0 <= place < len(self.shapes) else None

    def integers(self, place: int) -> tuple[int, ...]:
        """Return the integers of one scalar argument, e.g. ``[1, 1]``; empty where there are none."""
        if not 0 <= place < len(self.scalars):
            return ()
        return tuple(int(x) for x in _NUMBER.findall(self.scalars[place])[:16] if len(x) < 18)

    def flag(self, place: int) -> bool | None:
        """Return a Boolean argument, None where it is none."""
        text = self.scalars[place].lower() if 0 <= place < len(self.scalars) else ""
        return {"true": True, "1": True, "false": False, "0": False}.get(text)

    @property
    def tensors(self) -> list[tuple[Shape, str | None]]:
        """Shapes and formats of the tensors, those of lists included."""
        found = [
            (s, self.formats[i] if i < len(self.formats) else None)
            for i, s in enumerate(self.shapes)
            if s is not None
        ]
        return found + [(s, None) for group in self.lists for s in group]

    @property
    def dtype(self) -> str | None:
        """Format of the first tensor that has one."""
        return next((f for f in self.formats if f), None)


def numel(shape: Shape | None) -> int:
    """Return the number of elements of a shape; 1 for a scalar.

    >>> numel((4, 5)), numel(())
    (20, 1)
    """
    return math.prod(shape) if shape else 1


def size_of(dtype: str | None) -> float:
    """Return bytes per element, 4 where the format is not known."""
    return BYTES.get(dtype or "", 4.0)


def _load(text: str | None) -> list[object]:
    if not text:
        return []
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _shape(value: object) -> Shape | None:
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(x, int) and not isinstance(x, bool) and 0 <= x < _LARGEST for x in value):
        made = tuple(int(str(x)) for x in value)
        return made if math.prod(made) < _LARGEST else None
    return None


def bare(name: str) -> str:
    """Return an operator's name without namespace, overload and the underscore of in-place forms.

    >>> bare("aten::add_"), bare("aten::_softmax.out"), bare("vllm::unified_attention")
    ('add', '_softmax', 'unified_attention')
    """
    plain = name.rpartition("::")[2].partition(".")[0].partition(" ")[0]
    return plain.rstrip("_") or plain


def read_call(name: str, dims: str | None, types: str | None, scalars: str | None) -> Call:
    """Return the call recorded as JSON texts; broken parts count as absent.

    >>> read_call("aten::mm", "[[4, 8], [8, 2]]", '["float", "float"]', None).shape(1)
    (8, 2)
    """
    raw = _load(dims)
    formats = tuple(canonical_dtype(t) if isinstance(t, str) else None for t in _load(types))
    lists: list[tuple[Shape, ...]] = []
    shapes: list[Shape | None] = []
    for value in raw:
        nested = isinstance(value, list) and bool(value) and all(isinstance(v, list) for v in value)
        group = [_shape(v) for v in value] if nested and isinstance(value, list) else []
        lists.append(tuple(s for s in group if s))
        shapes.append(None if nested else _shape(value))
    given = tuple(str(x) for x in _load(scalars))
    tensors = tuple(() if s is None and f else s for s, f in _pairs(shapes, formats))
    return Call(bare(name), tensors, tuple(lists), formats, given)


def _pairs(
    shapes: list[Shape | None], formats: tuple[str | None, ...]
) -> list[tuple[Shape | None, str | None]]:
    padded = [*formats, *[None] * (len(shapes) - len(formats))]
    return list(zip(shapes, padded, strict=False))
