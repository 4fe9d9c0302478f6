from __future__ import annotations

import re
from pathlib import Path

import pytest

from tracetool.kernels.classify import FAMILIES, NAMES, classify_names, grammars
from tracetool.kernels.grammar import MEANINGS

GRAMMARS = grammars()
by_title = pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda g: g.title)


@by_title
def test_examples_prove_the_grammar(grammar):
    names = list(grammar.examples)
    assert names, "a grammar without examples proves nothing"
    got = classify_names(names)
    assert dict(zip(names, got["family"], strict=True)) == dict(grammar.examples)


@by_title
def test_states_its_source_and_tokens(grammar):
    assert len(grammar.source) > 10
    assert grammar.tokens
    for token in grammar.tokens:
        re.compile(token.pattern)
        assert token.meaning


@by_title
def test_rules_name_families_and_no_whole_kernel(grammar):
    for rule in grammar.rules:
        assert rule.family in NAMES
        longest = max((len(w) for w in re.findall(r"[A-Za-z_0-9]+", rule.pattern)), default=0)
        assert longest < 40, f"{rule.pattern} looks like one kernel's name"
        assert "(?=" not in grammar.gate and "(?!" not in grammar.gate, "gates run on a linear engine"


def test_families_are_the_closed_list():
    assert len(NAMES) == len(FAMILIES)
    assert all(f.meaning and f.example for f in FAMILIES)


def test_the_page_on_names_covers_every_grammar_and_column():
    page = (Path(__file__).parents[2] / "docs/names.md").read_text("utf-8")
    for grammar in GRAMMARS:
        assert grammar.title[1:] in page
        assert all(token.meaning.replace("|", "\\|") in page for token in grammar.tokens)
    assert all(f"| `{column}` | {meaning} |" in page for column, meaning in MEANINGS.items())
    assert all(f"| `{f.name}` | {f.meaning} | `{f.example}` |" in page for f in FAMILIES)
