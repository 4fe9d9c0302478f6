"""Threats of docs/security.md that no test of a part holds: code in files, entities, paths out of files."""

from __future__ import annotations

import ast
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.compare.folders import write_folder
from tests.conftest import Tool
from tests.sources.logs import LOGS

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "tracetool").rglob("*.py"))
#: Modules whose files are programs, or that fetch.
PROGRAMS = {
    "pickle",
    "cPickle",
    "marshal",
    "shelve",
    "dill",
    "joblib",
    "yaml",
    "socket",
    "urllib",
    "requests",
    "http",
}
#: Calls that run text as a program, and the last word of each.
CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen"}
LAST_OF_CALLS = {call.rpartition(".")[2] for call in CALLS}


def _dangers(path: Path) -> list[str]:
    dangers = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        dangers += [
            f"line {node.lineno}: imports {n}"
            for n in names
            if n.partition(".")[0] in PROGRAMS and n != "urllib.parse"
        ]  # type: ignore[attr-defined]
        if not isinstance(node, ast.Call):
            continue
        if getattr(node.func, "id", getattr(node.func, "attr", "")) in LAST_OF_CALLS:
            called = ast.unparse(node.func)
            if called in CALLS:
                dangers.append(f"line {node.lineno}: {called}")
        for word in node.keywords:
            if word.arg in ("shell", "allow_pickle") and ast.unparse(word.value) != "False":
                dangers.append(f"line {node.lineno}: {word.arg}")
    return dangers


def test_no_file_is_a_program() -> None:
    dangers = {p.relative_to(ROOT).as_posix(): d for p in FILES if (d := _dangers(p))}
    dangers.pop("tracetool/record/torch_launcher.py")  # runs the program that `record` was given
    assert not dangers


def test_a_danger_is_seen(tmp_path: Path) -> None:
    breach = tmp_path / "breach.py"
    breach.write_text(
        "import pickle\nfrom yaml import load\neval('1')\nrun(x, shell=True)\nfine(shell=False)\n"
    )
    assert [d.split(":")[0] for d in _dangers(breach)] == ["line 1", "line 2", "line 3", "line 4"]


def test_every_test_that_the_page_of_threats_names_exists() -> None:
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    named = re.findall(r"`((?:tests|nightly)/[^`]*)`", page)
    assert len(named) > 10
    assert not [n for n in named if not (ROOT / n).exists()]


def test_entities_of_a_log_are_not_expanded(tmp_path: Path, command: Tool) -> None:
    text = next(log.text for log in LOGS if log.format == "nvidia_smi_xml")
    kinds = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    bomb = f'<!DOCTYPE x [<!ENTITY e0 "boom"><!ENTITY file SYSTEM "file:///etc/passwd">{kinds}]>'
    for entity in ("&e11;", "&file;"):
        changed = re.sub(r"<product_name>[^<]*", f"<product_name>{entity}", text)
        path = tmp_path / "log.xml"
        path.write_text(re.sub(r"<!DOCTYPE[^>]*>", bomb, changed))
        done = command("ingest", path, "--tz", "+00:00", "-o", tmp_path / "run")
        assert done.returncode == 2
        assert "root:" not in done.stdout + done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside", "a/../../outside"])
def test_a_table_list_reads_and_writes_nothing_elsewhere(name: str, tmp_path: Path, command: Tool) -> None:
    run = tmp_path / "x.tracetool"
    write_folder(run)
    info = json.loads((run / "run.json").read_text())
    info["tables"] = {name: info["tables"]["kernels"]} | info["tables"]
    (run / "run.json").write_text(json.dumps(info))
    (tmp_path / "outside.parquet").write_text("no table")
    before = set(tmp_path.rglob("*"))
    for words in (("classify", run), ("export", run, "-o", tmp_path / "out.json", "--redact")):
        done = command(*words)
        assert done.returncode in (0, 2)  # what no table is called is not looked for
        assert "outside" not in done.stderr
        assert "Traceback" not in done.stderr
    assert set(tmp_path.rglob("*")) - {tmp_path / "out.json"} == before


def test_names_of_a_baseline_stay_in_its_store(tmp_path: Path, command: Tool) -> None:
    write_folder(tmp_path / "x.tracetool")
    where = tmp_path / "deep" / "store"
    where.parent.mkdir()
    hostile = "../../../outside"
    done = command(
        "baseline", "add", where, tmp_path / "x.tracetool", "--branch", hostile, "--commit", hostile, "-q"
    )
    assert done.returncode in (0, 2), done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "x.tracetool"]
    assert [p.name for p in where.parent.iterdir()] in (["store"], [])


@pytest.mark.parametrize(
    ("package", "said", "code"),
    [
        ({"version": "2.0.0", "vulns": []}, "1 packages looked up, 0 with known vulnerabilities", 0),
        ({"version": "2.0.0", "vulns": [{"id": "CVE-2026-1"}]}, "numpy 2.0.0: CVE-2026-1", 1),
        ({"skip_reason": "Dependency not found on PyPI"}, "not looked up: numpy: Dependency not found", 3),
    ],
)
def test_an_audit_that_could_not_look_a_package_up_fails(
    package: dict[str, object], said: str, code: int
) -> None:
    skipped = {"name": "tracetool", "skip_reason": "distribution marked as editable"}
    report = json.dumps({"dependencies": [{"name": "numpy", **package}, skipped]})
    lines, exit_code = _audit()["verdict"](report)
    assert exit_code == code
    assert said in "\n".join(lines)


def test_an_audit_of_nothing_fails() -> None:
    for report in ('{"dependencies": []}', ""):  # no package; pip-audit failed
        assert _audit()["verdict"](report)[1] == 3


def _audit() -> dict[str, Any]:
    """Return what nightly/audit.py defines."""
    return runpy.run_path(str(ROOT / "nightly" / "audit.py"))
