"""GitLab code quality: one finding per broken threshold, shown in a merge request.

References
----------
.. [1] GitLab, "Code Quality", report format; the schema its parser holds reports to is
   ``app/validators/json_schemas/codeclimate.json``.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from tracetool.core import escape
from tracetool.report.renderer import Renderer
from tracetool.report.view import Case, View

#: What an outcome is called, and how severe GitLab shows it.
_CHECKS: Final = {"failed": ("regression", "major"), "skipped": ("inconclusive", "info")}


def _finding(case: Case) -> dict[str, Any]:
    check, severity = _CHECKS[case.outcome]
    # Without figures: the same finding of two pipelines is one to GitLab, whatever its size.
    identity = json.dumps([check, case.group, case.name])
    return {
        "description": escape.name(f"{case.group}: {case.message or case.name}", 2000),
        "check_name": f"tracetool-{check}",
        "fingerprint": hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest(),
        "severity": severity,
        "location": {"path": case.place or "tracetool.toml", "lines": {"begin": 1}},
    }


def _write(view: View, path: Path) -> None:
    findings = [_finding(c) for c in view.cases if c.outcome in _CHECKS]
    path.write_text(json.dumps(findings, ensure_ascii=False, indent=1) + "\n", "utf-8")


RENDERER = Renderer(
    ".codequality", "GitLab code quality: one finding per broken threshold", _write, judged=True
)
