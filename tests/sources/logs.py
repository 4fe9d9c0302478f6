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
#: As InferenceX's ``benchmark_lib.sh`` keeps what ``amd-smi metric -p -c -t -u -w 1 --csv`` prints of an MI355X: lists in
#: quotes, a block of lines a second (utils/aggregate_power.py reads it).
INFERENCEX_AMD = (
    "timestamp,gpu,gfx_activity,umc_activity,mm_activity,vcn_activity,gfx_busy_inst_xcp_0,socket_power,gfx_voltage,"
    "throttle_status,power_management,gfx_0_clk,gfx_0_min_clk,gfx_0_max_clk,gfx_0_clk_locked,mem_0_clk,edge,hotspot,mem\n"
    + "\n".join(
        "".join(
            f"{START_S + i},{gpu},0,0,N/A,\"['N/A', 'N/A']\",\"[0, 0, 0, 0]\",{w + more:.0f},N/A,N/A,ENABLED,1700,500,2400,"
            "DISABLED,2000,N/A,37,23\n"
            for gpu, more in ((0, 0), (1, 400))
        )
        for i, w in enumerate(WATTS)
    )
)
#: A line for each GPU, as loggers around ``nvidia-smi`` write.
A_LINE_EACH = "timestamp,gpu_index,temperature_C,utilization_gpu_percent,power_W\n" + "".join(
    f"2026-01-05T05:00:0{i}.250Z,{gpu}, 38, 100, {w + more:.2f}\n"
    for i, w in enumerate(WATTS)
    for gpu, more in ((0, 0.0), (1, 400.0))
)
CODECARBON = (
    "timestamp,project_name,run_id,experiment_id,duration,emissions,emissions_rate,cpu_power,gpu_power,ram_power,"
    "cpu_energy,gpu_energy,ram_energy,energy_consumed,country_name,gpu_count,gpu_model,on_cloud,pue\n"
    + "".join(
        f"2026-01-05T05:00:0{i},job,845a8f50,5b0fa12a,{i + 1}.0,1e-6,1e-6,42.5,{w},10.0,"
        f"{42.5 * (i + 1) / 3.6e6!r},{sum(WATTS[: i + 1]) / 3.6e6!r},{10.0 * (i + 1) / 3.6e6!r},"
        f"{(sum(WATTS[: i + 1]) + 52.5 * (i + 1)) / 3.6e6!r},Canada,1,1 x NVIDIA RTX A5000,N,1.0\n"
        for i, w in enumerate(WATTS)
    )
)
SRT_SLURM = "schema_version,timestamp_unix,scrape_seq,hostname,gpu_index,gpu_uuid,power_w\n" + "".join(
    f"1,{START_S + i}.25,{i},{host},0,{uuid},{w + more}\n"
    for i, w in enumerate(WATTS)
    for host, uuid, more in (("cn02", "GPU-bbbb", 400.0), ("cn01", "GPU-aaaa", 0.0))
)
AIPERF = "".join(
    json.dumps(
        {"timestamp_ns": START_S * 10**9 + i * 10**9 + 250_000_000, "dcgm_url": f"http://{host}:9400/metrics",
         "gpu_index": 0, "gpu_uuid": uuid, "gpu_model_name": "NVIDIA H100 80GB HBM3", "hostname": host,
         "telemetry_data": {"gpu_power_usage": w, "energy_consumption": (i + 1) * 1e-4, "gpu_utilization": 90.0,
                            "sm_clock_frequency": 1980.0, "gpu_temperature": 51.0}}
    ) + "\n"
    for i, w in enumerate(WATTS)
    for host, uuid in (("cn01", "GPU-aaaa"), ("cn02", "GPU-bbbb"))
)  # fmt: skip
PMT = "timestamp gpu_instant\n" + "".join(
    f"{START_S + i}.250 {w:.3f}\n" + ('M 1.098 "start"\n' if i == 0 else "") for i, w in enumerate(WATTS)
)
POWERSENSOR3 = (
    "marker time dt_micro device_timestamp current0 voltage0 power0 current1 voltage1 power1 power_total\n"
    + "".join(
        f"S {i}.25 1000000 {i * 50} 5 12.0 60 {(w - 60) / 12.0:.6g} 12.0 {w - 60:g} {w:g}\n"
        + ("M A\n" if i == 1 else "")
        for i, w in enumerate(WATTS)
    )
)
EXPOSITION = "".join(
    f"{START_S + i}.250000000\n# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).\n"
    "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"
    f'DCGM_FI_DEV_POWER_USAGE{{gpu="0",UUID="GPU-aaaa",device="nvidia0",modelName="NVIDIA A10",Hostname="n1"}} {w}\n'
    f'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{gpu="0",UUID="GPU-aaaa",Hostname="n1"}} {(i + 1) * 1000.0}\n'
    f'DCGM_FI_DEV_SM_CLOCK{{gpu="0",UUID="GPU-aaaa",Hostname="n1"}} 1410\nnode_load1 3\n'
    for i, w in enumerate(WATTS)
)
ZEUS_WINDOWS = "start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy\n" + "".join(
    f"{START_S + i},step {i},1.0,100.0,50.0\n" for i in range(2)
)
TURBOSTAT = "".join(
    ("Time_Of_Day_Seconds\tCore\tCPU\tPkgWatt\tRAMWatt\n" if i != 1 else "")
    + f"{START_S + i}.250000\t-\t-\t{w:.2f}\t9.50\n{START_S + i}.250000\t0\t0\t{w:.2f}\t9.50\n"
    for i, w in enumerate(WATTS)
)
PERF_STAT = "# started on Mon Jan  5 05:00:00 2026\n\n" + "".join(
    f"     {i + 1}.000000000,S0,1,{w},Joules,power/energy-pkg/,1000000000,100.00,,\n"
    for i, w in enumerate(WATTS[:2])
)
_ZONE = "/sys/class/powercap/intel-rapl:0"
POWERCAP = "".join(
    f"{START_S + i}.250000000\n{_ZONE}/name:package-0\n{_ZONE}/energy_uj:{uj}\n"
    f"{_ZONE}/max_energy_range_uj:262143328850\n"
    for i, uj in enumerate((262_143_328_850 - 50_000_000, 50_000_000, 160_000_000))
)
IPMI = "".join(
    f"{START_S + i}.250000000\n\n    Instantaneous power reading:                   {w:.0f} Watts\n"
    "    Minimum during sampling period:                 93 Watts\n"
    "    IPMI timestamp:                           Mon Jan  5 05:00:00 2026\n"
    "    Power reading state is:                   activated\n\n\n"
    for i, w in enumerate(WATTS)
)
REDFISH = "".join(
    f"{START_S + i}.250000000\n"
    + json.dumps(
        {"@odata.id": "/redfish/v1/Chassis/1/Power", "PowerControl": [{"PowerConsumedWatts": w}]}, indent=1
    )
    + "\n"
    for i, w in enumerate(WATTS)
)
SLURM = "Job,Step,Node,Series,Date_Time,Elapsed_Time,Power, CPU_Frequency\n" + "".join(
    f"13,0,n1,Energy,2026-01-05T05:00:0{i},{i},{w:.0f},2100\n" for i, w in enumerate(WATTS)
)
#: As ``sh5util.c`` of Slurm 26.11 extracts the fields of ``acct_gather_energy/gpu`` and ``/rapl``; a second step of the
#: same node lists its readings again.
SLURM_GPU = "Step,Node,ElapsedTime,EpochTime,GPU0Power,GPU1Power\n" + "".join(
    f"{step},{node},{i},{START_S + i},{w + more:.0f},{w + more + 50:.0f}\n"
    for step, node, more in (("0", "n1", 0), ("1", "n1", 0), ("0", "n2", 400))
    for i, w in enumerate(WATTS)
)
SLURM_RAPL = "Step,Node,Series,ElapsedTime,EpochTime,Power,Socket0Power\n" + "".join(
    f"0,n1,Energy,{i},{START_S + i},{w:.0f},7\n" for i, w in enumerate(WATTS)
)
SACCT = (
    "JobID|JobName|ConsumedEnergyRaw|ElapsedRaw|Start|End\n"
    "77|train|330|2|2026-01-05T05:00:00|2026-01-05T05:00:02\n77.batch|batch|320|2|2026-01-05T05:00:00|2026-01-05T05:00:02\n"
    "77.extern|extern|||2026-01-05T05:00:00|2026-01-05T05:00:02\n"
)
XML = "".join(
    '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n'
    f"<timestamp>Mon Jan  5 05:00:0{i} 2026</timestamp>\n<gpu id='0'><product_name>NVIDIA A10</product_name>"
    f"<uuid>GPU-aaaa</uuid><gpu_power_readings><average_power_draw>{w} W</average_power_draw>"
    "<instant_power_draw>N/A</instant_power_draw></gpu_power_readings>"
    "<clocks><sm_clock>1410 MHz</sm_clock></clocks></gpu></nvidia_smi_log>\n"
    for i, w in enumerate(WATTS)
)

#: As nvidia-smi of driver 580 prints.
SMI_TABLE = "".join(
    f"Mon Jan  5 05:00:0{i} 2026       \n"
    f"+{'-' * 89}+\n"
    "| NVIDIA-SMI 580.105.08             Driver Version: 580.105.08     CUDA Version: 13.0     |\n"
    f"+{'-' * 41}+{'-' * 24}+{'-' * 22}+\n"
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
    "|                                         |                        |               MIG M. |\n"
    f"|{'=' * 41}+{'=' * 24}+{'=' * 22}|\n"
    "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:97:00.0 Off |                    0 |\n"
    f"| N/A   28C    P0            {w:4.0f}W /  700W |       0MiB /  81559MiB |     97%      Default |\n"
    "|                                         |                        |             Disabled |\n"
    f"+{'-' * 41}+{'-' * 24}+{'-' * 22}+\n\n"
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
    scope: str = "gpu"
    rows: int = 3


LOGS = (
    Log("nvidia_smi", "smi.csv", NVIDIA_SMI, "local", clock_mhz=1410),
    Log("nvidia_smi_dmon", "dmon.log", DMON, "local", clock_mhz=1410, offset_s=0),
    Log("dcgmi_dmon", "dcgm.log", DCGMI, "utc", clock_mhz=1410, energy=(1.0, 2.0, 3.0)),
    Log("rocm_smi", "rocm.csv", ROCM_SMI, "utc", clock_mhz=1700),
    Log("rocm_smi", "rocm.json", ROCM_SMI_JSON, "utc"),
    Log("amd_smi", "amd.csv", AMD_SMI, "utc", clock_mhz=1700, offset_s=0),
    Log("amd_smi", "metric.csv", AMD_METRIC, "utc", energy=(1000.5, 1001.5, 1002.5), offset_s=0),
    Log("amd_smi", "gpu_metrics.csv", INFERENCEX_AMD, "utc", clock_mhz=1700, offset_s=0),
    Log("power_csv", "zeus.csv", ZEUS, "utc"),
    Log("power_csv", "gpus.csv", A_LINE_EACH, "utc"),
    Log("power_csv", "counter.csv", COUNTER, "utc", watts=(), energy=(100.0, 200.0, 300.0), offset_s=0),
    Log("prometheus", "range.json", PROMETHEUS, "utc", clock_mhz=1410),
    Log("nvidia_smi_table", "smi.log", SMI_TABLE, "local", offset_s=0),
    Log("nvidia_smi_xml", "smi.xml", XML, "local", clock_mhz=1410, offset_s=0),
    Log(
        "codecarbon",
        "emissions.csv",
        CODECARBON,
        "local",
        energy=(0.0, 100.0, 210.0, 330.0),
        offset_s=-1,
        rows=4,
    ),
    Log(
        "codecarbon",
        "emissions_cpu.csv",
        CODECARBON,
        "local",
        (42.5,) * 3,
        energy=(0.0, 42.5, 85.0, 127.5),
        offset_s=-1,
        scope="socket",
        rows=4,
    ),
    Log("srt_slurm", "samples.csv", SRT_SLURM, "utc"),
    Log(
        "aiperf_gpus",
        "gpu_telemetry_export.jsonl",
        AIPERF,
        "utc",
        clock_mhz=1980,
        energy=(100.0, 200.0, 300.0),
    ),
    Log("pmt", "pmt.log", PMT, "utc"),
    Log("powersensor3", "power.log", POWERSENSOR3, "session"),
    Log("prometheus_text", "metrics.txt", EXPOSITION, "utc", clock_mhz=1410, energy=(1.0, 2.0, 3.0)),
    Log("zeus_windows", "zeus.csv", ZEUS_WINDOWS, "utc", (), energy=(0.0, 100.0, 200.0), offset_s=0),
    Log("turbostat", "cpu.log", TURBOSTAT, "utc", scope="socket"),
    Log(
        "perf_stat",
        "perf.csv",
        PERF_STAT,
        "local",
        (),
        energy=(0.0, 100.0, 210.0),
        offset_s=0,
        scope="socket",
    ),
    Log(
        "powercap",
        "rapl.txt",
        POWERCAP,
        "utc",
        (),
        energy=(262_093.32885, 262_193.32885, 262_303.32885),
        scope="socket",
    ),
    Log("node_meter", "node.txt", IPMI, "utc", scope="node"),
    Log("node_meter", "redfish.txt", REDFISH, "utc", scope="node"),
    Log("slurm_energy", "energy.csv", SLURM, "local", offset_s=0, scope="node"),
    Log("slurm_energy", "gpus.csv", SLURM_GPU, "utc", offset_s=0),
    Log("slurm_energy", "rapl.csv", SLURM_RAPL, "utc", offset_s=0, scope="node"),
    Log(
        "slurm_energy", "sacct.txt", SACCT, "local", (), energy=(0.0, 330.0), offset_s=0, scope="node", rows=2
    ),
)
