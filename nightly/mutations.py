"""What a change of the code is: one operator, constant, branch or function exchanged for its neighbor."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Integers below it become one more; larger ones are doubled: 4,097 bytes for 4,096 is no fault that anyone makes.
FEW = 16

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
CALLS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "floor": "ceil", "ceil": "floor",
         "any": "all", "all": "any", "min_horizontal": "max_horizontal", "max_horizontal": "min_horizontal",
         "first": "last", "last": "first", "mean": "sum"}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of one file: the source with it, and what it is in a line."""

    path: str
    line: int
    column: int
    what: str
    source: str
    #: Lines that say whether a test reaches it: its own, else those of the statement and the function around it.
    lines: tuple[int, ...]

    @property
    def key(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.what}"


OPPOSITE: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt,
}  # fmt: skip


def _counts(node: ast.AST) -> bool:
    """Return whether a side of a comparison is a count: an integer, or the length of something."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    return ast.unparse(node).startswith("len(") or ast.unparse(node).endswith((".size", ".height"))


def _comparison(node: ast.Compare) -> ast.cmpop:
    """Return what an operator becomes: the bound moves where counts are compared, where it can be met.

    Times and energies are equal by accident only, ``<`` and ``<=`` of them are the same: there the
    opposite stands instead.
    """
    kind = type(node.ops[0])
    if kind in OPPOSITE and not any(map(_counts, (node.left, *node.comparators))):
        return OPPOSITE[kind]()  # type: ignore[return-value]
    return SWAPS[kind]()  # type: ignore[return-value]


def _changed(node: ast.AST) -> Iterator[str]:
    """Yield the texts a node may be changed to."""

    def text(new: ast.AST) -> str:
        return f"({ast.unparse(new)})"

    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield text(ast.Compare(node.left, [_comparison(node), *node.ops[1:]], node.comparators))
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        yield text(ast.BinOp(node.left, SWAPS[type(node.op)](), node.right))  # type: ignore[arg-type]
    elif isinstance(node, ast.BoolOp):
        yield text(ast.BoolOp(SWAPS[type(node.op)](), node.values))  # type: ignore[arg-type]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield text(node.operand)
    elif isinstance(node, ast.IfExp):
        yield text(ast.IfExp(node.test, node.orelse, node.body))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        small = node.value in (0, 1) or (isinstance(node.value, int) and node.value < FEW)
        yield repr(node.value + 1 if small else node.value * 2)
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in CALLS:
            new = CALLS[name]
            func = (
                ast.Attribute(node.func.value, new, ast.Load())
                if isinstance(node.func, ast.Attribute)
                else ast.Name(new)
            )
            yield text(ast.Call(func, node.args, node.keywords))


def _skipped(tree: ast.AST) -> set[int]:
    """Return the nodes whose change no test should notice: annotations, messages of faults, decorators."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            parts += [
                node.returns,
                *node.decorator_list,
                *(a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg)),
            ]
        if isinstance(node, ast.AnnAssign):
            parts.append(node.annotation)
        if isinstance(node, ast.keyword) and node.arg in ("strict", "maintain_order", "parallel"):
            parts.append(node)
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
            parts.append(node)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            parts.append(node)
        skipped |= {id(inner) for part in parts if part is not None for inner in ast.walk(part)}
    return skipped


def mutants_of(path: Path) -> list[Mutant]:
    """Return every mutant of a file; only code inside functions is changed."""
    source = path.read_text("utf-8")
    tree, lines = ast.parse(source), source.splitlines(keepends=True)
    skipped, out, seen = _skipped(tree), [], set()
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    raw = source.encode()
    statements: dict[int, int] = {}
    for statement in (n for n in ast.walk(tree) if isinstance(n, ast.stmt)):  # outer ones first
        statements |= {id(inner): statement.lineno for inner in ast.walk(statement)}
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        for node in ast.walk(function):
            if id(node) in skipped or id(node) in seen or not hasattr(node, "lineno"):
                continue
            seen.add(id(node))
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
            for new in _changed(node):
                changed = (raw[:begin] + new.encode() + raw[end:]).decode()
                old = " ".join(raw[begin:end].decode().split())
                place = path.relative_to(ROOT).as_posix()
                what = f"{old[:70]} -> {new[:70]}"
                around = (node.lineno, statements.get(id(node), node.lineno), function.body[-1].lineno)
                out.append(Mutant(place, node.lineno, node.col_offset + 1, what, changed, around))
    return out
