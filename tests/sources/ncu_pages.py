"""Pages of Nsight Compute, written as it writes them; the truth is known."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.sources.makers import LAUNCHES

HEAD = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size",
        "Grid Size", "Device", "CC"]  # fmt: skip
AROUND = ("==PROF== Connected to process 42 (/usr/bin/python3.11)", "loss: 3.2",
          '==PROF== Profiling "gemm" - 0: 0%....50%....100% - 9 passes')  # fmt: skip
INSTRUCTIONS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
#: Metric, unit as written, and value of each launch of LAUNCHES.
METRICS: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("dram__bytes_read.sum", "Mbyte", (1.5, 0.5, 1.25)),
    ("dram__bytes_write.sum", "Kbyte", (256.0, 4.0, 128.0)),
    ("gpu__time_duration.sum", "usecond", (251.25, 11.0, 1245.5)),
    ("sm__cycles_elapsed.avg.per_second", "cycle/nsecond", (1.7, 1.7, 1.69)),
    (INSTRUCTIONS.format("fadd"), "inst", (1000.0, 10.0, 1000.0)),
    (INSTRUCTIONS.format("ffma"), "Kinst", (2000.0, 0.0, 2000.0)),
    (INSTRUCTIONS.format("fmul"), "inst", (3000.0, 0.0, 3000.0)),
    (INSTRUCTIONS.format("hfma"), "inst", (0.0, 40.0, 0.0)),
    ("sm__ops_path_tensor_src_bf16_dst_fp32.sum", "", (0.0, 1024.0, 8.0)),
    ("sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum", "", (0.0, 1024.0, 8.0)),
    ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", (12.0, 3.0, 8.0)),
)
FLOPS = (1000 + 4_000_000 + 3000, 10 + 80 + 1024, 1000 + 4_000_000 + 3000 + 8)
#: Names as ncu spells those of the trace: with casts and spaces.
NAMES = ("void gemm<float, (int)128>(float *)", "reduce_kernel", "void gemm<float, (int)128>(float *)")


def _number(value: float) -> str:
    return f"{value:,.2f}" if value % 1 else f"{value:,.0f}"


def _cells(i: int) -> list[str]:
    _, _, _, grid, block = LAUNCHES[i]
    sizes = ["({}, {}, {})".format(*block), "({}, {}, {})".format(*grid)]
    return [str(i), "42", "python3.11", "127.0.0.1", NAMES[i], "1", "7", *sizes, "0", "9.0"]


def _quoted(cells: list[str]) -> str:
    return ",".join(f'"{c}"' for c in cells)


def raw_page(folder: Path) -> Path:
    """A column for each metric, units in the first line of the table."""
    lines = [*AROUND, _quoted([*HEAD, *(m for m, _, _ in METRICS)]),
             _quoted([*[""] * len(HEAD), *(u for _, u, _ in METRICS)])]  # fmt: skip
    lines += [_quoted([*_cells(i), *(_number(v[i]) for _, _, v in METRICS)]) for i in range(3)]
    path = folder / "ncu.csv"
    path.write_text("\n".join([*lines, "==PROF== Disconnected from process 42"]) + "\n")
    return path


def details_page(folder: Path) -> Path:
    """A line for each metric, of two processes' tables one after another."""
    head = _quoted([*HEAD, "Section Name", "Metric Name", "Metric Unit", "Metric Value"])
    lines = [*AROUND, head]
    for i in range(3):
        lines += [
            _quoted([*_cells(i), "Command line profiler metrics", m, u, _number(v[i])]) for m, u, v in METRICS
        ]
        lines += [head, "epoch 2"]
    path = folder / "details.csv.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


PAGES = (raw_page, details_page)
