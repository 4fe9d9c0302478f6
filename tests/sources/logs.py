"""Power logs of every telemetry format: 2026-01-05 05:00:00 UTC on, three readings of 100, 110 and 120 W."""

# ruff: noqa: E501 - rows, headers and statements are written as the tools write them

from __future__ import annotations

import json
from dataclasses import dataclass

START_S = 1_767_589_200  # 2026-01-05 05:00:00 UTC
WATTS = (100.0, 110.0, 120.0)
STAMPS = tuple(f"2026/01/05 05:00:0{i}.250" for i in range(3))

NVIDIA_SMI = (
    "timestamp, index, uuid, power.draw [W], power.draw.instant [W], clocks.current.sm [MHz], temperature.gpu\n"
    + "".join(
        f"{s}, 0, GPU-aaaa, {w:.2f} W, [N/A], 1410 MHz, 50\n" for s, w in zip(STAMPS, WATTS, strict=True)
    )
)
DMON = (
    "#Date       Time        gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk\n"
    "#YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %     %     %   MHz   MHz\n"
    + "".join(f" 20260105   05:00:0{i}      0   {w:.0f}    37     -    90     0     0     0  1593  1410\n"
              for i, w in enumerate(WATTS))
)  # fmt: skip
DCGMI = "".join(
    f"{START_S + i}.25 {line}\n"
    for i, w in enumerate(WATTS)
    for line in (
        *(["#Entity   POWER      TOTEC      SMCLK     SMACT", "ID"] if i != 1 else []),
        f"GPU 0     {w:.3f}   {(i + 1) * 1000.0:.0f}      1410      0.500",
    )
)
ROCM_SMI = "".join(
    f"{START_S + i}.250000000\ndevice,Average Graphics Package Power (W),sclk clock speed:\n"
    f"card0,{w},(1700Mhz)\ncard1,N/A (Secondary die),(1700Mhz)\n\n"
    for i, w in enumerate(WATTS)
)
ROCM_SMI_JSON = "".join(
    f"{START_S + i}.250000000\n"
    + json.dumps(
        {"card0": {"Current Socket Graphics Package Power (W)": str(w), "Unique ID": "0x1"}}, indent=1
    )
    + "\n"
    for i, w in enumerate(WATTS)
)
AMD_SMI = (
    "timestamp,gpu,power_usage,hotspot_temperature,memory_temperature,gfx,gfx_clock,mem,mem_clock\n"
    + "".join(f"{START_S + i},0,{w:.0f},50,N/A,90,1700,10,900\n" for i, w in enumerate(WATTS))
)
AMD_METRIC = (
    "timestamp,gpu,socket_power,gfx_voltage,soc_voltage,mem_voltage,power_management,total_energy_consumption\n"
    + "".join(f"{START_S + i},0,{w:.0f},N/A,N/A,N/A,ENABLED,{1000.5 + i}\n" for i, w in enumerate(WATTS))
)
ZEUS = "Time,Power\n" + "".join(f"{START_S + i}.25,{w}\n" for i, w in enumerate(WATTS)) + "17675"
COUNTER = "timestamp_ms,gpu0_energy_mj,gpu1_energy_mj\n" + "".join(
    f"{(START_S + i) * 1000},{(i + 1) * 100_000},{(i + 1) * 50_000}\n" for i in range(3)
)
PROMETHEUS = json.dumps(
    {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [
                {"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "gpu": "0", "UUID": "GPU-aaaa",
                            "modelName": "NVIDIA H100 80GB HBM3"},
                 "values": [[START_S + i + 0.25, str(w)] for i, w in enumerate(WATTS)]},
                {"metric": {"__name__": "DCGM_FI_DEV_SM_CLOCK", "gpu": "0", "UUID": "GPU-aaaa"},
                 "values": [[START_S + i + 0.25, "1410"] for i in range(3)]},
                {"metric": {"__name__": "node_load1"}, "values": [[START_S, "3"]]},
            ],
        },
    }
)  # fmt: skip
XML = "".join(
    '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
    f"<timestamp>Mon Jan  5 05:00:0{i} 2026</timestamp>\n<gpu id='0'><product_name>NVIDIA A10</product_name>"
    f"<uuid>GPU-aaaa</uuid><gpu_power_readings><average_power_draw>{w} W</average_power_draw>"
    "<instant_power_draw>N/A</instant_power_draw></gpu_power_readings>"
    "<clocks><sm_clock>1410 MHz</sm_clock></clocks></gpu></nvidia_smi_log>\n"
    for i, w in enumerate(WATTS)
)


@dataclass(frozen=True)
class Log:
    """A log, its format, its zone, and what it holds besides watts."""

    format: str
    name: str
    text: str
    domain: str
    watts: tuple[float, ...] = WATTS
    clock_mhz: float | None = None
    energy: tuple[float, ...] = ()
    offset_s: float = 0.25


LOGS = (
    Log("nvidia_smi", "smi.csv", NVIDIA_SMI, "local", clock_mhz=1410),
    Log("nvidia_smi_dmon", "dmon.log", DMON, "local", clock_mhz=1410, offset_s=0),
    Log("dcgmi_dmon", "dcgm.log", DCGMI, "utc", clock_mhz=1410, energy=(1.0, 2.0, 3.0)),
    Log("rocm_smi", "rocm.csv", ROCM_SMI, "utc", clock_mhz=1700),
    Log("rocm_smi", "rocm.json", ROCM_SMI_JSON, "utc"),
    Log("amd_smi", "amd.csv", AMD_SMI, "utc", clock_mhz=1700, offset_s=0),
    Log("amd_smi", "metric.csv", AMD_METRIC, "utc", energy=(1000.5, 1001.5, 1002.5), offset_s=0),
    Log("power_csv", "zeus.csv", ZEUS, "utc"),
    Log("power_csv", "counter.csv", COUNTER, "utc", watts=(), energy=(100.0, 200.0, 300.0), offset_s=0),
    Log("prometheus", "range.json", PROMETHEUS, "utc", clock_mhz=1410),
    Log("nvidia_smi_xml", "smi.xml", XML, "local", clock_mhz=1410, offset_s=0),
)
