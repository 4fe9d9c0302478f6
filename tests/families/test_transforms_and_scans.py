"""Families whose shapes only their operators state: Fourier transforms and selective scans."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from tracetool.core.work import Work
from tracetool.families.registry import count_work, families, known_shape
from tracetool.hardware.load import load_gpu
from tracetool.kernels.structure import describe
from tracetool.model.timing import time_rows
from tracetool.replay.operator_tables import as_columns

GPU = load_gpu("h100-sxm")
FFT = "void regular_fft<512u, EPT<8u>, 64u, 8u, (padding_t)1>(kernel_parameters_t)"
SCAN = "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16, 1, true> >(SSMParamsBase)"


def _row(name: str, operator: str, dims: list[object], types: list[str], scalars: list[str]) -> pl.DataFrame:
    call = {
        "input_dims": json.dumps(dims),
        "input_types": json.dumps(types),
        "concrete_inputs": json.dumps(scalars),
    }
    return describe(pl.DataFrame([{"name": name, "kind": "kernel", "operator_name": operator, **call}]))


def _work(frame: pl.DataFrame) -> Work:
    rows = as_columns(frame, frame["family"])
    assert known_shape(rows).all()
    assert (time_rows(rows, GPU, np.array([1755.0])).duration_s > 0).all()
    return count_work(rows, GPU)


def _fft(operator: str, shape: list[int], dtype: str, axes: str, fourth: str) -> Work:
    return _work(
        _row(FFT, operator, [shape, [], [], []], [dtype, "ScalarList", "", ""], ["", axes, "0", fourth])
    )


@pytest.mark.parametrize(
    ("shape", "axes", "points"), [([256, 4096], "[1]", 4096), ([8, 64, 32], "[-2, -1]", 2048)]
)
def test_a_complex_transform_is_five_n_log_n_and_moves_each_point_twice(
    shape: list[int], axes: str, points: int
) -> None:
    work, total = _fft("aten::_fft_c2c", shape, "c10::complex<float>", axes, "True"), np.prod(shape)
    assert work.useful_flops[0] == pytest.approx(5 * total * np.log2(points))
    assert work.dram_bytes[0] == total * 8 * 2


def test_a_real_transform_and_its_inverse_take_half_and_move_half_the_spectrum() -> None:
    batch, n = 128, 2048
    there = _fft("aten::_fft_r2c", [batch, n], "float", "[1]", "True")
    back = _fft("aten::_fft_c2r", [batch, n // 2 + 1], "c10::complex<float>", "[1]", str(n))
    spectrum = batch * (n // 2 + 1) * 8
    for work in (there, back):
        assert work.useful_flops[0] == pytest.approx(2.5 * batch * n * np.log2(n))
        assert work.dram_bytes[0] == pytest.approx(batch * n * 4 + spectrum)


@pytest.mark.parametrize(("shape", "axes"), [([256, 4096], "[7]"), ([256, 4096], ""), ([0, 4096], "[1]")])
def test_a_transform_of_broken_arguments_states_nothing(shape: list[int], axes: str) -> None:
    frame = _row(FFT, "aten::_fft_c2c", [shape], ["c10::complex<float>"], ["", axes, "0", "True"])
    assert frame["shape_source"].to_list() == ["none"]


@pytest.mark.parametrize("operator", ["_C::selective_scan_fwd", "SelectiveScanFn"])
def test_a_selective_scan_is_linear_in_sequence_and_state(operator: str) -> None:
    def work(length: int, state: int) -> Work:
        sequence = [4, 1024, length]
        dims = [sequence, sequence, [1024, state], [4, 1, state, length]]
        return _work(_row(SCAN, operator, dims, ["c10::BFloat16"] * 2 + ["float", "c10::BFloat16"], []))

    one, longer, wider = work(512, 16), work(1024, 16), work(512, 32)
    elements = 4 * 1024 * 512
    assert one.sfu_ops[0] == elements * 16  # an exponential per number of the state
    assert (
        one.dram_bytes[0] == elements * 3 * 2
    )  # input and step sizes in, output out; the state stays on chip
    assert longer.useful_flops[0] == 2 * one.useful_flops[0]
    assert wider.useful_flops[0] - one.useful_flops[0] == elements * 16 * 6
    assert wider.dram_bytes[0] == one.dram_bytes[0]


@pytest.mark.parametrize("name", [name for name, family in families().items() if not family.needs])
def test_a_family_no_profiler_states_counts_nothing_and_keeps_its_measured_duration(name: str) -> None:
    rows = as_columns(
        pl.DataFrame({"elements": [1e6], "shape_source": ["operator"], "duration_us": [42.0]}),
        pl.Series([name]),
    )
    assert not known_shape(rows).any()
    assert count_work(rows, GPU).dram_bytes[0] == 0
    timing = time_rows(rows, GPU, np.array([float(GPU.clock_boost_mhz)]))
    assert timing.duration_s[0, 0] == pytest.approx(42e-6, rel=1e-6)
