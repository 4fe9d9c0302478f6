"""Names to families and attributes: every distinct name is read once, by the first grammar that knows it.

A name also describes the kernel's inner loop: how it accesses its tensors, whose matrix instruction it uses. PyTorch's
streaming kernels differ by what stands around the element's own work; the laws of streams say what each costs
(``families/access_pattern.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

import polars as pl

from tracetool.core.registry import members
from tracetool.families import names
from tracetool.families.access_pattern import AccessPattern
from tracetool.families.registry import families
from tracetool.kernels.grammar import FLAGS, MEANINGS, NUMBERS, TEXTS, Attributes, Grammar
from tracetool.kernels.name_normalization import normalize_all
from tracetool.kernels.symbols import Symbol

_PATTERNS: Final = (
    (AccessPattern.TREE, re.compile(r"reduce_kernel")),
    (AccessPattern.CAT, re.compile(r"CatArrayBatchedCopy(?!_(?:contig|alignedK|vectorized))")),
    (
        AccessPattern.INDEX,
        re.compile(r"index_elementwise|scatter_gather_element|indexSelect|indexFunc|indexing_back"),
    ),
    (AccessPattern.POOL, re.compile(r"(?:max|avg|average)_?pool")),
    (AccessPattern.CAST, re.compile(r"unrolled_elementwise_kernel|elementwise_kernel<\d+, 1\b")),
    (
        AccessPattern.OFFSETS,
        re.compile(r"(?<!vectorized_)(?<!templated_)elementwise_kernel(?:_manual_unroll)?<"),
    ),
    (AccessPattern.CHUNKS, re.compile(r"multi_tensor_apply")),
    (AccessPattern.WIDE, re.compile(r"vectorized_|triton_(?:poi|red|per)|distribution_")),
)
#: In names of kernels that multiply by instructions of Ampere's (mma.sync), which later NVIDIA chips still run.
_AMPERE: Final = re.compile(r"s16816|s161616|s1688|_80_|ampere_|sm80_|pytorch_flash::flash_|flash_fwd_kernel")


def access_pattern(name: str) -> str:
    """Return the access pattern of a kernel by its name, a name of ``families.access_pattern.PATTERNS``.

    >>> access_pattern("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >")
    'wide'
    >>> access_pattern("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl>")
    'offsets'
    """
    patterns = (pattern for pattern, mark in _PATTERNS if mark.search(name))
    return next(patterns, AccessPattern.OTHER).name.lower()


def mma_arch(name: str) -> str | None:
    """Return the architecture whose matrix instruction a name states, None where it states none.

    >>> mma_arch("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn")
    'ampere'
    """
    return "ampere" if _AMPERE.search(name) else None


#: Output columns behind ``name``, in order.
COLUMNS: tuple[str, ...] = (*TEXTS, *NUMBERS, *FLAGS)
#: Names read at once: enough to spread the cost of the tables, few enough to stay small.
_AT_ONCE = 20_000
_UNKNOWN: Attributes = {"family": names.UNKNOWN, "basis": "none"}


@cache
def grammars() -> tuple[Grammar, ...]:
    """Return every grammar of the folder, exact ones first."""
    by_file = members("tracetool.kernels.grammars", "GRAMMAR", Grammar)
    return tuple(sorted(by_file.values(), key=lambda g: g.rank))


def read_symbol(symbol: Symbol) -> tuple[Attributes, Grammar | None]:
    """Return the attributes that a symbol states and the grammar that read it."""
    for grammar in grammars():
        if grammar.opens.search(symbol.part(grammar.gate_on)):
            attributes = grammar.read(symbol)
            if attributes is not None:
                return attributes, grammar
    return dict(_UNKNOWN), None


def classify_names(names: Sequence[str | None]) -> pl.DataFrame:
    """Return the family and every attribute each name states.

    Parameters
    ----------
    names : sequence of str
        Kernel names, n of them, in any spelling; None counts as an empty name.

    Returns
    -------
    DataFrame, n rows in the order given
        ``name`` and :data:`COLUMNS`; null where the name states nothing. What each column means:
        :data:`tracetool.kernels.grammar.MEANINGS`.
    """
    rows = pl.DataFrame({"name": pl.Series(names, dtype=pl.String).fill_null("")})
    distinct = rows["name"].unique(maintain_order=True)
    table = pl.concat(
        [
            _read_some(tuple(distinct.slice(start, _AT_ONCE)))
            for start in range(0, max(1, distinct.len()), _AT_ONCE)
        ]
    )
    if distinct.len() == rows.height:
        return table
    return rows.join(table, on="name", how="left", maintain_order="left")


@lru_cache(maxsize=1)  # the names of one run are asked for by several parts of a command
def _read_some(names: tuple[str, ...]) -> pl.DataFrame:
    """Read many names: all gates are tried on all of them at once, by an engine that is linear in their length."""
    symbols = [Symbol(n, text) for n, text in zip(names, normalize_all(names), strict=True)]
    symbol_texts = pl.DataFrame(
        {
            "scope": pl.Series([s.scope for s in symbols], dtype=pl.String),
            "text": pl.Series([s.text for s in symbols], dtype=pl.String),
        }
    )
    ordered = grammars()
    opened = symbol_texts.select(
        pl.col(g.gate_on).str.contains(g.gate).alias(str(i)) for i, g in enumerate(ordered)
    )
    gates: list[list[Grammar]] = [[] for _ in symbols]
    for grammar, column in zip(ordered, opened, strict=True):
        for row in column.arg_true():
            gates[row].append(grammar)
    stated: list[Attributes] = []
    for name, symbol, open_gates in zip(names, symbols, gates, strict=True):
        readings = (grammar.read(symbol) for grammar in open_gates)
        attributes = next((reading for reading in readings if reading is not None), _UNKNOWN)
        stated.append({**attributes, "access_pattern": access_pattern(name), "mma_arch": mma_arch(name)})
    return _table(pl.Series("name", names, dtype=pl.String), stated)


def _table(names: pl.Series, read: list[Attributes]) -> pl.DataFrame:
    values: dict[str, list[object]] = {c: [None] * len(read) for c in COLUMNS}
    used: set[str] = set()
    for i, row in enumerate(read):
        for key, value in row.items():
            if value is not None:
                values[key][i] = value
                used.add(key)
    by_column: dict[str, pl.Series] = {"name": names}
    for columns, dtype in ((TEXTS, pl.String()), (NUMBERS, pl.Int64()), (FLAGS, pl.Boolean())):
        for column in columns:
            cells = values[column] if column in used else [None]
            series = pl.Series(column, cells, dtype=dtype)
            by_column[column] = series if column in used else series.new_from_index(0, len(read))
    return pl.DataFrame(by_column)


_WORDS = re.compile(r"[A-Za-z0-9]+(?:x\d+)*")
#: More tokens than this are template noise.
_MOST = 80


def explain_name(name: str) -> dict[str, Any]:
    """Return the meaning of a kernel name, token by token.

    Returns
    -------
    dict
        ``name``, ``form`` (its one spelling), ``title`` and ``source`` of the grammar, ``tokens``
        (pairs of token and meaning, in order) and ``attributes`` (attribute, value, meaning).
    """
    symbol = Symbol(name)
    attributes, grammar = read_symbol(symbol)
    tokens: list[tuple[str, str]] = []
    if grammar is not None:
        compiled = [(re.compile(t.pattern), t.meaning) for t in grammar.tokens]
        text = symbol.scope + (f"<{symbol.inside}>" if symbol.inside else "")
        explained: set[str] = set()
        for word in _WORDS.finditer(text[:4096]):
            meaning = next((m for p, m in compiled if p.fullmatch(word[0])), None)
            if meaning and word[0] not in explained and len(tokens) < _MOST:
                explained.add(word[0])
                tokens.append((word[0], meaning))
    return {
        "name": name,
        "form": symbol.text,
        "title": grammar.title if grammar else "no grammar reads this name",
        "source": grammar.source if grammar else "-",
        "tokens": tokens,
        "attributes": [
            {"attribute": k, "value": attributes[k], "meaning": meaning}
            for k, meaning in MEANINGS.items()
            if attributes.get(k) is not None
        ],
    }


@dataclass(frozen=True)
class Family:
    """One family: its name, one line on what it does, and a kernel that belongs to it."""

    name: str
    meaning: str
    example: str


#: Every family of kernels, as lists show them; activities without a kernel's name are none.
FAMILIES: Final = tuple(
    Family(name, family.meaning, family.example) for name, family in families().items() if not family.activity
)

NAMES: Final = frozenset(f.name for f in FAMILIES)
