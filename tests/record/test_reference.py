"""The reference recorder: its plan, its procedure against fakes, and that it leaves the card as it is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.record.conftest import FAKES, Machine

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "benchmarks" / "reference"


@pytest.fixture(scope="module")
def loops() -> list[dict[str, object]]:
    told = "{'loops': plan.LOOPS, 's': plan.duration_s(), 'turns': plan.SEQUENCES}"
    text = f"import json, plan; print(json.dumps({told}))"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=REFERENCE, capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    assert told["s"] < 10 * 60, "with sensor, idle and transformer the whole must stay under 20 minutes"
    names = {loop["name"] for loop in told["loops"]}
    assert {n for first, second, *_ in told["turns"] for n in (first, second)} <= names
    return list(told["loops"])


def test_the_plan_covers_what_a_calibration_needs(loops: list[dict[str, object]]) -> None:
    assert len(loops) >= 40
    assert len({loop["name"] for loop in loops}) == len(loops)
    assert {loop["op"] for loop in loops} >= {"gemm", "attention", "norm", "softmax", "elementwise", "conv2d"}
    assert {loop["dtype"] for loop in loops if loop["op"] == "gemm"} >= {"bf16", "fp8", "fp32"}
    assert {loop.get("phase") for loop in loops if loop["op"] == "attention"} == {"prefill", "decode"}


def test_the_course_from_loops_to_manifest(machine: Machine) -> None:
    done = subprocess.run(
        [
            sys.executable, REFERENCE / "record.py", "-o", "ref", "--try", "--parts", "loops,infer,train",
            "--python", FAKES / "with-torch" / "python3",
        ],
        cwd=machine.folder, capture_output=True, text=True, check=False, timeout=200,
        env=machine.environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = machine.folder / "ref"
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    assert set(manifest["parts"]) == {"loops", "infer", "train"}
    assert manifest["parts"]["loops"]["left_out"] == {"gemm_fp8_8192x8192x8192": "no fp8 here"}
    assert manifest["parts"]["loops"]["driver"] == "570.1.fake"
    assert manifest["clocks_seen"]["clock_mhz"] == [345, 1755]
    assert manifest["bytes"] < 10 << 20
    assert sorted(p.name for p in out.iterdir()) == [
        "infer.tracetool", "loops.parquet", "loops.tracetool", "manifest.json", "train.tracetool",
    ]  # fmt: skip
    table = pl.read_parquet(out / "loops.parquet")
    assert table["op"].to_list() == ["gemm", "softmax", "elementwise"]
    assert table["duration_us"].to_list() == pytest.approx([5000] * 3, rel=0.1)
    assert table["power_w"].to_list() == pytest.approx([400.0] * 3, rel=0.1)
    assert table["clock_mhz"].to_list() == [1755.0] * 3
    assert pl.read_parquet(out / "infer.tracetool" / "kernels.parquet").height == 5


@pytest.mark.parametrize("folder", [REFERENCE, ROOT / "tracetool" / "record", ROOT / "tracetool" / "api"])
def test_nothing_sets_anything_on_a_card(folder: Path) -> None:
    setters = re.compile(
        r"nvml\w*(Set|Reset|Clear)[A-Z]\w*|amdsmi_(set|reset)\w*|nvidia-smi.{0,40}(-lgc|-pl|-ac|-pm)\b",
        re.IGNORECASE,
    )
    for path in folder.rglob("*.py"):
        for line in path.read_text("utf-8").splitlines():
            found = setters.search(line)
            assert found is None or "fix" in line or "how =" in line, f"{path.name}: {line.strip()}"


def test_it_says_what_it_needs(machine: Machine) -> None:
    done = subprocess.run(
        [sys.executable, REFERENCE / "record.py", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "--python" in done.stdout
