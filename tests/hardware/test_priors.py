"""Every prior: sourced, in a unit of the closed list, read by the code, and of the law or GPU it names."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

import tracetool
from tracetool.core.errors import BadInput
from tracetool.families.pricing import laws
from tracetool.hardware.load import gpu_names, load_gpu
from tracetool.hardware.number import KINDS, UNITS
from tracetool.hardware.priors import (
    all_priors,
    parse_priors,
    prior_bands,
    prior_number,
    prior_table,
)

FOLDER = resources.files("tracetool.hardware")
REFERENCES = tomllib.loads((FOLDER / "references.toml").read_text("utf-8"))
PACKAGE = Path(tracetool.__file__).parent
READERS = {"prior_number": prior_number, "prior_table": prior_table, "prior_bands": prior_bands}
WHOLE = '[a.b]\nmeaning = "what it is"\nunit = "W"\nkind = "prior"\nsource = "estimate"\nvalue = 3.0\n'


def _asked() -> Iterator[tuple[str, str, str]]:
    """Yield file, reader and name, or its constant beginning, of every prior the code reads."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text("utf-8")
        if "tracetool.hardware.priors import" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in READERS:
                name = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
                assert isinstance(name, ast.Constant), f"{path.name}:{node.lineno} reads no name"
                yield path.name, node.func.id, name.value


ASKED = list(_asked())


@pytest.mark.parametrize("name", all_priors())
def test_an_entry_states_what_it_rests_on(name: str) -> None:
    entry = all_priors()[name]
    assert entry.unit in UNITS
    assert entry.kind in KINDS
    assert entry.source in REFERENCES
    assert len(entry.meaning.split()) >= 4


@pytest.mark.parametrize("name", all_priors())
def test_an_entry_is_read_by_the_code(name: str) -> None:
    assert any(name == asked or (asked.endswith("_") and name.startswith(asked)) for _, _, asked in ASKED)


@pytest.mark.parametrize(("file", "reader", "name"), ASKED)
def test_the_code_reads_entries_that_exist(file: str, reader: str, name: str) -> None:
    matching = [n for n in all_priors() if n == name or (name.endswith("_") and n.startswith(name))]
    assert matching, f"{file}: {reader}({name!r})"
    width, single = (2 if reader == "prior_bands" else 1), reader == "prior_number"
    for entry in (all_priors()[n] for n in matching):
        assert {len(pair) for pair in entry.values.values()} == {width}
        assert (set(entry.values) == {""}) == single


@pytest.mark.parametrize("path", sorted((PACKAGE / "model").glob("*.py")), ids=lambda path: path.name)
def test_the_model_holds_equations_and_no_fitted_constants(path: Path) -> None:
    """Counts of steps and rows may stand in code; a number that is measured, fitted or guessed is a prior."""
    found = [
        (node.lineno, constant.value)
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for constant in ast.walk(node.value)
        if isinstance(constant, ast.Constant)
        and isinstance(constant.value, float)
        and constant.value not in (0.0, 1.0)
    ]
    assert not found, "hardware/priors.toml is their place"


def test_tables_by_law_name_laws_and_kinds_of_their_rows() -> None:
    kinds = {f"{law.name}/{kind}" for law in laws().values() for kind in law.kinds}
    for table in ("carried_time.spread", "traced.spread", "traced.cold_nvidia", "traced.cold_amd"):
        assert set(all_priors()[table].values) <= {*laws(), *kinds, "otherwise"}, table


def test_every_memory_and_node_of_a_gpu_has_an_energy() -> None:
    nodes = sorted(map(float, prior_table("power.node_scale")))
    for gpu in (load_gpu(n, part="sensor") for n in gpu_names()):
        if gpu.scope == "model":
            assert gpu.memory_type in prior_table("power.dram"), gpu.name
            assert nodes[0] <= gpu.node_nm <= nodes[-1], gpu.name


def test_capacitance_falls_with_the_node() -> None:
    scale = prior_table("power.node_scale")
    ordered = [scale[node] for node in sorted(scale, key=float)]
    assert ordered == sorted(ordered) and scale["7"] == 1.0


@pytest.mark.parametrize("part", ["meaning", "unit", "kind", "source", "value"])
def test_an_entry_without_a_part_is_refused(part: str) -> None:
    text = "".join(line + "\n" for line in WHOLE.splitlines() if not line.startswith(part))
    with pytest.raises(BadInput, match=rf"some\.toml: a\.b is missing {part}"):
        parse_priors("some.toml", text)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"W"', '"stone"', "not in the closed list"),
        ('"prior"', '"guess"', "of kind 'guess'"),
        ("3.0", '"much"', "not a number"),
        ("3.0", "inf", "not a number"),
        ("value = 3.0", "values = { x = 1.0, y = [1.0, 2.0] }", "mixes numbers"),
        ("value = 3.0", "values = {}", "not a table of numbers"),
        ("value = 3.0", "value = 3.0\nvalues = { x = 1.0 }", "is missing value or values"),
        ("value = 3.0", "value = 3.0\nvaleu = 4.0", "valeu, which is read by nothing"),
        ("[a.b]", "loose = 1\n[a.b]", "loose is not a table"),
        ("[a.b]", "[a.b", "is not TOML"),
        ("[a.b]", f"deep = {'[' * 5000}\n[a.b]", "is not TOML: .* nested"),
    ],
)
def test_a_broken_entry_is_refused(old: str, new: str, fault: str) -> None:
    assert parse_priors("some.toml", WHOLE)["a.b"].values == {"": (3.0,)}
    with pytest.raises(BadInput, match=fault):
        parse_priors("some.toml", WHOLE.replace(old, new, 1))
