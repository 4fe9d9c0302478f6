"""The page of a run: sections in order, one file, nothing loaded from elsewhere."""

from __future__ import annotations

from tracetool.report.page import scripts, templates
from tracetool.report.run_page import RunPage
from tracetool.report.sections.agreement import agreement
from tracetool.report.sections.budget import budget
from tracetool.report.sections.clocks import clocks
from tracetool.report.sections.comparison import against
from tracetool.report.sections.diagnosed import diagnosed
from tracetool.report.sections.energy_shares import where
from tracetool.report.sections.groups import groups
from tracetool.report.sections.kernels import kernels, page_data
from tracetool.report.sections.provenance import provenance
from tracetool.report.sections.roofline import roof
from tracetool.report.sections.swing import swing
from tracetool.report.sections.timeline import gaps, timeline

_SECTIONS = (
    budget,
    diagnosed,
    against,
    groups,
    where,
    timeline,
    swing,
    agreement,
    clocks,
    roof,
    kernels,
    gaps,
    provenance,
)


def run_html(page: RunPage) -> str:
    """Return the page of a run; sections that have nothing to show are left out."""
    needed = scripts("charts.js", "run.js", "icicle.js")
    sections = [section for build in _SECTIONS if (section := build(page)) is not None]
    setting = f"{page.accuracy.gpu} at {page.recorded_mhz:g} MHz · {page.accuracy.run}"
    return (
        templates()
        .get_template("run.html.j2")
        .render(
            title=page.title,
            subtitle=setting,
            facts=page.facts,
            warnings=page.warnings,
            sections=sections,
            version=str(page.info.get("tool_version", "")),
            data=page_data(page),
            scripts=needed,
        )
    )
