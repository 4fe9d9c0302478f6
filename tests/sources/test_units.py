"""A counter in another unit than the power beside it: refused in every format that holds both."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.sources.logs import AMD_METRIC, CODECARBON, START_S
from tracetool.core.errors import BadInput
from tracetool.sources.detect import all_formats, detect
from tracetool.sources.telemetry.logs import read_telemetry
from tracetool.tables.power_log import COLUMNS, MAGIC

WATTS, COUNT = 200.0, 12


def _nvidia_smi(joules: Sequence[float]) -> str:
    head = "timestamp, index, power.draw [W], total_energy_consumption [mJ]\n"
    return head + "".join(
        f"2026/01/05 05:00:{i:02d}.250, 0, {WATTS:.2f} W, {1e3 * j!r} mJ\n" for i, j in enumerate(joules)
    )


def _dcgmi(joules: Sequence[float]) -> str:
    head = f"{START_S}.25 #Entity   POWER      TOTEC\n{START_S}.25 ID\n"
    return head + "".join(
        f"{START_S + i}.25 GPU 0     {WATTS:.3f}   {1e3 * j!r}\n" for i, j in enumerate(joules)
    )


def _amd_smi(joules: Sequence[float]) -> str:
    head = AMD_METRIC.split("\n", 1)[0]
    rows = [f"{START_S + i},0,{WATTS:.0f},N/A,N/A,N/A,ENABLED,{j!r}" for i, j in enumerate(joules)]
    return "\n".join([head, *rows]) + "\n"


def _aiperf(joules: Sequence[float]) -> str:
    return "".join(
        json.dumps(
            {"timestamp_ns": (START_S + i) * 10**9, "dcgm_url": "http://cn01:9400/metrics", "gpu_index": 0,
             "gpu_uuid": "GPU-aaaa", "gpu_model_name": "NVIDIA H100 80GB HBM3", "hostname": "cn01",
             "telemetry_data": {"gpu_power_usage": WATTS, "energy_consumption": j / 1e6}}
        ) + "\n"
        for i, j in enumerate(joules)
    )  # fmt: skip


def _prometheus_text(joules: Sequence[float]) -> str:
    labels = '{gpu="0",UUID="GPU-aaaa",Hostname="n1"}'
    return "".join(
        f"{START_S + i}.250000000\n# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"
        f"DCGM_FI_DEV_POWER_USAGE{labels} {WATTS}\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{labels} {1e3 * j!r}\n"
        for i, j in enumerate(joules)
    )


def _prometheus(joules: Sequence[float]) -> str:
    of = {"gpu": "0", "UUID": "GPU-aaaa"}
    series = {
        "DCGM_FI_DEV_POWER_USAGE": [WATTS] * len(joules),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": [1e3 * j for j in joules],
    }
    result = [
        {"metric": {"__name__": name, **of}, "values": [[START_S + i, str(v)] for i, v in enumerate(values)]}
        for name, values in series.items()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def _rocm_smi(joules: Sequence[float]) -> str:
    head = "device,Average Graphics Package Power (W),Energy counter,Accumulated Energy (uJ)\n"
    return "".join(
        f"{START_S + i}.250000000\n{head}card0,{WATTS},{j * 1e6 / 15.259!r},{j * 1e6!r}\n\n"
        for i, j in enumerate(joules)
    )


def _redfish(joules: Sequence[float]) -> str:
    return "".join(
        f"{START_S + i}.250000000\n"
        + json.dumps(
            {"@odata.id": "/redfish/v1/Chassis/1/EnvironmentMetrics", "PowerWatts": {"Reading": WATTS},
             "EnergykWh": {"Reading": j / 3.6e6}}
        ) + "\n"
        for i, j in enumerate(joules)
    )  # fmt: skip


def _codecarbon(joules: Sequence[float]) -> str:
    rows = [
        f"2026-01-05T05:00:{i:02d},job,845a8f50,5b0fa12a,{i + 1}.0,1e-6,1e-6,0,{WATTS},0,0,{j / 3.6e6!r},0,"
        f"{j / 3.6e6!r},Canada,1,1 x NVIDIA RTX A5000,N,1.0"
        for i, j in enumerate(joules)
    ]
    return "\n".join([CODECARBON.split("\n", 1)[0], *rows]) + "\n"


def _power_csv(joules: Sequence[float]) -> str:
    rows = [f"{START_S + i},{WATTS},{j / 3.6e6!r}" for i, j in enumerate(joules)]
    return "time,power_w,energy_kwh\n" + "\n".join(rows) + "\n"


def _tracetool(joules: Sequence[float]) -> str:
    pair = json.dumps({"what": "start", "boot_ns": 0, "utc_ns": START_S * 10**9, "half_width_ns": 10})
    rows = [
        ",".join(
            str({"time_ns": i * 10**9, "read_ns": 1000, "device": 0, "draw_mw": int(WATTS * 1e3),
                 "energy_uj": round(j * 1e6)}.get(c, ""))
            for c in COLUMNS
        )
        for i, j in enumerate(joules)
    ]  # fmt: skip
    return "\n".join([MAGIC, f"# {pair}", *rows]) + "\n"


#: Formats that hold power and a counter of one GPU, each in its own unit of energy.
LOGS: dict[str, Callable[[Sequence[float]], str]] = {
    "nvidia_smi": _nvidia_smi, "dcgmi_dmon": _dcgmi, "amd_smi": _amd_smi, "aiperf_gpus": _aiperf,
    "prometheus_text": _prometheus_text, "prometheus": _prometheus, "codecarbon": _codecarbon,
    "power_csv": _power_csv, "tracetool_power": _tracetool, "rocm_smi": _rocm_smi, "node_meter": _redfish,
}  # fmt: skip
#: Formats that hold power alone or energy alone.
WITHOUT = {
    "nvidia_smi_dmon", "nvidia_smi_table", "nvidia_smi_xml", "perf_stat", "pmt", "powercap", "powersensor3",
    "slurm_energy", "srt_slurm", "turbostat", "zeus_windows",
}  # fmt: skip


def _written(name: str, factor: float, folder: Path) -> Path:
    path = folder / f"{name}.log"
    path.write_text(LOGS[name]([WATTS * (i + 1) / factor for i in range(COUNT)]))
    return path


def test_every_format_of_power_is_in_one_of_the_lists() -> None:
    assert {n for n, f in all_formats().items() if f.holds == "telemetry"} == set(LOGS) | WITHOUT


@pytest.mark.parametrize("name", LOGS)
def test_a_counter_in_its_own_unit_is_read(name: str, tmp_path: Path) -> None:
    path = _written(name, 1.0, tmp_path)
    assert detect(path)[0] == name
    table = read_telemetry(path, "+00:00")
    gained = table["energy_j"].drop_nulls()
    assert gained.max() - gained.min() == pytest.approx(WATTS * COUNT, abs=WATTS)  # type: ignore[operator]


@pytest.mark.parametrize("factor", [1e3, 3.6e3, 1e6, 3.6e6, 1e-3, 1e-6])
@pytest.mark.parametrize("name", LOGS)
def test_a_counter_in_another_unit_is_refused_with_both_figures(
    name: str, factor: float, tmp_path: Path
) -> None:
    path = _written(name, factor, tmp_path)
    with pytest.raises(
        BadInput, match=r"integrates to [\d.,]+ J and its energy counter gained \S+ J"
    ) as refused:
        read_telemetry(path, "+00:00")
    assert "\n" not in refused.value.line()
    assert path.name in refused.value.line()


@pytest.mark.parametrize("scale", [1e3, 1e6])
@pytest.mark.parametrize("name", LOGS)
def test_power_in_another_unit_is_refused_with_both_figures(
    name: str, scale: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Milliwatts stated as watts are more than any GPU draws: not left out as broken readings."""
    joules = [WATTS * (i + 1) for i in range(COUNT)]
    monkeypatch.setitem(globals(), "WATTS", WATTS * scale)
    path = tmp_path / f"{name}.log"
    path.write_text(LOGS[name](joules))
    with pytest.raises(BadInput, match=r"integrates to \S+ J and its energy counter gained [\d.,]+ J"):
        read_telemetry(path, "+00:00")


def test_power_that_no_gpu_draws_is_refused_without_a_counter(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_text("time,power_w\n" + "".join(f"{START_S + i},{300_000 + i}\n" for i in range(COUNT)))
    with pytest.raises(BadInput, match=r"300,?00\d W of power, no GPU draws more than 20,?000 W") as refused:
        read_telemetry(path)
    assert "milliwatts" in refused.value.line()


def test_a_spike_beside_a_counter_is_no_other_unit(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    rows = [f"{START_S + i},{1.2e6 if i == 5 else WATTS},{WATTS * i}" for i in range(COUNT)]
    path.write_text("time,power_w,energy_j\n" + "\n".join(rows) + "\n")
    assert read_telemetry(path)["power_w"].drop_nulls().len() == COUNT - 1


@pytest.mark.parametrize(
    ("head", "factor", "meaning"),
    [
        ("time,power_w,energy_j", 3.6e6, "kilowatt hours taken for joules"),
        ("time,power_w,energy_kwh", 1.0, "joules taken for kilowatt hours"),
        ("time,power_w,energy_j", 1e6, "MJ for J"),
        ("time,power_w,energy_j", 1e-6, "microjoules taken for joules"),
    ],
)
def test_a_refusal_says_which_unit_was_taken_for_which(
    head: str, factor: float, meaning: str, tmp_path: Path
) -> None:
    path = tmp_path / "power.csv"
    rows = [f"{START_S + i},{WATTS},{WATTS * i / factor!r}" for i in range(COUNT)]
    path.write_text("\n".join([head, *rows]) + "\n")
    with pytest.raises(BadInput, match=meaning):
        read_telemetry(path)


@pytest.mark.parametrize("step", [0, 1])
def test_one_gpu_of_two_in_another_unit_is_refused(step: int, tmp_path: Path) -> None:
    """Left out as broken, the run would lose a GPU; a driver's one value for "none" is left out."""
    path = tmp_path / "power.csv"
    rows = [f"{START_S + i},{g},{WATTS if g else 300_000 + i * step}" for i in range(COUNT) for g in (0, 1)]
    path.write_text("time,gpu_index,power_w\n" + "\n".join(rows) + "\n")
    if step:
        with pytest.raises(BadInput, match=r"300,00\d W of power, no GPU draws more than 20,000 W"):
            read_telemetry(path)
    else:
        assert read_telemetry(path)["power_w"].drop_nulls().to_list() == [WATTS] * COUNT


def test_one_step_of_a_coarse_counter_tells_no_unit(tmp_path: Path) -> None:
    """A counter of whole kilowatt hours gains 3.6e6 J in one step, whenever that falls into the log."""
    path = tmp_path / "power.csv"
    rows = [f"{START_S + i},330,{(7 + (i > 5)) * 3.6e6}" for i in range(COUNT)]
    path.write_text("time,power_w,energy_j\n" + "\n".join(rows) + "\n")
    assert read_telemetry(path)["power_w"].drop_nulls().len() == COUNT
