"""JUnit XML: one test case per judged figure, for any CI that shows test results.

References
----------
.. [1] The Jenkins xUnit plugin's ``junit-10.xsd``, which GitLab and GitHub actions read too.
"""

from __future__ import annotations

from pathlib import Path

from tracetool.core import escape
from tracetool.report.renderer import Renderer
from tracetool.report.view import Case, View


def _case(case: Case) -> str:
    group, name = escape.xml(case.group, 300), escape.xml(case.name, 300)
    head = f'    <testcase classname="{group}" name="{name}" time="0"'
    message = escape.xml(case.message, 2000)
    if case.outcome == "failed":
        failure = f'<failure type="regression" message="{message}">{message}</failure>'
        return f"{head}>\n      {failure}\n    </testcase>"
    if case.outcome == "skipped":
        return f'{head}>\n      <skipped message="{message}"/>\n    </testcase>'
    return f"{head}>\n      <system-out>{message}</system-out>\n    </testcase>"


def junit_text(view: View) -> str:
    """Return the XML document of a report's cases."""
    cases = view.cases or (Case("report", view.title, "passed"),)
    failed = sum(c.outcome == "failed" for c in cases)
    skipped = sum(c.outcome == "skipped" for c in cases)
    counts = f'tests="{len(cases)}" failures="{failed}" errors="0"'
    body = "\n".join(map(_case, cases))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites name="tracetool" {counts} time="0">\n'
        f'  <testsuite name="{escape.xml(view.title, 300)}" {counts} skipped="{skipped}" time="0">\n'
        f"{body}\n  </testsuite>\n</testsuites>\n"
    )


def _write(view: View, path: Path) -> None:
    path.write_text(junit_text(view), "utf-8")


RENDERER = Renderer(".xml", "JUnit: one test case per judged figure", _write)
