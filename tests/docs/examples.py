"""The lines a page shows without their output, and stand-ins for the files they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.fleet.here import HereOfCopies
from tests.measure.invented_gpu import campaign, gpu_log
from tracetool.fleet.engine import ENGINES

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *sorted(ROOT.glob("*.md")),
    ROOT / "sample_traces" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
_FENCED = re.compile(r"^```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^    \S.*\n)+", re.MULTILINE)
_CONFIG = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16",
}  # fmt: skip


def blocks(text: str, kind: str) -> list[str]:
    """Return the fenced blocks of a kind on a page."""
    return [found["text"] for found in _FENCED.finditer(text) if found["kind"] == kind]


def lines(page: Path) -> Iterator[str]:
    """Yield what a page shows to be typed, but for blocks that show its output too."""
    text = page.read_text("utf-8")
    unfenced = _FENCED.sub("", text)
    for block in (*blocks(text, "sh"), *blocks(text, ""), *_INDENTED.findall(unfenced)):
        for line in block.splitlines():
            if line.strip().startswith("tracetool "):
                yield re.sub(r"\s+#.*$", "", line.strip())


def _tables(folder: Path) -> None:
    """Write operator tables, an idle curve, measured runs and operand values."""
    sizes = [(2048 + 256 * k, 4096, 2048 + 128 * k) for k in range(40)]
    operators = pl.DataFrame(
        {
            "op": "gemm", "dtype": "bf16", "m": [m for m, _, _ in sizes], "n": [n for _, n, _ in sizes],
            "k": [k for _, _, k in sizes], "clock_mhz": 1200.0,
            "duration_us": [2.0 * m * n * k / 200e6 + 5.0 for m, n, k in sizes],
            "power_w": [230.0 + index for index in range(len(sizes))],
        }
    )  # fmt: skip
    operators.write_parquet(folder / "operators.parquet")
    clocks = range(300, 1411, 60)
    idle = {"clock_mhz": clocks, "idle_w": [45.0 + 2e-5 * max(c - 900, 0) ** 2 + 0.01 * c for c in clocks]}
    pl.DataFrame(idle).write_csv(folder / "idle.csv")
    batches = (1, 2, 4, 8, 16, 32)
    runs = {"model": "m-8b", "gpu": "h100-sxm", "batch": batches, "power_w": [500.0 + b for b in batches]}
    pl.DataFrame(runs | {"energy_per_token_j": [4.0 / b + 0.1 for b in batches]}).write_parquet(
        folder / "runs.parquet"
    )
    values = np.random.default_rng(1).standard_normal(4096).astype("<f4").tobytes()
    header = json.dumps({"w": {"dtype": "F32", "shape": [4096], "data_offsets": [0, len(values)]}}).encode()
    (folder / "weights.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + values)
    (folder / "config.json").write_text(json.dumps(_CONFIG), "utf-8")


def _executions(folder: Path) -> None:
    """Write the tables of a campaign of one kernel."""
    made = campaign(seed=11, runs=60, executions=20)
    log = gpu_log(made.steps, seed=12)
    times = {"run": made.run, "start_us": made.start_s * 1e6, "end_us": made.end_s * 1e6}
    pl.DataFrame({"kernel": "gemm", **times}).write_csv(folder / "executions.csv")
    watts = {"gpu_us": log.gpu_s * 1e6, "power_w": log.power_w["total"]}
    pl.DataFrame(watts).write_csv(folder / "samples.csv")
    sync = {f"{part}_us": getattr(log, f"sync_{part}_s") * 1e6 for part in ("host", "gpu", "delay")}
    pl.DataFrame(sync).write_csv(folder / "sync.csv")


def stand_ins(folder: Path) -> Path:
    """Give ``folder`` a file of each name that pages use for one of the reader's own."""
    from tracetool.cli.app import run

    samples = ROOT / "sample_traces"
    (folder / "sample_traces").symlink_to(samples)
    trace, log = samples / "h100_training.sqlite", samples / "h100_training_power.csv"
    with chdir(folder):
        assert run(["ingest", str(trace), "--power", str(log), "-o", "run.tracetool", "-q"]) == 0
    (folder / "train.tracetool").symlink_to("run.tracetool")
    (folder / "smi.csv").symlink_to(log)
    (folder / "power.csv").symlink_to(log)
    fleet = folder / "traces" / "nlp" / "gpt"
    fleet.mkdir(parents=True)
    (fleet / trace.name).symlink_to(trace)
    (fleet / log.name).symlink_to(log)
    with chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENGINES, "local", HereOfCopies)
        labels = ["--labels", "{team}/{model}"]
        assert run(["fleet", "ingest", "traces", "-o", "fleet", *labels, "-q"]) == 0
        assert run(["fleet", "attribute", "fleet", "-q"]) == 0
    _tables(folder)
    _executions(folder)
    with chdir(folder):  # lines run in any order, and one of them names what another writes
        calibrate = ["calibrate", "run.tracetool", "idle.csv", "--gpu", "h100-sxm", "-o", "h100.toml", "-q"]
        assert run(calibrate) == 0
    return folder
