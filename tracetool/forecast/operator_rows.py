"""Rows of operator tables: one function per operator a model is made of."""

from __future__ import annotations

from typing import TypeAlias

from tracetool.families import names

#: A row of an operator table: column to value (``docs/tables.md``).
Row: TypeAlias = dict[str, float | str]


def gemm(module: str, dtype: str, tokens: float, outputs: float, inputs: float, batch: float = 1.0) -> Row:
    """Return a matrix product: ``tokens`` rows of ``inputs`` numbers by ``outputs`` columns of weights."""
    return _row(
        names.GEMM, module, dtype=dtype, m=_least(tokens), n=_least(outputs), k=_least(inputs), batch=batch
    )


def norm(
    module: str, dtype: str, rows: float, cols: float, reads: float = 1, writes: float = 1, kind: str = ""
) -> Row:
    """Return a normalization of rows; ``reads`` and ``writes`` count tensors of that size, fused ones too."""
    size = {"rows": _least(rows), "cols": _least(cols)}
    return _row(names.NORM, module, dtype=dtype, **size, reads=reads, writes=writes, **_computing(kind))


def softmax(module: str, dtype: str, rows: float, cols: float) -> Row:
    """Return a softmax over rows."""
    return _row(names.SOFTMAX, module, dtype=dtype, rows=_least(rows), cols=_least(cols))


def elementwise(
    module: str, dtype: str, elements: float, reads: float = 1, writes: float = 1, kind: str = ""
) -> Row:
    """Return a pass over ``elements`` numbers that reads and writes as many tensors of that size.

    ``kind`` says what it computes, as in operator tables.
    """
    size = _least(elements)
    return _row(
        names.ELEMENTWISE, module, dtype=dtype, elements=size, reads=reads, writes=writes, **_computing(kind)
    )


def collective(module: str, kind: str, message_bytes: float, ranks: float) -> Row:
    """Return communication among ``ranks`` GPUs; bytes as ``docs/tables.md`` counts them for the kind. [B]"""
    return _row(names.COLLECTIVE, module, kind=kind, bytes=message_bytes, ranks=float(ranks))


def operator(op: str, module: str, **columns: float | str) -> Row:
    """Return a row of any other operator."""
    return _row(op, module, **columns)


def _row(op: str, module: str, **columns: float | str) -> Row:
    return {"op": op, "module": module, "count": 1.0, **columns}


def _computing(kind: str) -> dict[str, str]:
    return {"kind": kind} if kind else {}


def _least(value: float) -> float:
    """Sizes of tables are at least 1: a pass may hold fewer rows than one on average."""
    return max(float(value), 1.0)
