"""Toy library: ``toylib_{operation}_{format}``; the operation says what is done to each element."""

from __future__ import annotations

from tracetool.kernels.grammar import Grammar, Rule, Token

GRAMMAR = Grammar(
    library="toylib",
    title="Toy library: kernels called by what they do",
    source="the toy library's own names",
    gate=r"^toylib_",
    rules=(
        Rule(r"toylib_(?:scale|shift)_f\d\d$", "elementwise", "toy_map"),
        Rule(r"toylib_total_f\d\d$", "reduction", "toy_total"),
    ),
    tokens=(Token(r"scale|shift|total", "operation of the toy library"), Token(r"f16|f32", "its number format")),
    examples={"toylib_scale_f32": "elementwise", "toylib_total_f16": "reduction"},
    rank=9,
)
