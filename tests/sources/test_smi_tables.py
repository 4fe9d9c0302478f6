"""Tables that nvidia-smi prints, in the layouts of three generations of drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources.logs import SMI_TABLE, START_S
from tracetool.core.errors import TracetoolError
from tracetool.sources.detect import detect
from tracetool.sources.format import ReadOptions, Trace

#: Driver 384, of a computer whose second GPU was lost.
OLD = """Mon Jan  5 05:00:0{i} 2026
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 384.81                 Driver Version: 384.81                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla P100-SXM2...  On   | 00000000:06:00.0 Off |                    0 |
| N/A   50C    P0   196W / 300W |  15643MiB / 16276MiB |     97%   E. Process |
+-------------------------------+----------------------+----------------------+
|   1  Tesla K20X          On   | 0000:07:00.0     Off |                    0 |
|ERR!  ERR! ERR!    ERR! / ERR! |  15483MiB / 16276MiB |    ERR!      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0     44454      C   /usr/bin/python                            15631MiB |
+-----------------------------------------------------------------------------+

"""
#: Driver 610 on Windows: no line below each GPU, another mode.
NEW = """Mon Jan  5 05:00:0{i} 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 610.47                 KMD Version: 610.47        CUDA UMD Version: 13.3     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4060 Ti   WDDM  |   00000000:01:00.0 Off |                  N/A |
|  0%   40C    P8              9W /  160W |    1000MiB /   8188MiB |     28%      Default |
+-----------------------------------------+------------------------+----------------------+
"""


def _read(text: str, folder: Path) -> Trace:
    path = folder / "smi.log"
    path.write_text(text)
    name, found = detect(path)
    assert name == "nvidia_smi_table"
    return found.read(path, ReadOptions())


def test_an_old_table_is_read_and_a_name_cut_short_is_none(tmp_path: Path) -> None:
    trace = _read("".join(OLD.format(i=i) for i in range(2)), tmp_path)
    assert trace.telemetry.sort("time_ns").to_dicts() == [
        {"time_ns": (START_S + i) * 10**9, "device": 0, "temperature_c": 50.0, "power_limit_w": 300.0,
         "utilization": 0.97, "power_w": 196.0, "power_kind": None, "field": "power.draw", "scope": "gpu"}
        for i in range(2)
    ]  # fmt: skip
    assert trace.devices["name"].to_list() == [None, "Tesla K20X"]
    assert trace.clock.domain == "local"


def test_a_table_without_its_date_has_no_time(tmp_path: Path) -> None:
    """Of a log that was cut and put together, hours may lie between one table and the next."""
    tables = [OLD.format(i=i).replace("196W", f"{196 + i}W") for i in range(4)]
    cut = "".join([tables[0], *tables[1].splitlines(keepends=True)[1:], *tables[2:]])
    trace = _read(cut, tmp_path)
    assert trace.telemetry["power_w"].drop_nulls().sort().to_list() == [196.0, 198.0, 199.0]
    assert "no time stamp" in trace.rejected[-1]["reason"].to_list()


def test_a_table_of_windows_is_read(tmp_path: Path) -> None:
    trace = _read("".join(NEW.format(i=i) for i in range(2)), tmp_path)
    assert trace.telemetry["power_w"].to_list() == [9.0, 9.0]
    assert trace.telemetry["power_limit_w"].to_list() == [160.0, 160.0]
    assert trace.devices["name"].to_list() == ["NVIDIA GeForce RTX 4060 Ti"]


def test_stamps_before_the_lines_are_finer_than_the_dates(tmp_path: Path) -> None:
    lines = NEW.format(i=0).splitlines()
    trace = _read("".join(f"{START_S + i}.5 {line}\n" for i in range(3) for line in lines), tmp_path)
    assert trace.clock.domain == "utc"
    assert trace.telemetry["time_ns"].to_list() == [(START_S + i) * 10**9 + 5 * 10**8 for i in range(3)]


def test_a_table_cut_off_keeps_the_others(tmp_path: Path) -> None:
    whole = "".join(NEW.format(i=i) for i in range(3))
    trace = _read(whole[: whole.rindex("|  0%")], tmp_path)
    assert trace.telemetry.height == 2


@pytest.mark.parametrize("text", [NEW.format(i=0), SMI_TABLE + "step 1: loss 2.5\n" * 300])
def test_one_table_and_a_program_s_log_after_tables_are_no_power_log(text: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(text)
    with pytest.raises(TracetoolError):
        detect(path)


def test_tables_without_dates_are_refused(tmp_path: Path) -> None:
    text = "".join(line + "\n" for line in SMI_TABLE.splitlines() if line.startswith(("|", "+")))
    with pytest.raises(TracetoolError, match="no reading with a time"):
        _read(text, tmp_path)
