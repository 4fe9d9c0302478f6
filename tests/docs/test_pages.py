"""Every command in the documentation runs, and prints what the page shows but for the numbers."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from tests.conftest import Tool

ROOT = Path(__file__).resolve().parents[2]


def _refresh() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_refresh", ROOT / "docs" / "refresh.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_refresh"] = module
    spec.loader.exec_module(module)
    return module


REFRESH = _refresh()
PAGES = [p for p in REFRESH.PAGES if any(True for _ in REFRESH.shown(p.read_text("utf-8")))]


def _plain(line: str) -> str:
    """Return a line without what may change from one release to the next: numbers and blanks."""
    line = re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", line)
    return re.sub(r"\s+", " ", line).strip()


#: What only a shell does; a quoted word is read without one.
SHELL = re.compile(r"[|;&<>$`\"\\*]")
LOOP = re.compile(r"(?:(mkdir -p [\w ]+) && )?for i in ([\d ]+); do (tracetool [^;|&]+); done")
PIPE = re.compile(r"(tracetool [^|;&<>$`\\*]+) \| (.+)", re.DOTALL)
WRITES = re.compile(r"(?<= )-o (\S+)")
Printed = tuple[int, list[str]]


class Reader:
    """Types the lines of a page; what another page showed of the same files is not worked out again."""

    #: By command and what wrote its files: the folder it ran in, its output file, what it printed.
    known: ClassVar[dict[tuple[str, ...], tuple[Path, str, Printed]]] = {}

    def __init__(self, folder: Path, command: Tool) -> None:
        self.folder, self.command = folder, command
        self.written: dict[str, str] = {}

    def type(self, line: str) -> Printed:
        """Run a line: in this process where it is of commands of the tool, else in a shell."""
        if loop := LOOP.fullmatch(line):
            made, words, one = loop.groups()
            before = [self.type(made)] if made else []
            runs = [*before, *(self.type(one.replace("$i", word)) for word in words.split())]
            return max(code for code, _ in runs), [text for _, lines in runs for text in lines]
        if (pipe := PIPE.fullmatch(line)) and not line.count("&&"):
            done = self._tool(pipe[1])
            (self.folder / "piped").write_text(done.stdout, "utf-8")
            shell = f"({pipe[2]}) < piped"
            code, lines = REFRESH.run(shell, self.folder, Path(sys.executable).parent)
            return code or done.returncode, [*lines, *done.stderr.splitlines()]
        if not line.startswith("tracetool ") or SHELL.search(line):
            return REFRESH.run(line, self.folder, Path(sys.executable).parent)
        return self._known(line)

    def _tool(self, line: str) -> subprocess.CompletedProcess[str]:
        words = shlex.split(line)[1:]
        return self.command(*words, cwd=self.folder, NO_COLOR="1", COLUMNS=str(REFRESH.WIDTH))

    def _known(self, line: str) -> Printed:
        words = shlex.split(line)
        output = WRITES.search(line)
        name = output[1] if output else ""
        quiet = line.replace(" -q", "")
        what = WRITES.sub("-o OUT", quiet) if "-q" in words else line
        files = [w for w in words if w != name and (self.folder / w).exists() and not w.startswith("sample_")]
        key = (what, str("-q" in words), *(self.written.get(w, "") for w in files))
        sure = all(w in self.written for w in files) and words[1] not in ("fleet", "check", "baseline")
        if sure and key in self.known:
            folder, there, printed = self.known[key]
            if name:
                copy = shutil.copytree if (folder / there).is_dir() else shutil.copyfile
                copy(folder / there, self.folder / name)
        else:
            done = self._tool(line)
            lines = [text.rstrip() for text in (done.stdout + done.stderr).splitlines()]
            printed = done.returncode, lines
            if sure:
                self.known[key] = self.folder, name, printed
        if name and sure:
            self.written[name] = "|".join((WRITES.sub("", quiet), *key[2:]))
        return printed


@pytest.mark.usefixtures("fleet_here", "each_run_opened_once")
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path, command: Tool) -> None:
    reader = Reader(REFRESH.scratch(tmp_path), command)
    for block in REFRESH.shown(page.read_text("utf-8")):
        for one in block:
            code, lines = reader.type(one.command)
            text = "\n".join(lines)
            assert code in (0, 1), f"{one.command}: exit {code}\n{text}"
            assert "Traceback" not in text
            assert max((len(line) for line in lines), default=0) <= 160, one.command
            known = {_plain(line) for line in lines}
            missing = [line for line in one.output if line != "..." and _plain(line) not in known]
            share = len(missing) / max(len(one.output), 1)
            assert share <= 0.5, f"{one.command} no longer prints {missing[:5]}; run: python docs/refresh.py"


def test_the_readme_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert "make demo" in text
    assert "make test" in text


def test_the_newest_release_of_the_changelog_is_the_version() -> None:
    from tracetool.core.version import __version__

    releases = re.findall(r"^## \[(\d[\w.]*)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert releases[0] == __version__
    action = re.compile(r"OWNER/REPOSITORY@v([\w.]+)")
    named = [
        action.findall((ROOT / name).read_text("utf-8")) for name in ("docs/ci.md", "ci/github.example.yml")
    ]
    assert named == [[__version__], [__version__]]


def test_links_in_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "sample_traces" / "README.md"]:
        text = page.read_text("utf-8")
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            if not target.startswith(("http:", "https:", "mailto:")):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_index_links_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", index.read_text("utf-8"))
    linked = {(index.parent / link).resolve() for link in links if not link.startswith("http")}
    pages = {p.resolve() for p in (ROOT / "docs").rglob("*.md")} - {index.resolve()}
    assert pages <= linked, f"not linked: {sorted(p.name for p in pages - linked)}"


def _writer(name: str) -> ModuleType:
    """Load the script that writes a page."""
    from importlib.machinery import SourceFileLoader

    loader = SourceFileLoader(f"docs_{name}", str(ROOT / "docs" / f"{name}.py"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_page_of_sensors_is_the_classes_and_fields_of_the_files() -> None:
    """A new architecture may stand on the page later; what the page says, the files say."""
    module = _writer("sensors_page")
    shown = set(module.PAGE.read_text("utf-8").splitlines())
    assert shown <= set(module.page().splitlines()), "run: python docs/sensors_page.py"
    assert sum(line.startswith("| `") for line in shown) >= 10


def test_the_page_of_tables_is_the_schemas() -> None:
    module = _writer("tables_page")
    assert module.PAGE.read_text("utf-8") == module.page(), "run: python docs/tables_page.py"


def test_the_page_of_calibrations_is_what_the_files_of_the_fits_state() -> None:
    module = _writer("calibrations_page")
    assert module.PAGE.read_text("utf-8") == module.page(), "run: python docs/calibrations_page.py"
    rows = [line for line in module.page().splitlines() if line.startswith("| ")]
    assert len(rows) > 120


def test_the_menu_of_the_site_holds_every_page() -> None:
    site = _writer("site")
    listed = {path for entries in site.MENU.values() for path in entries.values()}
    pages = {p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert {p for p in pages if not p.startswith("docs/families/")} <= listed
    assert all((ROOT / path).is_file() for path in listed)


def test_formulas_of_pages_are_whole() -> None:
    """The site's converter is not installed here: braces and fences have to close at least."""
    found = 0
    for page in (ROOT / "docs").rglob("*.md"):
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert text.count("$$") % 2 == 0, page.name
        for formula in re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL):
            found += 1
            plain = re.sub(r"\\[{}|]", "", formula)
            assert plain.count("{") == plain.count("}"), f"{page.name}: {formula}"
            assert len(re.findall(r"\\left\b", formula)) == len(re.findall(r"\\right\b", formula)), page.name
    assert found > 25
