"""What the doctor finds on machines with everything, with nothing, and with a broken driver."""

from __future__ import annotations

import json

import pytest

from tests.documents import check_document
from tests.record.conftest import Machine


def _checks(machine: Machine, **more: str) -> tuple[bool, dict[str, dict[str, str]]]:
    done = machine.tool("doctor", "--json", **more)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = json.loads(done.stdout)
    check_document("doctor", told)
    return told["can_record"], {c["subject"]: c for c in told["checks"]}


def test_a_machine_with_a_gpu_can_record(machine: Machine) -> None:
    able, checks = _checks(machine, FAKE_NVML_UPDATE_US="50000")
    assert able
    assert checks["NVIDIA driver"]["state"] == "ok"
    assert "570.1.fake" in checks["NVIDIA driver"]["found"]
    assert "H100" in checks["GPU 0"]["found"]
    assert "700 W" in checks["GPU 0"]["found"]
    assert "instant (every 50 ms)" in checks["GPU 0 power"]["found"]
    assert "not tried" in checks["GPU 0 clocks"]["found"] or "cannot" in checks["GPU 0 clocks"]["found"]
    assert checks["nsys"]["state"] == "ok"
    assert "2024.1.1" in checks["nsys"]["found"]


def test_a_machine_with_nothing_says_what_to_install(machine: Machine) -> None:
    able, checks = _checks(machine, LD_LIBRARY_PATH="/nowhere", PATH="/nowhere")
    assert not able
    for subject in ("NVIDIA driver", "AMD driver", "rocprofv3"):
        assert checks[subject]["state"] == "missing"
        assert checks[subject]["fix"]


@pytest.mark.parametrize("code", ["9", "999"])
def test_a_broken_driver_is_a_lack_and_no_more(machine: Machine, code: str) -> None:
    able, checks = _checks(machine, FAKE_NVML_ERROR=code)
    assert not able
    assert checks["NVIDIA driver"]["state"] == "missing"


def test_an_amd_machine(amd_machine: Machine) -> None:
    able, checks = _checks(amd_machine)
    assert able
    assert "MI300X" in checks["GPU 0"]["found"]
    assert checks["rocprofv3"]["state"] == "ok"


def test_a_requirement_not_met_is_exit_3(machine: Machine) -> None:
    done = machine.tool("doctor", "--require", LD_LIBRARY_PATH="/nowhere")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert max(map(len, done.stdout.splitlines())) <= 100
