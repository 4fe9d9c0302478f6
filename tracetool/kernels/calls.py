"""A framework's call as profilers record it: shapes, types and scalars.

They are columns of ``signatures``: ``input_dims`` and ``input_list_dims`` (sizes per argument, of tensors and of
lists of tensors), ``input_types`` and ``concrete_inputs`` (scalars as text, "" where there is none).

TorchInductor launches each fused kernel as an operator of its own name. Its tensors are inputs and outputs alike,
its last scalars the sizes of the loops: ``xnumel`` of a pointwise kernel (``ynumel, xnumel`` of a tiled one),
``xnumel, rnumel`` of a reduction. Together they give the true bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tracetool.core.dtype import BYTES, canonical_dtype

Shape = tuple[int, ...]
#: Sizes as recorded: None for one that is no number.
Sizes = Sequence[int | None]
#: Attributes of a call: numbers, flags and words by column name.
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
        tensors = [
            (s, self.formats[i] if i < len(self.formats) else None)
            for i, s in enumerate(self.shapes)
            if s is not None
        ]
        return tensors + [(s, None) for group in self.lists for s in group]

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


def _shape(sizes: Sizes | None) -> Shape | None:
    if not sizes:
        return None
    shape = tuple(x for x in sizes if x is not None and 0 <= x < _LARGEST)
    return shape if len(shape) == len(sizes) and math.prod(shape) < _LARGEST else None


def bare(name: str) -> str:
    """Return an operator's name without namespace, overload and the underscore of in-place forms.

    >>> bare("aten::add_"), bare("aten::_softmax.out"), bare("vllm::unified_attention")
    ('add', '_softmax', 'unified_attention')
    """
    plain = name.rpartition("::")[2].partition(".")[0].partition(" ")[0]
    return plain.rstrip("_") or plain


def read_call(
    name: str,
    dims: Sequence[Sizes | None] | None = None,
    list_dims: Sequence[Sequence[Sizes | None] | None] | None = None,
    types: Sequence[str | None] | None = None,
    scalars: Sequence[str | None] | None = None,
) -> Call:
    """Return a call as the columns of ``signatures`` state it; broken parts count as absent.

    >>> read_call("aten::mm", [[4, 8], [8, 2]], None, ["float", "float"]).shape(1)
    (8, 2)
    """
    formats = tuple(canonical_dtype(t) if t is not None else None for t in types or ())
    shapes = [_shape(sizes) for sizes in dims or ()]
    groups = list_dims or [None] * len(shapes)
    lists = tuple(tuple(s for sizes in group or () if (s := _shape(sizes))) for group in groups)
    values = tuple(str(x) for x in scalars or ())
    tensors = tuple(() if s is None and f else s for s, f in _pairs(shapes, formats))
    return Call(bare(name), tensors, lists, formats, values)


def _pairs(
    shapes: list[Shape | None], formats: tuple[str | None, ...]
) -> list[tuple[Shape | None, str | None]]:
    padded = [*formats, *[None] * (len(shapes) - len(formats))]
    return list(zip(shapes, padded, strict=False))


#: ``call_family`` of a call that is the kernel itself.
ITSELF = "self"


def is_fused(name: str) -> bool:
    """Whether an operator is a compiled kernel's launch.

    >>> is_fused("triton_per_fused_add_3"), is_fused("add")
    (True, False)
    """
    return name.startswith("triton_")


def read_fused(call: Call) -> Numbers | None:
    """Return the numbers of a compiled kernel's launch."""
    if not call.tensors:
        return None
    kind = call.name.split("_")[1] if "_" in call.name else ""
    if kind == "tem":
        return _product(call)
    sizes = [int(s) for s in call.scalars if s.isdigit() and len(s) < 16]
    bytes_moved = sum(numel(s) * size_of(f) for s, f in call.tensors)
    largest, format_size = max((numel(s), size_of(f)) for s, f in call.tensors)
    if kind in ("red", "per") and len(sizes) >= 2:
        rows, cols = sizes[-2], sizes[-1]
        elements = max(1, rows * cols)
        return {
            "rows": rows,
            "cols": cols,
            "elements": elements,
            **_traffic(bytes_moved, elements, format_size),
        }
    last = sizes[-1] if sizes else largest
    flattened = last * sizes[-2] if len(sizes) > 1 else 0
    elements = max(
        1, flattened if last < flattened <= largest else last if last <= largest or not largest else largest
    )
    if (
        "pool" not in call.name
    ):  # a view may belong to a larger tensor; only windows read more than they write
        bytes_moved = sum(min(numel(s), elements) * size_of(f) for s, f in call.tensors)
        # results written in place stand first, others last: with no result at the end, the first is read too
        shaped = [(s, f) for s, f in call.tensors if s]
        if shaped and numel(shaped[-1][0]) < elements <= numel(shaped[0][0]):
            bytes_moved += elements * size_of(shaped[0][1])
    return {"elements": elements, **_traffic(bytes_moved, elements, format_size)}


def _traffic(bytes_moved: float, elements: int, size: float) -> Numbers:
    """Bytes as multiples of the loop's elements: one write, the rest reads."""
    return {"reads": max(0.0, bytes_moved / (elements * size) - 1.0), "writes": 1}


def _product(call: Call) -> Numbers | None:
    """Sizes of a template's product: the last tensor is the result, two before it share K."""
    shapes = [s for s, _ in call.tensors]
    if len(shapes) < 3 or len(shapes[-1]) < 2:
        return None
    out = shapes[-1]
    m, n = out[-2], out[-1]
    batch = math.prod(out[:-2])
    for a, b in ((i, j) for i in shapes[:-1] for j in shapes[:-1] if i is not j):
        k = numel(a) // max(1, batch * m)
        if k and numel(a) == batch * m * k and _has_sizes(b, batch, k, n):
            return {"batch": batch, "m": m, "n": n, "k": k}
    return None


def _has_sizes(shape: Shape, batch: int, k: int, n: int) -> bool:
    return n in shape[-2:] and numel(shape) in (k * n, batch * k * n)
