"""``action.yml`` and the GitLab example, run as far as a machine without a CI can."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compare.folders import write_folder, write_runs

yaml = pytest.importorskip("yaml")


def read(root: Path, name: str) -> Any:
    return yaml.safe_load((root / name).read_text("utf-8"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ci")
    write_runs(folder / "base", 2)
    write_runs(folder / "head", 2, slower=1.15)
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a folder for PATH with ``tracetool`` and a ``gh`` that keeps comments in a file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tracetool").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tracetool "$@"\n')
    (folder / "gh").write_text(
        f"#!{sys.executable}\n"
        "import json, os, pathlib, sys\n"
        "kept = pathlib.Path(os.environ['COMMENTS'])\n"
        "comments = json.loads(kept.read_text()) if kept.exists() else {}\n"
        "words = sys.argv[1:]\n"
        "assert words[0] == 'api', words\n"
        "if 'graphql' in words:\n"
        "    print('energy[bot]')\n"
        "elif '--jq' in words:\n"
        "    mark = words[words.index('--jq') + 1].split('\"')[1]\n"
        "    print(*[f'{k}\\t{a}' for k, (a, v) in comments.items() if v.startswith(mark)], sep='\\n')\n"
        "else:\n"
        "    method, place = words[2], words[3]\n"
        "    body = pathlib.Path(words[words.index('-F') + 1].removeprefix('body=@')).read_text()\n"
        "    number = place.rsplit('/', 1)[1] if method == 'PATCH' else str(100 + len(comments))\n"
        "    assert method in ('PATCH', 'POST') and place.startswith('repos/owner/name/issues/')\n"
        "    comments[number] = ['energy[bot]', body]\n"
        "    kept.write_text(json.dumps(comments))\n"
    )
    for program in folder.iterdir():
        program.chmod(0o755)
    return folder


def run_step(
    root: Path, step: dict[str, Any], programs: Path, **given: str
) -> subprocess.CompletedProcess[str]:
    """Run a step of the action with its environment; what the runner would fill in is given."""
    assert set(given) <= set(step["env"]) | {"GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "COMMENTS"}
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "GITHUB_ACTION_PATH": str(root)}
    environment |= {name: given.get(name, "") for name in step["env"]} | given
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env=environment, cwd=root, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def outputs(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text("utf-8").splitlines())


def test_the_action_compares_publishes_and_fails(
    root: Path, folders: Path, programs: Path, tmp_path: Path
) -> None:
    steps = {s["name"]: s for s in read(root, "action.yml")["runs"]["steps"]}
    said, summary, folder = tmp_path / "out", tmp_path / "summary", tmp_path / "report"
    done = run_step(
        root, steps["Compare"], programs,
        TRACETOOL=str(programs / "tracetool"), FOLDER=str(folder), BASE_RUNS=str(folders / "base"),
        HEAD_RUNS="\n".join(str(p) for p in sorted((folders / "head").iterdir())) + "\n",
        FAIL_ON="energy=2%\n", ENERGY="auto", GITHUB_OUTPUT=str(said), GITHUB_STEP_SUMMARY=str(summary),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert outputs(said) == {"code": "1", "folder": str(folder), "verdict": "regressed"}
    assert summary.read_text("utf-8").startswith("### ❌ Energy +")
    assert sum(line.startswith("::error ") for line in done.stdout.splitlines()) == 1
    assert {p.suffix for p in folder.iterdir()} >= {".md", ".json", ".xml", ".sarif", ".html", ".parquet"}

    kept = tmp_path / "comments.json"
    for _ in range(2):  # the second run updates the comment of the first
        done = run_step(
            root, steps["Comment"], programs, REPOSITORY="owner/name", NUMBER="7",
            REPORT=str(folder / "report.md"), COMMENTS=str(kept),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    comments = json.loads(kept.read_text())
    assert len(comments) == 1
    assert "### ❌ Energy +" in next(iter(comments.values()))[1]

    assert run_step(root, steps["Verdict"], programs, CODE="1").returncode == 1
    assert run_step(root, steps["Verdict"], programs).returncode == 2  # nothing was compared


def test_a_comment_of_somebody_else_is_never_edited(root: Path, programs: Path, tmp_path: Path) -> None:
    """Anyone can write the marker: the first comment that held it was taken for the action's own."""
    step = next(s for s in read(root, "action.yml")["runs"]["steps"] if s["name"] == "Comment")
    report, kept = tmp_path / "report.md", tmp_path / "comments.json"
    theirs = {
        "1": ["somebody", "<!-- tracetool energy report --> mine"],
        "2": ["energy", "<!-- tracetool energy report -->"],
    }
    kept.write_text(json.dumps(theirs))
    for text in ("first", "second"):
        report.write_text(text)
        done = run_step(
            root, step, programs, REPOSITORY="owner/name", NUMBER="7", REPORT=str(report), COMMENTS=str(kept)
        )
        assert done.returncode == 0, done.stderr
    comments = json.loads(kept.read_text())
    assert {n: comments[n] for n in theirs} == theirs
    own = [body for number, (_, body) in comments.items() if number not in theirs]
    assert own == ["<!-- tracetool energy report -->\nsecond"]


def test_the_action_ingests_traces_and_says_what_is_wrong(
    root: Path, samples: Path, programs: Path, tmp_path: Path
) -> None:
    step = next(s for s in read(root, "action.yml")["runs"]["steps"] if s["name"] == "Compare")
    trace = samples / "mi300x_kernel_trace.csv"
    said = tmp_path / "out"
    common = {"TRACETOOL": str(programs / "tracetool"), "GITHUB_OUTPUT": str(said), "GPU": "mi300x"}
    done = run_step(
        root, step, programs, HEAD_RUNS=str(trace), BASE_RUNS=str(trace), FOLDER=str(tmp_path / "r"),
        FAIL_ON="energy=2%", **common,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert outputs(said)["verdict"] == "unchanged"
    said.unlink()
    done = run_step(
        root, step, programs, HEAD_RUNS=str(tmp_path / "none.sqlite"), FOLDER=str(tmp_path / "s"), **common
    )
    assert done.returncode == 2
    assert outputs(said) == {"code": "2"}
    assert done.stderr.count("\n") == 1


def test_text_from_a_workflow_never_becomes_a_script(
    root: Path, folders: Path, programs: Path, tmp_path: Path
) -> None:
    steps = read(root, "action.yml")["runs"]["steps"]
    assert all("${{" not in s.get("run", "") for s in steps)
    compare = next(s for s in steps if s["name"] == "Compare")
    planted = tmp_path / "planted"
    evil = f"$(touch {planted}); `touch {planted}` ' \" energy=2%"
    done = run_step(
        root, compare, programs, TRACETOOL=str(programs / "tracetool"), FOLDER=str(tmp_path / "r"),
        HEAD_RUNS=str(folders / "head"), BASE_RUNS=str(folders / "base"), FAIL_ON=evil,
        GITHUB_OUTPUT=str(tmp_path / "out"),
    )  # fmt: skip
    assert done.returncode == 2
    assert not planted.exists()


def test_the_action_states_what_it_uses(root: Path) -> None:
    action = read(root, "action.yml")
    text = (root / "action.yml").read_text("utf-8")
    for name, given in action["inputs"].items():
        assert given["description"]
        assert f"inputs.{name}" in text, f"input {name} is never used"
    compare = (root / "ci" / "compare.sh").read_text("utf-8")
    step = next(s for s in action["runs"]["steps"] if s["name"] == "Compare")
    for variable in step["env"]:
        assert f"${{{variable}" in compare, f"{variable} is never read"


def test_the_gitlab_example_runs(root: Path, programs: Path, tmp_path: Path) -> None:
    jobs = read(root, "ci/gitlab-ci.example.yml")
    (tmp_path / "head").mkdir()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.tracetool]\nfail-on = ["energy=2%"]\nbaseline = ".baselines"\n'
    )
    for i in range(2):
        write_folder(tmp_path / "head" / f"run-{i}.tracetool", seed=i)

    def script(job: str) -> subprocess.CompletedProcess[str]:
        lines = jobs[job]["script"]
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "CI_COMMIT_BRANCH": "main"}
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", "\n".join(lines)],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip

    done = script("energy-baseline")
    assert done.returncode == 0, done.stderr
    for i in range(2):
        write_folder(tmp_path / "head" / f"run-{i}.tracetool", seed=i, slower=1.3)
    done = script("energy")
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("error: energy +")
    reports = jobs["energy"]["artifacts"]["reports"]
    assert (tmp_path / reports["junit"]).is_file()
    findings = json.loads((tmp_path / reports["codequality"]).read_text("utf-8"))
    assert [f["check_name"] for f in findings] == ["tracetool-regression"]
    assert findings[0]["location"]["path"] == "pyproject.toml"


def test_the_gitlab_example_takes_runs_and_traces(root: Path, tmp_path: Path) -> None:
    """Runs made by ``record`` leave nothing to ingest; merge requests leave the baselines as they are."""
    jobs = read(root, "ci/gitlab-ci.example.yml")
    loop = jobs[".energy"]["before_script"][1]
    (tmp_path / "head").mkdir()
    done = subprocess.run(["bash", "-e", "-c", loop], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert jobs["energy"]["cache"]["policy"] == "pull"
    assert "cache" not in jobs["energy-baseline"]


def test_the_github_example_makes_the_baselines_that_it_compares_with(
    root: Path, programs: Path, tmp_path: Path
) -> None:
    jobs = read(root, "ci/github.example.yml")["jobs"]
    kept, restored = (
        next(s["with"] for s in jobs[job]["steps"] if "cache" in s.get("uses", ""))
        for job in ("baseline", "energy")
    )
    assert kept["path"] == restored["path"] == ".baselines"
    assert kept["key"].replace("ref_name", "base_ref") == restored["key"]
    assert restored["key"].startswith(restored["restore-keys"])
    (tmp_path / "head").mkdir()
    write_folder(tmp_path / "head" / "run-0.tracetool")
    *_, add, prune = jobs["baseline"]["steps"][-1]["run"].splitlines()
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "GITHUB_REF_NAME": "main"}
    done = subprocess.run(
        ["bash", "-e", "-c", f"{add}\n{prune}"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / ".baselines").rglob("branch=main/*/*.parquet"))
