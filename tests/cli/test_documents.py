"""The JSON Schemas of ``--json``: one for every command, to which the tests of commands hold it."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from tests.cli.test_every_command import LEAVES, NAMES
from tests.documents import FOLDER, MAPS, ROOT, check_document, command_schema, schema_of

SCHEMAS = sorted(p.stem for p in FOLDER.glob("*.json"))


@pytest.mark.parametrize("words", [p for p, _ in LEAVES], ids=NAMES)
def test_every_command_has_a_schema(words: tuple[str, ...]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of("-".join(words)))
    assert schema_of("-".join(words))["title"] == f"tracetool {' '.join(words)} --json"


def test_every_schema_is_of_a_command() -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of("error"))
    assert set(SCHEMAS) - {"error"} == {"-".join(words) for words, _ in LEAVES}


def test_an_error_is_the_file_the_fault_and_the_fix() -> None:
    error = {
        "file": "a.csv",
        "message": "a.csv: is empty (0 bytes)",
        "fix": "record or copy it again",
        "exit_code": 2,
    }
    check_document("predict", {"error": error})
    with pytest.raises(jsonschema.ValidationError):
        check_document("predict", {"error": {k: error[k] for k in ("message", "fix")}})


def test_a_key_that_is_lost_or_renamed_does_not_fit() -> None:
    whole = {"verdict": "trust", "reasons": [], "findings": []}
    check_document("check-power", whole)
    with pytest.raises(jsonschema.ValidationError, match="verdict"):
        check_document("check-power", {k: v for k, v in whole.items() if k != "verdict"})
    with pytest.raises(jsonschema.ValidationError, match="reasons"):
        check_document("check-power", {**whole, "reasons": "none"})


def test_a_schema_made_of_documents_fits_them_and_names_what_all_have() -> None:
    documents = [
        {"a_ms": 1, "rows": [{"x": None, "y": "s"}], "work": {"tokens": 3}},
        {"a_ms": None, "rows": [], "work": {}},
    ]
    schema = command_schema("toy", documents)
    for document in documents:
        jsonschema.Draft202012Validator(schema).validate(document)
    assert schema["required"] == ["a_ms", "rows", "work"]
    assert schema["properties"]["a_ms"]["description"] == "[ms]"
    assert "work" in MAPS
    jsonschema.Draft202012Validator(schema).validate({**documents[0], "work": {"images": 2}})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(
            json.loads('{"a_ms": 1, "rows": [{"x": 1, "y": 2}]}')
        )


@pytest.mark.parametrize("words", NAMES)
def test_a_test_holds_the_document_of_every_command_to_its_schema(words: str) -> None:
    """The tests that call ``check_document`` name every command, alone or before its arguments."""
    named = re.compile(rf'["\']{re.escape(words)}[ "\']')
    checked = [
        file.name
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        if "check_document(" in (text := file.read_text("utf-8")) and named.search(text)
    ]
    group, _, last = words.partition(" ")
    questions = (ROOT / "tests" / "fleet" / "test_fleet.py").read_text("utf-8")
    assert checked or (group == "fleet" and f'"{last}"' in questions), f"no test checks: {words} --json"
