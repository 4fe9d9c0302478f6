"""What pages show without output can be typed too: the tool takes every line, and most of them are run."""

from __future__ import annotations

import ast
import json
import re
import shlex
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import typer
import yaml

from tests.conftest import Tool
from tests.docs.examples import PAGES, ROOT, blocks, lines, stand_ins
from tracetool.cli.app import build

COMMANDS = typer.main.get_command(build())
LINES = list(dict.fromkeys((page.name, line) for page in PAGES for line in lines(page)))
#: What only their reader has; the options are checked, and the tests named run the command itself.
NOT_HERE = {
    "s3://": "a bucket: tests/fleet",
    "record": "a GPU: tests/record",
    "sensor check": "a GPU: tests/record",
    "nsys-rep": "nsys: tests/sources",
    "activity.csv": "a log and its activities on one clock: tests/measure",
    "campaign.tracetool": "a campaign as a run: tests/measure/fingrav",
    "gemv.tracetool": "campaigns of a kernel each: tests/measure/fingrav",
    "serving.tracetool": "a server's run: tests/api",
    "my-gpu.toml": "a sensor identified before: tests/measure",
    "--check": "the extra torch: tests/forecast",
    "--compare": "a run of that model: tests/forecast",
}
#: What the stand-ins have run already to make files of other lines, and what a page shows with its output.
RUN_ELSEWHERE = ("tracetool fleet attribute fleet", "tracetool fleet energy fleet --by team")
#: A line of several pages runs once.
RUN = [
    (page, line)
    for line, page in {line: page for page, line in LINES}.items()
    if line not in RUN_ELSEWHERE and not any(word in line for word in NOT_HERE)
]
#: Of a line within a sentence, what stands for a path or a number of the reader's.
INLINE = re.compile(r"`(tracetool [a-z][^`\n]*)`")


def _parsed(line: str) -> None:
    """Let the command line take a line up to where the command would begin."""
    command, words = COMMANDS, shlex.split(line)[1:]
    name = "tracetool"
    while hasattr(command, "commands"):
        assert words, line
        if words[0].startswith("-"):  # of the tool itself, such as --version
            assert {words[0]} == set(words) & {flag for one in command.params for flag in one.opts}, line
            return
        assert words[0] in command.commands, f"{line}: no command {words[0]}"
        command, name = command.commands[words[0]], f"{name} {words[0]}"
        words = words[1:]
    command.make_context(name, words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_ins(tmp_path_factory.mktemp("examples"))


def test_pages_show_lines_to_type() -> None:
    assert len(LINES) > 40
    assert len(RUN) > 0.6 * len({line for _, line in LINES})


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{p}: {x}" for p, x in LINES])
def test_a_line_is_one_the_tool_takes(page: str, line: str) -> None:
    _parsed(line)


@pytest.mark.usefixtures("fleet_here", "each_run_opened_once")
@pytest.mark.parametrize(("page", "line"), RUN, ids=[f"{p}: {x}" for p, x in RUN])
def test_a_line_runs(page: str, line: str, folder: Path, command: Tool) -> None:
    done = command(*shlex.split(line)[1:], cwd=folder)
    assert done.returncode in (0, 1), f"{page}: {line}\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_an_option_that_is_not_there_is_found() -> None:
    with pytest.raises(Exception, match="no-such"):
        _parsed("tracetool classify run.tracetool --no-such")


def test_commands_within_sentences_are_there() -> None:
    """Names and options; values and paths are the reader's."""
    checked = 0
    for page in PAGES:
        if page.name == "CHANGELOG.md":  # of its time
            continue
        for line in INLINE.findall(page.read_text("utf-8")):
            command, words = COMMANDS, line.split()[1:]
            while hasattr(command, "commands") and words and re.fullmatch(r"[a-z-]+", words[0]):
                assert words[0] in command.commands, f"{page.name}: {line}"
                command, words = command.commands[words[0]], words[1:]
            known = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)} | {"--help"}
            asked = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            checked += 1
            if "--" not in words:
                assert asked <= known, f"{page.name}: {line}"
    assert checked > 50


@pytest.mark.usefixtures("fleet_here", "each_run_opened_once")
@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p.read_text("utf-8"), "python")], ids=lambda p: p.name
)
def test_python_of_a_page_runs(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for block in blocks(page.read_text("utf-8"), "python"):
        assert ast.parse(block)
        exec(compile(block, str(page), "exec"), {"__name__": "page"})


def test_documents_of_pages_are_whole() -> None:
    found = 0
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in blocks(text, "json"):
            json.loads(block)
            found += 1
        for block in blocks(text, "yaml"):
            assert yaml.safe_load(block)
            found += 1
    assert found >= 3


def test_every_picture_is_shown_and_stands_on_its_own() -> None:
    pictures = {p for kind in ("svg", "png") for p in (ROOT / "docs").rglob(f"*.{kind}")}
    shown = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text("utf-8"))
    }
    assert pictures
    assert pictures == shown
    for picture in pictures:
        if picture.suffix == ".svg":
            text = picture.read_text("utf-8")
            assert ET.fromstring(text).tag.endswith("svg")
            assert 'xmlns="http://www.w3.org/2000/svg"' in text
            assert "<title" in text
            assert "<script" not in text


def test_scripts_and_targets_of_pages_are_there() -> None:
    """A script that a page names is a file that knows each option shown; a target stands in the Makefile."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    script = re.compile(r"(?<![\w/])((?:benchmarks|nightly|docs)/\w+\.py)((?: [^`\n]*)?)")
    seen: set[str] = set()
    for page in PAGES:
        if page.name == "CHANGELOG.md":  # of its time
            continue
        text = page.read_text("utf-8")
        for name, options in script.findall(text):
            path = ROOT / name
            assert path.is_file(), f"{page.name}: {name}"
            seen.add(name)
            if f"python {name}{options}" in text:
                source = path.read_text("utf-8")
                for option in re.findall(r"(?<=\s)--[a-z][\w-]*", options):
                    assert f'"{option}"' in source, f"{page.name}: {name} {option}"
        for target in re.findall(r"`make (\w+)`", text):
            assert f"\n{target}:" in makefile, f"{page.name}: make {target}"
    assert len(seen) > 40


def test_the_page_of_commands_is_the_command_line() -> None:
    spec = spec_from_file_location("docs_commands_page", ROOT / "docs" / "commands_page.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text("utf-8") == module.page(), "run: python docs/commands_page.py"


def test_pictures_of_the_sample_show_what_the_text_beside_them_prints() -> None:
    """Drawn by hand with ``python docs/picture.py``: shares of causes and joules of parts, as printed."""
    page = (ROOT / "docs" / "first-ten-minutes.md").read_text("utf-8")

    def told(picture: str) -> str:
        text = (ROOT / "docs" / f"{picture}.svg").read_text("utf-8")
        described = re.search(r"<desc[^>]*>(.*?)</desc>", text)
        assert described is not None
        return described[1]

    for cause, kilojoules, pct in re.findall(
        r"^(useful|oversized clock|host-bound) +([\d.]+) \(\S+\) +([\d.]+) ", page, re.MULTILINE
    ):
        assert re.search(rf"{cause} [\d.,]+ J, {pct} %", told("causes")), (cause, kilojoules)
    parts = re.findall(r"^(computing|copies|idle: host-bound) +([\d.]+) \(", page, re.MULTILINE)
    assert len(parts) == 3
    for part, kilojoules in parts:
        joules = re.search(rf"{part} [\d.,]+ ms, ([\d.,]+) J", told("budget"))
        assert joules is not None
        assert float(joules[1].replace(",", "")) == pytest.approx(1000 * float(kilojoules), rel=5e-3)


def test_the_interval_that_prose_quotes_is_the_one_that_commands_print() -> None:
    page = (ROOT / "docs" / "first-ten-minutes.md").read_text("utf-8")
    printed = re.search(r"^Run of .*; (\S+) J measured \(90 %: (\S+) to (\S+)\)$", page, re.MULTILINE)
    assert printed is not None
    for name in ("first-ten-minutes.md", "intervals.md"):
        text = (ROOT / "docs" / name).read_text("utf-8")
        quoted = re.findall(r"`([\d,]+) J \(([\d,]+)\.\.([\d,]+)\)`", text)
        assert quoted == [printed.groups()], name
