"""SARIF 2.1.0: one result per broken threshold, for code scanning.

References
----------
.. [1] OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", 2020.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tracetool.core import escape
from tracetool.report.renderer import Renderer
from tracetool.report.view import Case, View
from tracetool.tables.run import tool_version

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"failed": "error", "skipped": "note"}
_RULES: Final = {
    "failed": ("regression", "A figure rose beyond its limit, beyond run-to-run spread."),
    "skipped": ("inconclusive", "A figure could not be judged: more runs or comparable ones are needed."),
}


def _sarif_result(case: Case) -> dict[str, Any]:
    place = case.place or "tracetool.toml"
    uri = quote(place)
    return {
        "ruleId": _RULES[case.outcome][0],
        "level": _LEVELS[case.outcome],
        "message": {"text": escape.name(f"{case.group}: {case.message or case.name}", 2000)},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}},
                "logicalLocations": [{"name": escape.name(case.group), "kind": "member"}],
            }
        ],
    }


def sarif_document(view: View) -> dict[str, Any]:
    """Return the SARIF log of a report's failed and undecided cases."""
    rules = [
        {"id": key, "shortDescription": {"text": text}, "defaultConfiguration": {"level": _LEVELS[outcome]}}
        for outcome, (key, text) in _RULES.items()
    ]
    driver = {
        "name": "tracetool",
        "version": tool_version(),
        "informationUri": "https://pypi.org/project/tracetool-energy/",
        "rules": rules,
    }
    results = [_sarif_result(c) for c in view.cases if c.outcome in _RULES]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _write(view: View, path: Path) -> None:
    path.write_text(json.dumps(sarif_document(view), ensure_ascii=False, indent=1) + "\n", "utf-8")


RENDERER = Renderer(
    ".sarif", "SARIF: one result per broken threshold, for code scanning", _write, judged=True
)
