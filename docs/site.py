"""Build the documentation as a site: ``python docs/site.py [--out site]``; every broken link or anchor fails.

The pages stay where they are, with links that work on GitHub: they are copied, in the same tree, beside what they
link to, and MkDocs makes the site of the copy.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOP = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE",
    "docs",
    "sample_traces/README.md",
)
#: What stands in the menu: by question first, then by part.
MENU: dict[str, dict[str, str]] = {
    "Start": {
        "What it does": "README.md",
        "Install": "docs/install.md",
        "The first ten minutes": "docs/first-ten-minutes.md",
        "All pages": "docs/index.md",
        "Sample traces": "sample_traces/README.md",
    },
    "Questions": {
        "Where did my joules go?": "docs/tasks/joules.md",
        "Which clock?": "docs/tasks/clock.md",
        "Did this commit cost energy?": "docs/tasks/commit.md",
        "What will it be on a B200?": "docs/tasks/b200.md",
        "Can I trust this log?": "docs/tasks/log.md",
    },
    "Guides": {
        "Recording": "docs/record.md",
        "Time budget": "docs/summary.md",
        "Diagnosis": "docs/diagnose.md",
        "Why measured runs differ": "docs/diagnose-table.md",
        "Joules per kernel, layer, step": "docs/attribution.md",
        "Checks of a power log": "docs/check-power.md",
        "Power sensors": "docs/sensors.md",
        "Achieved rates": "docs/roofline.md",
        "Power within a kernel": "docs/profiles.md",
        "Other clocks: replay": "docs/replay.md",
        "Forecast": "docs/forecast.md",
        "CI: GitHub and GitLab": "docs/ci.md",
        "Perfetto and Prometheus": "docs/export.md",
        "Python": "docs/python.md",
        "Thousands of traces": "docs/fleet.md",
        "Thousands of traces in SQL": "docs/fleet-sql.md",
        "A million traces a day": "docs/fleet-plan.md",
    },
    "Numbers": {
        "What each number is": "docs/numbers.md",
        "Where they come from": "docs/how-it-works.md",
        "How to read the intervals": "docs/intervals.md",
        "Limits": "docs/limits.md",
        "Beside other tools": "docs/peers.md",
        "Time": "docs/time-model.md",
        "Power": "docs/power.md",
        "Calibrations and their errors": "docs/calibrations.md",
        "GPUs": "docs/gpus.md",
    },
    "Families": {},
    "Reference": {
        "Commands and options": "docs/commands.md",
        "Formats": "docs/formats.md",
        "Tables on disk": "docs/tables.md",
        "Kernel names": "docs/names.md",
        "Programs and agents": "docs/agents.md",
        "Glossary": "docs/glossary.md",
    },
    "Project": {
        "Reading fast": "docs/reading.md",
        "Tests": "docs/testing.md",
        "Untrusted traces": "docs/security.md",
        "Report a fault of security": "SECURITY.md",
        "Contributing": "CONTRIBUTING.md",
        "Changes": "CHANGELOG.md",
    },
}
_CONFIG = """
site_name: tracetool
site_description: Energy of a GPU job, kernel by kernel.
docs_dir: pages
site_dir: site
use_directory_urls: false
hooks: [site_math.py]
extra_css: [docs/site.css]
extra_javascript: [docs/site.js]
theme:
  name: material
  font: false
  features: [navigation.tabs, navigation.top, content.code.copy, search.highlight]
  palette:
    - {media: "(prefers-color-scheme: light)", scheme: default, toggle: {icon: material/weather-night, name: dark}}
    - {media: "(prefers-color-scheme: dark)", scheme: slate, toggle: {icon: material/weather-sunny, name: light}}
markdown_extensions:
  - tables
  - attr_list
  - toc: {permalink: true, slugify: !!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower-ascii}}}
  - pymdownx.highlight
  - pymdownx.superfences
  - pymdownx.arithmatex: {generic: true}
  - mdx_truly_sane_lists: {nested_indent: 2}
validation:
  nav: {omitted_files: warn, not_found: warn, absolute_links: warn}
  links: {not_found: warn, anchors: warn, absolute_links: warn, unrecognized_links: warn}
"""


def staged(folder: Path) -> Path:
    """Copy the pages and what they link to."""
    pages = folder / "pages"
    for name in TOP:
        place = pages / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        else:
            shutil.copy(ROOT / name, place)
    for page in sorted(pages.rglob("*.md")):
        text = page.read_text("utf-8")
        text = re.sub(r"^```console lines=\d+$", "```console", text, flags=re.MULTILINE)
        # a list right after a sentence is a list on GitHub, and text to Markdown
        text = re.sub(r"^(?!\s*(?:[-*|#>]|\d+\.))(.+)\n(?=(?:- |1\. ))", r"\1\n\n", text, flags=re.MULTILINE)
        page.write_text(text, "utf-8")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            real = (ROOT / page.relative_to(pages).parent / target).resolve()
            place = (page.parent / target).resolve()
            if real.is_file() and not place.exists() and place.is_relative_to(pages.resolve()):
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(real, place)
    return pages


def menu(pages: Path) -> str:
    """Return the menu as YAML; a page that stands nowhere is warned of, which fails the build."""
    families = {}
    for path in sorted((pages / "docs" / "families").glob("*.md")):
        families[path.read_text("utf-8").splitlines()[0].lstrip("# ")] = f"docs/families/{path.name}"
    lines = ["nav:"]
    for part, entries in MENU.items():
        lines.append(f"  - {part}:")
        lines += [f'      - "{title}": {path}' for title, path in (entries or families).items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Build the site."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "site")
    out = parser.parse_args().out.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pages = staged(folder)
        shutil.copy(Path(__file__).with_name("site_math.py"), folder)
        (folder / "mkdocs.yml").write_text(_CONFIG + menu(pages), "utf-8")
        words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
        done = subprocess.run(words, cwd=folder, check=False)
    if done.returncode == 0:
        print(out / "index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
