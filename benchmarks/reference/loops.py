"""Runs the loops of ``plan.py`` with PyTorch. Runs in the user's own Python; needs nothing of tracetool.

``python loops.py --out FOLDER [--device cuda:0] [--scale 1] [--steady 5]`` writes ``activity.csv`` (name, start_us,
end_us in UTC, and how often the loop's work was done), ``shapes-NN.json.gz`` (each loop a few times under the
PyTorch profiler, with shapes) and ``loops.json``. Changes no clock, limit or mode.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from plan import LOOPS, REST_S, SEQUENCES, STEADY_S, Loop, shrink

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "tf32": torch.float32}
PROFILED = 5


def _tensor(device: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=device, dtype=torch.float32).to(dtype)


def _gemm(loop: Loop, device: str) -> Callable[[], Any]:
    m, n, k = loop["m"], loop["n"], loop["k"]
    if loop["dtype"] == "fp8":
        a = _tensor(device, torch.float32, m, k).to(torch.float8_e4m3fn)
        b = _tensor(device, torch.float32, n, k).to(torch.float8_e4m3fn).t()
        one = torch.ones((), device=device)
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    dtype = DTYPES[loop["dtype"]]
    a, b = _tensor(device, dtype, m, k), _tensor(device, dtype, n, k).t()
    out = torch.empty(m, n, device=device, dtype=dtype)
    return lambda: torch.mm(a, b, out=out)


def _attention(loop: Loop, device: str) -> Callable[[], Any]:
    batch, heads, kv_heads, width = loop["batch"], loop["heads"], loop["kv_heads"], loop["head_dim"]
    q = _tensor(device, torch.bfloat16, batch, heads, loop["q_len"], width)
    k, v = (_tensor(device, torch.bfloat16, batch, kv_heads, loop["kv_len"], width) for _ in range(2))
    more = {"enable_gqa": True} if kv_heads != heads else {}
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=loop["causal"], **more)


def _rows(loop: Loop, device: str) -> Callable[[], Any]:
    dtype, rows, cols = DTYPES[loop["dtype"]], loop["rows"], loop["cols"]
    x, kind = _tensor(device, dtype, rows, cols), loop["kind"]
    if kind in ("layer_norm", "rms_norm"):
        weight = torch.ones(cols, device=device, dtype=dtype)
        norm = getattr(F, kind)
        return lambda: norm(x, (cols,), weight)
    if kind in ("embedding", "index_add"):
        at = torch.randint(0, rows, (rows,), device=device)
        if kind == "embedding":
            return lambda: F.embedding(at, x)
        into = torch.zeros_like(x)
        return lambda: into.index_add_(0, at, x)
    made: dict[str, Callable[[], Any]] = {
        "softmax": lambda: torch.softmax(x, -1),
        "log_softmax": lambda: torch.log_softmax(x, -1),
        "sum_rows": lambda: x.sum(-1),
        "sum_all": lambda: x.sum(),
        "max_rows": lambda: x.amax(-1),
    }
    return made[kind]


def _elementwise(loop: Loop, device: str) -> Callable[[], Any]:
    dtype = DTYPES[loop["dtype"]]
    x = _tensor(device, dtype, loop["elements"])
    out = torch.empty_like(x)
    other = torch.randn_like(x) if loop["kind"] == "add" else x
    side = int(loop["elements"] ** 0.5)
    square = x[: side * side].view(side, side)
    made: dict[str, Callable[[], Any]] = {
        "add": lambda: torch.add(x, other, out=out),
        "gelu": lambda: F.gelu(x),
        "exp": lambda: torch.exp(x, out=out),
        "sin": lambda: torch.sin(x, out=out),
        "clone": lambda: out.copy_(x),
        "cast": lambda: x.to(torch.bfloat16),
        "transpose": lambda: square.t().contiguous(),
    }
    return made[loop["kind"]]


def _conv(loop: Loop, device: str) -> Callable[[], Any]:
    dtype = DTYPES[loop["dtype"]]
    x = _tensor(device, dtype, loop["batch"], loop["channels"], loop["height"], loop["width"])
    weight = _tensor(device, dtype, loop["filters"], loop["channels"], loop["kernel_h"], loop["kernel_w"])
    return lambda: F.conv2d(x, weight, stride=loop["stride"], padding=loop["padding"])


MAKERS = {"gemm": _gemm, "attention": _attention, "elementwise": _elementwise, "conv2d": _conv}


def make(loop: Loop, device: str) -> Callable[[], Any]:
    """Return the work of a loop, tried once; tf32 is a setting of this process alone."""
    tf32 = loop["dtype"] == "tf32"
    step = MAKERS.get(loop["op"], _rows)(loop, device)

    def work() -> Any:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        return step()

    work()
    return work


class Clockwork:
    """Runs work for a time and writes down when."""

    def __init__(self, device: str, marks: Any) -> None:
        self.device, self.marks = device, marks

    def wait(self) -> None:
        if self.device.startswith("cuda"):
            torch.cuda.synchronize(self.device)

    def steady(self, name: str, work: Callable[[], Any], seconds: float) -> None:
        """Keep the GPU busy: a batch is queued before the last has ended, some milliseconds each."""
        work()
        self.wait()
        began = time.perf_counter()
        for _ in range(3):
            work()
        self.wait()
        each = max((time.perf_counter() - began) / 3, 1e-6)
        batch = max(1, round(0.005 / each))
        times, start, until = 0, time.time_ns(), time.perf_counter() + seconds
        while time.perf_counter() < until:
            for _ in range(batch):
                work()
            times += batch
            self.wait()
        self.marks.writerow([name, start // 1000, time.time_ns() // 1000, times])


def _profile(name: str, work: Callable[[], Any], clockwork: Clockwork, path: Path) -> None:
    """Leave a few rounds of the work as the PyTorch profiler sees them: kernels, operators, shapes."""
    from torch.profiler import ProfilerActivity, profile, record_function

    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if clockwork.device.startswith("cuda") else [])
    with profile(activities=kinds, record_shapes=True) as profiler, record_function(name):
        for _ in range(PROFILED):
            work()
        clockwork.wait()
    profiler.export_chrome_trace(str(path))


def main() -> int:
    """Run everything; what this GPU or PyTorch cannot do is left out and told."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--steady", type=float, default=STEADY_S)
    asked = parser.parse_args()
    plan = [loop if asked.scale == 1.0 else shrink(loop, asked.scale) for loop in LOOPS]
    left_out: dict[str, str] = {}
    with (asked.out / "activity.csv").open("w", newline="", encoding="ascii") as f, torch.inference_mode():
        marks = csv.writer(f)
        marks.writerow(["name", "start_us", "end_us", "times"])
        clockwork = Clockwork(asked.device, marks)
        names: dict[str, Loop] = {}
        for loop in plan:
            try:
                work = make(loop, asked.device)
                clockwork.steady(loop["name"], work, asked.steady)
                _profile(loop["name"], work, clockwork, asked.out / f"shapes-{len(names):02d}.json.gz")
                names[loop["name"]] = loop
                del work
            except Exception as error:  # noqa: BLE001 - no fp8 here, too little memory: the others go on
                left_out[loop["name"]] = " ".join(str(error).split())[:200]
            f.flush()
            time.sleep(REST_S * asked.steady / STEADY_S)
        for first, second, long_s, short_s, count in SEQUENCES:
            if first in names and second in names:
                pair = [(n, make(names[n], asked.device)) for n in (first, second)]
                for _ in range(count):
                    for (name, work), seconds in zip(pair, (long_s, short_s), strict=True):
                        clockwork.steady(f"in_turn:{name}", work, seconds * asked.steady / STEADY_S)
                f.flush()
    facts = {"loops": list(names.values()), "left_out": left_out, "torch": torch.__version__}
    if asked.device.startswith("cuda"):
        facts["device"] = torch.cuda.get_device_name(asked.device)
        facts["cuda"] = torch.version.cuda or torch.version.hip
    (asked.out / "loops.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
