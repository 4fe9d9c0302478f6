"""One run of any size on one machine: time and peak memory of each command against the number of kernels.

    python benchmarks/large_run.py [KERNELS ...] [--kineto GB] [--folder DIR] [--gib 6] [--commands a,b]

Traces are written to disk as they are made: rocprofv3 CSV of an MI300X, or with ``--kineto`` a PyTorch profiler
file of so many gigabytes, and a power log on its clock: readings every 20 ms, each the mean since the one before,
of kernels that draw 250 to 650 W by signature. Each command is a process of its own, killed (exit -9) once it holds more than ``--gib`` in memory. What it holds counts pages of mapped files too, as
a container's limit does; address space, of which most is never touched, does not count.
"""

# ruff: noqa: E501

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.tables.power_log import MAGIC

NAMES = (
    "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64_MI32x32x8x1",
    "Cijk_Alik_Bljk_BBS_BH_MT256x128x64_MI32x32x8x1",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>",
    "void at::native::softmax_warp_forward<c10::BFloat16, float, 10>",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
    "void at::native::indexSelectLargeIndex<c10::BFloat16, long>",
    "void at::native::multi_tensor_apply_kernel<at::native::AdamFunctor>",
)
SIGNATURES = 2000
_AT_ONCE = 500_000
_READING_NS = 20_000_000
_IDLE_W = 150.0
_DEVICE = {"index": 0, "name": "AMD Instinct MI300X"}
_AGENTS = (
    '"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Gfx_Target_Version","Max_Engine_Clk_Fcompute","Name","Product_Name"\n'
    '4,4,"GPU",304,90402,2100,"gfx942","AMD Instinct MI300X"\n'
)


def launches(kernels: int, seed: int = 1) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Give launches in blocks: number of the first, signature, start and duration, an idle time each 50 ms. [ns]"""
    of = np.random.default_rng(seed).integers(3_000, 60_000, SIGNATURES)
    at = 1_700_000_000_000_000_000
    for first in range(0, kernels, _AT_ONCE):
        n = min(_AT_ONCE, kernels - first)
        random = np.random.default_rng(seed + 1 + first)
        signature = (SIGNATURES * random.random(n) ** 2).astype(np.int64)
        duration = of[signature] + random.integers(0, 400, n)
        gap = random.integers(500, 3_000, n)
        gap[::1500] = 2_000_000  # between steps
        start = at + np.cumsum(duration + gap) - duration
        at = int(start[-1] + duration[-1])
        yield first, signature, start, duration


def readings(signature: np.ndarray, start: np.ndarray, duration: np.ndarray) -> Iterator[tuple[int, float]]:
    """Give time [ns] and power [W] of a log's readings for a block of launches, on the clock of ``start``."""
    watts = np.random.default_rng(3).uniform(250.0, 650.0, SIGNATURES)[signature]
    edges = np.stack([start, start + duration], axis=1).ravel() - start[0]
    drawn_w = np.stack([watts, np.full(len(start), _IDLE_W)], axis=1).ravel()[:-1]
    energy = np.concatenate([[0.0], np.cumsum(drawn_w * np.diff(edges))])
    at = np.arange(0, edges[-1], _READING_NS)
    mean_w = np.diff(np.interp(at, edges, energy)) / _READING_NS
    noise_w = np.random.default_rng(int(start[0] % 2**32)).normal(0.0, 1.0, len(mean_w))
    return zip((start[0] + at[1:]).tolist(), (mean_w + noise_w).tolist(), strict=True)


def rocprof(path: Path, kernels: int) -> tuple[Path, Path]:
    """Write a kernel trace of rocprofv3, the table of its agent and a power log on its clock."""
    path.with_name(path.name.replace("_kernel_trace", "_agent_info")).write_text(_AGENTS)
    names, log = pl.Series(NAMES), path.with_name("power.csv")
    with path.open("wb") as out, log.open("w") as power:
        power.write(f"{MAGIC}\n# {json.dumps({'what': 'start', 'vendor': 'amd', 'devices': [_DEVICE]})}\n")
        for first, signature, start, duration in launches(kernels):
            i, one = pl.int_range(first, first + len(start), eager=True), pl.lit(1)
            booted = start - 1_699_900_000_000_000_000  # a clock of the boot
            power.writelines(
                f"{t},50000,0,{1e3 * w:.0f},,,,,,,,,\n" for t, w in readings(signature, booted, duration)
            )
            frame = pl.DataFrame(
                {"s": signature, "Start_Timestamp": booted, "End_Timestamp": booted + duration, "i": i}
            )
            frame.select(
                Kind=pl.lit("KERNEL_DISPATCH"), Agent_Id=pl.lit("Agent 4"), Queue_Id=one, Stream_Id=one, Thread_Id=pl.lit(77),
                Dispatch_Id="i", Kernel_Id="s", Kernel_Name=names.gather(signature % len(NAMES)),
                Correlation_Id="i", Start_Timestamp="Start_Timestamp", End_Timestamp="End_Timestamp",
                LDS_Block_Size=pl.lit(1024), Scratch_Size=pl.lit(0), VGPR_Count=pl.lit(64), Accum_VGPR_Count=pl.lit(0),
                SGPR_Count=pl.lit(48), Workgroup_Size_X=pl.lit(256), Workgroup_Size_Y=one, Workgroup_Size_Z=one,
                Grid_Size_X=(pl.col("s") + 1) * 256, Grid_Size_Y=one, Grid_Size_Z=one,
            ).write_csv(out, include_header=first == 0, quote_style="non_numeric")  # fmt: skip
        power.write(f"# {json.dumps({'what': 'end'})}\n")
    return path, log


def kineto(path: Path, size_bytes: float) -> tuple[Path, Path, int]:
    """Write a profiler file of that size (operator, call and kernel of each launch) and a power log."""
    log = path.with_name("power.csv")
    kernels, power = 0, log.open("w")
    power.write("time_us,device,power_w\n")
    with path.open("w") as out:
        out.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132,'
                  ' "totalGlobalMem": 85000000000, "computeMajor": 9, "computeMinor": 0}],'
                  ' "baseTimeNanoseconds": 0, "displayTimeUnit": "ms", "traceEvents": [\n'
                  '{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}')  # fmt: skip
        for first, signature, start, duration in launches(1 << 40):
            at = (start // 1000).tolist()
            power.writelines(f"{t // 1000},0,{w:.1f}\n" for t, w in readings(signature, start, duration))
            text = [
                f',\n{{"ph": "X", "cat": "cpu_op", "name": "aten::mul", "pid": 1, "tid": 1, "ts": {t - 18}.500, "dur": 11.000,'
                f' "args": {{"External id": {first + i + 1}, "Record function id": 0, "Ev Idx": {first + i}}}}}'
                f',\n{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {t - 12}.250,'
                f' "dur": 4.500, "args": {{"External id": {first + i + 1}, "cbid": 211, "correlation": {first + i + 1}}}}}'
                f',\n{{"ph": "X", "cat": "kernel", "name": "{NAMES[2 + s % 6]}", "pid": 0, "tid": 7, "ts": {t}.{n % 1000:03d},'
                f' "dur": {d / 1000:.3f}, "args": {{"External id": {first + i + 1}, "device": 0, "context": 1, "stream": 7,'
                f' "correlation": {first + i + 1}, "registers per thread": 32, "shared memory": 0,'
                f' "grid": [{s + 1}, 1, 1], "block": [128, 1, 1]}}}}'
                for i, (t, n, s, d) in enumerate(zip(at, start.tolist(), signature.tolist(), duration.tolist(), strict=True))
            ]  # fmt: skip
            out.write("".join(text))
            kernels += len(text)
            if out.tell() >= size_bytes:
                break
        out.write('\n], "traceName": "trace.json"}\n')
    power.close()
    return path, log, kernels


def cost(command: list[str], gib: float) -> tuple[float, float, float, int]:
    """Run a command of the tool under a limit; return its time, processor time [s], peak memory [GiB], exit code."""
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execv(sys.executable, [sys.executable, "-m", "tracetool", *command])
    ended = threading.Event()
    guard = threading.Thread(target=_guard, args=(pid, int(gib * 2**20), ended))
    guard.start()
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # its number stays taken until nobody may kill it
    ended.set()
    guard.join()
    _, status, used = os.wait4(pid, 0)
    worked = used.ru_utime + used.ru_stime
    return time.perf_counter() - start, worked, used.ru_maxrss / 2**20, os.waitstatus_to_exitcode(status)


def _guard(pid: int, most_kib: int, ended: threading.Event) -> None:
    """Kill a process once it holds more memory than that; the kernel keeps its peak."""
    status = Path(f"/proc/{pid}/status")
    while not ended.wait(0.05):
        held = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        if held and int(held[0]) > most_kib:
            os.kill(pid, signal.SIGKILL)
            return


def commands(trace: Path, run: Path, folder: Path, log: Path) -> Mapping[str, list[str]]:
    """Return what is measured, in order."""
    named = str(run)
    return {
        "ingest": ["ingest", "-q", str(trace), "--power", str(log), "-o", named],
        "classify": ["classify", "-q", named, "-o", str(folder / "classified.parquet")],
        "predict": ["predict", "-q", named, "-o", str(folder / "predicted.parquet")],
        "attribute": ["attribute", "-q", named, "-o", str(folder / "energy.parquet")],
        "diff": ["diff", "-q", named, "-o", str(folder / "diff.parquet")],
        "report": ["report", named, "-o", str(folder / "report.html")],
    }


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    ask.add_argument("kernels", type=float, nargs="*")
    ask.add_argument(
        "--kineto", type=float, default=0.0, metavar="GB", help="Size of a profiler file to read."
    )
    ask.add_argument("--folder", type=Path, default=None, help="Where traces and runs are kept.")
    ask.add_argument("--gib", type=float, default=6.0)
    ask.add_argument("--commands", default="ingest,classify,predict,attribute,diff,report")
    asked = ask.parse_args()
    table = csv.writer(sys.stdout, delimiter="\t")
    table.writerow(
        ["trace", "GB", "kernels", "command", "s", "processor s", "us a kernel", "peak GiB", "exit"]
    )
    with tempfile.TemporaryDirectory(dir=asked.folder) as scratch:
        for size in [*asked.kernels, *([-asked.kineto] if asked.kineto else [])]:
            folder = (asked.folder or Path(scratch)) / f"n{size:g}"
            folder.mkdir(exist_ok=True)
            trace, kernels = folder / ("trace.json" if size < 0 else "1_kernel_trace.csv"), int(size)
            log = folder / "power.csv"
            counted = folder / "kernels.json"
            if not counted.exists():
                if size < 0:
                    trace, log, kernels = kineto(trace, -size * 1e9)
                else:
                    trace, log = rocprof(trace, kernels)
                counted.write_text(json.dumps(kernels))
            kernels = json.loads(counted.read_text())
            for name, command in commands(trace, folder / "run.tracetool", folder, log).items():
                if name in asked.commands.split(","):
                    seconds, worked, peak, code = cost(command, asked.gib)
                    gigabytes = f"{trace.stat().st_size / 1e9:.2f}"
                    table.writerow(
                        [trace.name, gigabytes, kernels, name, f"{seconds:.1f}", f"{worked:.1f}",
                         f"{1e6 * worked / kernels:.2f}", f"{peak:.2f}", code]
                    )  # fmt: skip
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
