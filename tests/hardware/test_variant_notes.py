"""A name that several GPUs could mean: a note in every command says which is taken, and the others."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tracetool as tt
from tracetool.hardware.names import gpu_names, variant_notes

_TABLE = pl.DataFrame([{"op": "gemm", "dtype": "bf16", "m": 4096, "n": 4096, "k": 4096}])
_H100 = "gpu: H100 taken as h100-sxm (others: h100-nvl, h100-pcie)"


@pytest.mark.parametrize(
    "name", [*gpu_names(), "NVIDIA H100 80GB HBM3", "H100 PCIe", "RTX4090", "l40", "GB300"]
)
def test_exact_names_get_no_note(name: str) -> None:
    assert variant_notes(name) == []


def test_names_of_several_get_one() -> None:
    assert variant_notes("H100") == [_H100]
    assert variant_notes("V100") == ["gpu: V100 taken as v100-sxm2-16gb (others: v100-pcie, v100-sxm2-32gb)"]
    assert variant_notes("V100-SXM2") == ["gpu: V100-SXM2 taken as v100-sxm2-16gb (others: v100-sxm2-32gb)"]


def test_every_command_prints_it(samples: Path, tmp_path: Path) -> None:
    trace = samples / "h100_training.sqlite"
    assert _H100 in tt.predict(_TABLE, gpu="H100").notes
    assert _H100 in tt.sweep(_TABLE, gpu="H100", clock=[1200, 1500]).notes
    run = tt.ingest(trace, gpu="H100", out=tmp_path / "run.tracetool")
    assert _H100 in run.info["warnings"]
    assert _H100 in tt.predict(run, gpu="H100").notes
    assert _H100 not in tt.predict(run).notes
    config = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 2,
              "num_attention_heads": 8, "vocab_size": 1000, "torch_dtype": "bfloat16"}  # fmt: skip
    assert _H100 in tt.forecast(config, gpu="H100", mode="decode", bs=1, isl=100).notes
    assert _H100 in tt.calibrate(_measured(tmp_path), "H100", part="time").notes


def _measured(folder: Path) -> Path:
    path = folder / "measured.csv"
    sizes = [256 * i for i in range(1, 13)]
    rows = {
        "op": "gemm",
        "dtype": "bf16",
        "m": sizes,
        "n": 4096,
        "k": 4096,
        "duration_us": [30.0 + s / 20 for s in sizes],
    }
    pl.DataFrame(rows).write_csv(path)
    return path
