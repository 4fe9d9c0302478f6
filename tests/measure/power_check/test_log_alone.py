"""A power log without a trace: what can be checked of it is, and what it is not is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tracetool as tt

START_S = 1_767_607_200


def _log(path: Path, power_w: list[float]) -> Path:
    rows = (f"{START_S + 0.1 * i:.3f},{w:.2f}" for i, w in enumerate(power_w))
    path.write_text("\n".join(["time,power_w", *rows]) + "\n")
    return path


def test_a_good_log_and_one_that_stands_still(tmp_path: Path) -> None:
    power_w = 300.0 + 50.0 * np.sin(np.arange(200) / 5.0)
    moving = tt.check_power(_log(tmp_path / "moving.csv", power_w.tolist()), gpu="rtx-3090")
    by_check = {row["check"]: row for row in moving.findings.iter_rows(named=True)}
    assert by_check["coverage"]["reason"].startswith("no trace")
    assert by_check["stuck"]["verdict"] == by_check["range"]["verdict"] == "good"
    still = tt.check_power(_log(tmp_path / "still.csv", [300.0] * 200), gpu="rtx-3090")
    assert still.verdict == "unusable"
    assert any(reason.startswith("stuck") for reason in still.reasons)
    above = tt.check_power(_log(tmp_path / "above.csv", (2 * power_w).tolist()), gpu="rtx-3090")
    assert any("another GPU's log" in reason for reason in above.reasons)


def test_a_log_of_a_cpu_and_a_table_without_a_log_are_refused(tmp_path: Path) -> None:
    zone = "/sys/class/powercap/intel-rapl:0"
    lines = [
        f"{START_S + i / 10:.3f}\n{zone}/name:package-0\n{zone}/energy_uj:{10**8 + i * 8_000_000}"
        for i in range(40)
    ]
    rapl = tmp_path / "rapl.txt"
    rapl.write_text("\n".join(lines) + "\n")
    with pytest.raises(tt.BadInput, match="no power readings of a GPU"):
        tt.check_power(rapl)
    assert "0 readings of GPUs, 40 of other scopes" in tt.ingest(rapl, out=tmp_path / "r").summary()
    activity = tmp_path / "activity.csv"
    activity.write_text("name,start_us,end_us\nload,1000000,2000000\n")
    with pytest.raises(tt.BadInput, match="without a power log"):
        tt.check_power(activity)


def _card(power_w: float) -> str:
    return json.dumps({"card0": {"Average Graphics Package Power (W)": str(power_w), "GPU use (%)": "50"}})


def test_json_of_rocm_smi_needs_only_time_stamps(tmp_path: Path) -> None:
    power_w = 300.0 + 50.0 * np.sin(np.arange(200) / 5.0)
    cards = [_card(round(w, 1)) for w in power_w.tolist()]
    bare = tmp_path / "snapshot.json"
    bare.write_text(cards[0])
    for refused in (lambda: tt.check_power(bare), lambda: tt.ingest(bare, out=tmp_path / "run")):
        with pytest.raises(tt.BadInput, match="its readings have no time stamps") as raised:
            refused()
        assert "date +%s.%N" in raised.value.fix
    stamped = tmp_path / "stamped.json"
    stamped.write_text("".join(f"{START_S + 0.1 * i:.3f}\n{card}\n" for i, card in enumerate(cards)))
    assert tt.check_power(stamped, gpu="mi100").verdict == "good"
