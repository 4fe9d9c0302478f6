"""Run folders edited by hand: every command ends in its result or in one line, and leaves nothing behind."""

# ruff: noqa: E501

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import polars as pl
import pytest

from tests.damaged.fuzz import EXAMPLES, FIRST, crash, numbers
from tests.damaged.mutate import change_file
from tests.damaged.mutate.tables import change_cells
from tests.damaged.small_run import small_run
from tracetool.cli.app import run as command
from tracetool.tables.run import UNLISTED_SCHEMA, Run, write_run
from tracetool.tables.schema import load_schema

_ALLOWED = {0, 1, 2, 3}
#: What reads a run, and how; RUN is the edited one, BASE the same unedited. Slow ones come up less often.
_COMMANDS = (
    *[["classify", "RUN", "-o", "OUT.csv"]] * 3,
    *[["predict", "RUN", "-o", "OUT.csv"], ["predict", "RUN", "--by", "range"], ["predict", "RUN", "--by", "operator"],
      ["predict", "RUN", "--by", "iteration"], ["predict", "RUN", "--by", "gap"], ["predict", "RUN", "--by", "power"]] * 2,
    *[["sweep", "RUN", "--clock", "900,1410"]] * 2,
    *[["diff", "RUN", "-o", "OUT.md"], ["diff", "BASE", "RUN", "-o", "OUT.md"], ["check", "RUN", "--base", "BASE"],
      ["baseline", "add", "STORE", "RUN"], ["attribute", "RUN", "-o", "OUT.csv"]],
    *[["profile", "RUN"], ["report", "RUN", "-o", "OUT.html"]],
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("whole"))


def edit_shape(run: Path, draw: random.Random) -> str:
    """Edit a file of a run as a script of somebody else's would: its JSON, its columns, their types."""
    if draw.random() < 0.7:  # of a run whose tables are not listed, no checksum is held against the edit
        info = json.loads((run / "run.json").read_text("utf-8"))
        (run / "run.json").write_text(json.dumps(info | {"schema": UNLISTED_SCHEMA}), "utf-8")
    files = sorted(run.iterdir())
    path = run / "run.json" if draw.random() < 0.3 else draw.choice(files)
    if draw.random() < 0.05:
        path.unlink()
        return f"{path.name} is gone"
    return f"{path.name}: {change_file(path, draw)}"


def edit_values(run: Path, draw: random.Random) -> str:
    """Edit one column of a run within its schema and write the run anew, so that it is whole in itself."""
    opened = Run.open(run)
    tables = {name: opened.table(name) for name in opened.info["tables"]}
    name = draw.choice(sorted(n for n in tables if tables[n].height))
    schema = load_schema(name)
    frame = tables[name]
    kind = draw.randrange(8)
    if kind == 0:
        tables[name], step = frame.clear(), "no rows"
    elif kind == 1:
        tables[name], step = frame.reverse(), "rows backwards"
    elif kind == 2:
        tables[name], step = pl.concat([frame, frame]), "rows twice"
    else:
        column = draw.choice(schema.columns)
        changed, step = change_cells(frame, column.name, draw)
        if not column.nullable and changed[column.name].null_count():
            return "nothing: that column may not be null"
        tables[name] = changed
    info = {k: v for k, v in opened.info.items() if k not in ("schema", "tool_version", "tables")}
    write_run(run, tables, info)
    return f"{name}: {step}"


@contextlib.contextmanager
def said_by_libraries() -> Iterator[list[str]]:
    """Yield a list that takes what is written to the process's standard error past Python."""
    texts: list[str] = []
    kept = os.dup(2)
    with TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield texts
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))


def obeys(arguments: list[str], folder: Path) -> str:
    """Run one command in this process; return what is wrong with how it ended, nothing if all is well."""
    before = {p.name for p in folder.iterdir()}
    out, err = io.StringIO(), io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            said_by_libraries() as libraries,
        ):
            code = command(arguments)
    except OSError as error:  # a path that cannot be: one line, but where debugging raises it
        return "" if error.filename and error.strerror else crash(error)
    except BaseException as error:  # noqa: BLE001 - Rust's panics are no Exception
        return crash(error)
    if text := "".join(libraries).strip():
        return f"a library prints by itself: {text.splitlines()[:2]}"
    return _wrong(code, out.getvalue(), err.getvalue(), {p.name for p in folder.iterdir()} - before)


def _wrong(code: int, printed: str, said: str, new: set[str]) -> str:
    """Return what is wrong with an exit code beside what was printed, said and left; nothing if all is well."""
    if code not in _ALLOWED:
        return f"exit code {code}"
    if code >= 2 and (len(said.splitlines()) != 1 or not said.startswith("error: ")):
        return f"exit code {code} without its one line: {said!r}"
    if code == 0 and (said or not printed.strip()):
        return f"exit code 0, yet: {said!r}"
    if code >= 2 and new:
        return f"exit code {code} leaves {sorted(new)}"
    figures = re.sub(r"note: columns without effect: .*", "", printed)  # the names that a table gave
    if re.search(r"\b(nan|inf)\b", figures):
        return f"figures that are none: {re.findall(r'.*(?:nan|inf).*', figures)[:2]}"
    return ""


@pytest.mark.timeout(8000)
@pytest.mark.parametrize("edit", [edit_shape, edit_values])
def test_a_command_on_an_edited_run_ends_well(
    edit: object, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACETOOL_DEBUG", "1")  # what nobody foresaw is raised, not said
    monkeypatch.chdir(tmp_path)
    faults: dict[str, str] = {}
    number = FIRST
    for number in numbers(EXAMPLES // 2):
        for old in tmp_path.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        run = tmp_path / "edited.tracetool"
        shutil.copytree(whole, run)
        draw = random.Random(zlib.crc32(f"{edit.__name__} {number}".encode()))  # type: ignore[attr-defined]
        step = edit(run, draw)  # type: ignore[operator]
        chosen = draw.choice(_COMMANDS)
        names = {"RUN": str(run), "BASE": str(whole), "STORE": "store"}
        arguments = [names.get(a, a.replace("OUT", "out")) for a in chosen]
        if fault := obeys(arguments, tmp_path):
            faults.setdefault(
                fault.split(": ")[0], f"example {number}: {step}\n  {' '.join(chosen)}\n  {fault}"
            )
    print(f"{edit.__name__}: {number - FIRST + 1} of {EXAMPLES // 2} examples, {len(faults)} kinds of faults")  # type: ignore[attr-defined]
    assert not faults, "\n" + "\n".join(faults.values())


def test_an_unedited_run_obeys(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the edited runs are held to holds of the whole one."""
    monkeypatch.chdir(tmp_path)
    for chosen in _COMMANDS[:1] + _COMMANDS[3:5]:
        assert not obeys([str(whole) if a == "RUN" else a.replace("OUT", "out") for a in chosen], tmp_path)
    assert json.loads((whole / "run.json").read_text())["sources"]
