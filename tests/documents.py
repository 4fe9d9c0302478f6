"""The JSON Schemas of ``--json``: what a document must hold, and how they are written from real ones.

Tests of commands call :func:`check_document`. With ``TRACETOOL_DOCUMENTS=FOLDER`` they keep documents
instead, and ``python -m tests.documents FOLDER`` writes ``schemas/commands`` anew from them: a key is
required where every document has it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "schemas" / "commands"
#: Objects whose keys are data: GPUs by number, tables by name, parts by kind.
MAPS = frozenset(
    (
        "tables",
        "failed",
        "without_energy",
        "not_measured",
        "details",
        "trends",
        "reasons",
        "alignment",
        "sensor",
        "work",
        "scale",
        "figures",
        "gaps_ms",
        "gaps_j",
        "gap_counts",
        "tokens",
        "facts",
        "energy_parts_j",
        "causes_j",
        "not_comparable",
        "idle_before_w",
        "idle_after_w",
    )
)
#: Commands made of several.
GROUPS = ("baseline", "fleet", "sensor")
MEANINGS = {
    "schema": "Name and version of the document.",
    "notes": "Sentences on what the figures rest on: priors, guesses, what was left out.",
    "warnings": "What was met in the sources that may matter.",
    "gpu": "The GPU predicted.",
    "gpus": "GPUs.",
    "totals": "One entry per clock (or case): time, power and energy, each with its 90 % interval.",
    "coverage": "Share of the time by what it rests on: shapes, measurement, a family's rate, nothing.",
    "rows": "Rows of the table asked for with --by, or of kernels.",
    "kind": "What was predicted: a run or a table.",
    "anchor": "Whether measured durations are scaled, or the model's own taken.",
    "energy": "Measured energy, a row per GPU and signature or state, with its 90 % interval.",
    "groups": "Measured energy by what was asked for with --by, with its 90 % interval.",
    "scopes": "Time, power and energy of kernels, copies, gaps and their sum, the run.",
    "throttled": "Share of kernel time at a lowered clock, by GPU.",
    "alignment": "Where the power log lies against the trace, by GPU. [ms]",
    "sensor": "The power sensor taken, by GPU.",
    "verdict": "The answer in one word.",
    "reasons": "Sentences behind the verdict.",
    "findings": "What was found, most important first.",
    "without_energy": "Why a job has no energy, and the fix, by job.",
    "not_measured": "Why a job's power log measured nothing, and the fix, by job.",
    "failed": "Whether a limit asked for is broken (exit code 1); of a data set, jobs that failed and why.",
    "parts": "What the time and energy of the run were spent on: they add up to the whole.",
    "points": "Every clock or cap explored: time and energy.",
    "best": "The clock or cap of least energy for each goal.",
    "families": "A row per family of kernels.",
    "kernels": "A row per kernel.",
    "operators": "A row per operator and shape.",
    "path": "The file that was written.",
    "runs": "The runs that came of it.",
    "causes_j": "What changed the energy: parts that add up to the change. [J]",
    "error": "What went wrong.",
}


def command_of(words: str) -> str:
    """Return the name of a command's schema from its words."""
    first, *more = words.split()
    return f"{first}-{more[0]}" if first in GROUPS else first


@cache
def schema_of(command: str) -> dict[str, Any]:
    """Return the schema of a command's document; that it is one, tests/cli/test_documents.py checks."""
    read: dict[str, Any] = json.loads((FOLDER / f"{command}.json").read_text("utf-8"))
    return read


@cache
def _validator_of(command: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_strict(schema_of(command)))


def check_document(words: str, document: Any) -> None:
    """Raise unless a command's document fits its schema.

    Parameters
    ----------
    words : str
        The command line behind ``tracetool``.
    document : object
        What it printed with ``--json``, read back.
    """
    name = "error" if isinstance(document, dict) and list(document) == ["error"] else command_of(words)
    if folder := os.environ.get("TRACETOOL_DOCUMENTS"):  # to write the schemas anew, not to check them
        text = json.dumps(document, sort_keys=False)
        (Path(folder) / f"{name}.{hashlib.sha256(text.encode()).hexdigest()[:12]}.json").write_text(
            text, "utf-8"
        )
        return
    _validator_of(name).validate(document)


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that refuses keys of the document it does not name: a new one has to be published."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [_strict(variant) for variant in schema["anyOf"]]}
    return {"additionalProperties": False, **schema} if "properties" in schema else dict(schema)


@cache
def _comments() -> dict[str, str]:
    """Return what columns of tables mean, by name, where all tables agree."""
    meant: dict[str, set[str]] = {}
    for file in sorted((ROOT / "schemas").glob("*.json")):
        for column in json.loads(file.read_text("utf-8")).get("columns", []):
            unit = f" [{column['unit']}]" if column["unit"] not in ("1", "") else ""
            meant.setdefault(column["name"], set()).add(column["comment"] + unit)
    return {name: next(iter(texts)) for name, texts in meant.items() if len(texts) == 1}


_UNITS = {
    "ns": "ns", "us": "\u00b5s", "ms": "ms", "s": "s", "j": "J", "mj": "mJ", "w": "W", "mhz": "MHz",
    "pct": "%", "gib": "GiB", "bytes": "B", "c": "\u00b0C",
}  # fmt: skip
_UNIT = re.compile(rf"_({'|'.join(_UNITS)})$")


def _described(name: str, schema: dict[str, Any], *, top: bool) -> dict[str, Any]:
    meaning = (MEANINGS.get(name) if top else None) or _comments().get(name)
    if meaning is None and (unit := _UNIT.search(name)):
        meaning = f"[{_UNITS[unit[1]]}]"
    return {**schema, "description": meaning} if meaning else schema


def merged(values: Sequence[Any], name: str = "", *, top: bool = False) -> dict[str, Any]:
    """Return a schema that values fit; figures may be null, as what is not known is."""
    objects = [v for v in values if isinstance(v, Mapping)]
    lists = [v for v in values if isinstance(v, list)]
    kinds: list[dict[str, Any]] = []
    if objects:
        kinds.append(_object(objects, name, top=top))
    if lists:
        items = [item for one in lists for item in one]
        kinds.append({"type": "array", **({"items": merged(items, name)} if items else {})})
    plain = {_plain(v) for v in values if not isinstance(v, Mapping | list) and v is not None}
    if plain:
        kinds.append({"type": sorted({*plain, "null"})})
    elif None in [v for v in values if not isinstance(v, Mapping | list)]:
        kinds.append({"type": "null"})
    if not kinds or kinds == [{"type": "null"}]:
        return {}  # nothing was seen: anything may come
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _plain(value: Any) -> str:
    return "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"


def _object(values: Sequence[Mapping[str, Any]], name: str, *, top: bool) -> dict[str, Any]:
    by_number = all(key.isdecimal() for v in values for key in v) and any(values)
    if not top and (name in MAPS or by_number):
        return {"type": "object", "additionalProperties": merged([x for v in values for x in v.values()])}
    keys = list(dict.fromkeys(key for v in values for key in v))
    properties = {k: _described(k, merged([v[k] for v in values if k in v], k), top=top) for k in keys}
    return {
        "type": "object",
        "required": [k for k in keys if all(k in v for v in values)],
        "properties": properties,
    }


def command_schema(command: str, documents: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of a command from documents it printed: one variant for each set of keys apart."""
    variants: list[list[Any]] = []
    for document in documents:
        for variant in variants:
            if _alike(variant[0], document):
                variant.append(document)
                break
        else:
            variants.append([document])
    schemas = [merged(v, top=True) for v in variants]
    body = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tracetool {command.replace('-', ' ') if command.startswith(GROUPS) else command} --json",
        "description": "Figures not known are null. Units are in names; _low and _high end a 90 % interval.",
        **body,
    }


def _alike(one: Any, other: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return type(one) is type(other)
    shared = one.keys() & other.keys()
    return one.get("schema") == other.get("schema") and 2 * len(shared) > max(len(one), len(other)) / 2


def write(folder: Path) -> Iterable[Path]:
    """Write the schemas of all commands whose documents lie in a folder."""
    documents: dict[str, list[Any]] = {}
    for file in sorted(folder.glob("*.json")):
        documents.setdefault(file.name.split(".")[0], []).append(json.loads(file.read_text("utf-8")))
    for command, listed in documents.items():
        path = FOLDER / f"{command}.json"
        path.write_text(
            json.dumps(command_schema(command, listed), indent=1, ensure_ascii=False) + "\n", "utf-8"
        )
        yield path


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for written in write(Path(sys.argv[1])):
        print(written)
