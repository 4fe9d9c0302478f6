"""The CI files fit the schemas their readers publish, as the check-jsonschema package carries them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

FILES = {
    "vendor.github-actions": "action.yml",
    "vendor.github-workflows": "ci/github.example.yml",
    "vendor.gitlab-ci": "ci/gitlab-ci.example.yml",
}


@pytest.mark.parametrize("schema", FILES)
def test_it_fits_its_schema(schema: str, root: Path, tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    done = subprocess.run([*check, FILES[schema]], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    broken = tmp_path / Path(FILES[schema]).name
    broken.write_text((root / FILES[schema]).read_text("utf-8").replace("\n", "\nnonsense: [1\n", 1))
    done = subprocess.run([*check, str(broken)], capture_output=True, text=True, check=False)
    assert done.returncode == 1


def test_actionlint_finds_nothing(root: Path) -> None:
    lint = shutil.which("actionlint")
    if lint is None:
        pytest.skip("put actionlint on the PATH to run it")
    done = subprocess.run(
        [lint, "-no-color", "ci/github.example.yml"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_example_gives_the_action_only_what_it_takes(root: Path) -> None:
    def read(name: str) -> Any:
        return yaml.safe_load((root / name).read_text("utf-8"))

    steps = read("ci/github.example.yml")["jobs"]["energy"]["steps"]
    ours = next(s for s in steps if s.get("uses", "").startswith("OWNER/"))
    inputs = read("action.yml")["inputs"]
    assert set(ours["with"]) <= set(inputs)
    assert {k for k, v in inputs.items() if v.get("required")} <= set(ours["with"])
