"""Calls of compiled kernels: TorchInductor launches each fused kernel as an operator of its own name.

Its tensors are inputs and outputs alike, its last scalars the sizes of the loops: ``xnumel`` of a pointwise
kernel (``ynumel, xnumel`` of a tiled one), ``xnumel, rnumel`` of a reduction. Together they give the true bytes.
"""

from __future__ import annotations

import math

from tracetool.kernels.calls import Call, Numbers, Shape, numel, size_of

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
    both = last * sizes[-2] if len(sizes) > 1 else 0
    elements = max(1, both if last < both <= largest else last if last <= largest or not largest else largest)
    if (
        "pool" not in call.name
    ):  # a view may belong to a larger tensor; only windows read more than they write
        bytes_moved = sum(min(numel(s), elements) * size_of(f) for s, f in call.tensors)
        # results written in place stand first, others last: with no result at the end, the first is read too
        whole = [(s, f) for s, f in call.tensors if s]
        if whole and numel(whole[-1][0]) < elements <= numel(whole[0][0]):
            bytes_moved += elements * size_of(whole[0][1])
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
        if k and numel(a) == batch * m * k and _holds(b, batch, k, n):
            return {"batch": batch, "m": m, "n": n, "k": k}
    return None


def _holds(shape: Shape, batch: int, k: int, n: int) -> bool:
    return n in shape[-2:] and numel(shape) in (k * n, batch * k * n)
