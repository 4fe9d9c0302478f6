"""What operands hold: bits that change draw power, zeros and equal numbers less."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tracetool.core.errors import BadInput
from tracetool.replay.operand_content import parse_content

PRODUCT = {"op": "gemm", "dtype": "fp16", "m": 4096, "n": 4096, "k": 4096}


def _power(gpu: str = "a100-sxm", operands: str | None = None, **columns: object) -> dict[str, float]:
    frame = tt.predict(pl.DataFrame([{**PRODUCT, **columns}]), gpu=gpu, clock=1200, operands=operands).frame
    return frame.row(0, named=True)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32", "int8", "fp8"])
def test_fewer_changing_bits_draw_less_at_equal_time(dtype: str) -> None:
    rows = [
        _power(dtype=dtype, operands=word) for word in ("zeros", "constant", "sorted", "sparse=0.5", "random")
    ]
    power_w = [row["power_w"] for row in rows]
    assert power_w == sorted(power_w)
    assert power_w[0] < 0.85 * power_w[-1]
    assert len({row["duration_us"] for row in rows}) == 1


def test_more_zeros_draw_less() -> None:
    power_w = [_power(operands=f"sparse={share}")["power_w"] for share in (0.0, 0.3, 0.6, 0.9, 1.0)]
    assert power_w == sorted(power_w, reverse=True)
    assert power_w[0] == pytest.approx(_power(operands="random")["power_w"])
    assert power_w[-1] == pytest.approx(_power(operands="zeros")["power_w"])


def test_unknown_operands_widen_the_interval() -> None:
    unknown, stated = _power(), _power(operands="random")
    assert unknown["power_w"] == pytest.approx(stated["power_w"])
    assert unknown["power_high_w"] > stated["power_high_w"]
    assert _power(operands="unknown")["power_high_w"] == pytest.approx(unknown["power_high_w"])


def test_a_row_states_its_own_content() -> None:
    frame = pl.DataFrame([{**PRODUCT, "operands": text} for text in ("zeros", None)])
    own, common = tt.predict(frame, gpu="a100-sxm", clock=1200, operands="random").frame["power_w"]
    assert own == pytest.approx(_power(operands="zeros")["power_w"])
    assert common == pytest.approx(_power(operands="random")["power_w"])
    by_share = _power(sparsity=0.5)["power_w"]
    assert by_share == pytest.approx(_power(operands="sparse=0.5")["power_w"])
    assert _power(toggle=0.1)["power_w"] < _power(toggle=0.4)["power_w"]


def test_a_file_is_read_by_its_bits(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    np.save(tmp_path / "random.npy", generator.standard_normal((300, 500)).astype(np.float16))
    np.save(tmp_path / "zeros.npy", np.zeros((300, 500), np.float32))
    values = generator.standard_normal((64, 256)).astype("<f4")
    header = json.dumps({"w": {"dtype": "F32", "shape": [64, 256], "data_offsets": [0, values.nbytes]}})
    blob = len(header).to_bytes(8, "little") + header.encode() + values.tobytes()
    (tmp_path / "w.safetensors").write_bytes(blob)
    random = _power(operands="random")["power_w"]
    for name in ("random.npy", "w.safetensors"):
        assert _power(operands=str(tmp_path / name))["power_w"] == pytest.approx(random, rel=0.02)
    one, both = str(tmp_path / "zeros.npy"), f"{tmp_path / 'zeros.npy'},{tmp_path / 'zeros.npy'}"
    assert _power(operands=both)["power_w"] == pytest.approx(_power(operands="zeros")["power_w"], rel=0.01)
    assert _power(operands=both)["power_w"] < _power(operands=one)["power_w"] < random


@pytest.mark.parametrize("text", ["noise", "sparse=2", "sparse=x", "none.npy", "a.npy,b.npy,c.npy"])
def test_a_content_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_content(text)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    for name in ("bad.npy", "bad.safetensors"):
        (tmp_path / name).write_bytes(b"\xff" * 40)
        with pytest.raises(BadInput, match="cannot be read as a tensor"):
            _power(operands=str(tmp_path / name))


def test_a_measured_power_is_moved_by_the_change_of_content() -> None:
    kernel = {"kernel": "ampere_h16816gemm_128x128_ldg8_stages_32x5_nn", "duration_us": 600.0}
    row = {**kernel, "clock_mhz": 1200.0, "power_w": 300.0, "dtype": "fp16", "operands": "random"}

    def power_w(measured: str | None, operands: str | None) -> float:
        table = pl.DataFrame([{**row, "operands": measured}], schema_overrides={"operands": pl.String})
        return float(tt.predict(table, gpu="a100-sxm", clock=1200, operands=operands).frame["power_w"][0])

    assert power_w("random", "random") == pytest.approx(300.0, rel=0.01)
    assert power_w("zeros", "zeros") == pytest.approx(300.0, rel=0.01)
    assert power_w("zeros", None) == pytest.approx(300.0, rel=0.01)
    assert power_w("random", "zeros") < 240.0
    assert power_w("zeros", "random") > 300.0
