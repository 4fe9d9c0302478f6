"""Factors of time and power from a few numbers: bits that change, memory's kind, the host, a cap."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import tracetool as tt
from tests.model.gpu_data import monitored
from tests.model.operators import every_family, rows_of
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.pricing import laws
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number, prior_table
from tracetool.model.chip_scaling import paced, unhidden
from tracetool.model.eligible_implementations import members
from tracetool.model.operands import SWITCHING, content_factor, operand_activity
from tracetool.model.own_scatter import OwnScatter
from tracetool.model.phases import PhaseCurves, programs_under_cap
from tracetool.model.predict import predict_rows
from tracetool.model.profiler_overhead import law_in_trace, start_band
from tracetool.model.time_shares import host_share

H100, L40S = load_gpu("h100-sxm"), load_gpu("l40s")


def test_every_bit_of_an_integer_result_counts() -> None:
    """1 x 2 and 1 x 3 lie side by side: one bit of the 16 that a result keeps differs, the last."""
    first, second = np.array([[1, 1]], np.int32), np.array([[2, 3]], np.int32)
    bits = first.astype(np.uint8), second.astype(np.uint8)
    told = operand_activity(*bits, (first, second), (1, 2))
    assert told.result == pytest.approx(1.0 / 16.0)
    # of the operands' eight bits none differs in the first, one in the second
    assert (told.neighbor, told.live) == pytest.approx((1.0 / 16.0, 1.0))


def test_a_product_outside_tensor_cores_follows_its_data_by_its_format() -> None:
    """Operands that switch half as much as random ones take half of the share that follows data."""
    rows = rows_of("gemm", dtype="fp32", m=[64, 64], n=64, k=64)
    rows = replace(rows, columns={**rows.columns, SWITCHING: np.full(2, 0.5)})
    share = prior_table("operands.data_share")
    expected = [1.0 - 0.5 * share["tensor"], 1.0 - 0.5 * share["fp32"]]
    work = Work.of(2, tensor_flops=np.array([1e9, 0.0]), fp32_flops=np.array([0.0, 1e9]))
    assert content_factor(rows, work) == pytest.approx(expected)
    assert expected[0] < expected[1]


def test_a_share_of_the_memory_s_peak_is_carried_by_the_kind_of_memory() -> None:
    """GDDR brings g of its peak: 0.5 of it is 0.5 / g beside the chip, where 0.5 is 0.5 g of GDDR's."""
    law, share = laws()["moe"], prior_number("implementations.gddr_share")

    def reached(gpu: str, *measured: str) -> float:
        there = tuple(map(load_gpu, measured))
        return paced(law, {"dram_efficiency": 0.5}, load_gpu(gpu), there, there)["dram_efficiency"]

    assert reached("h100-sxm", "l40s") == pytest.approx(0.5 / share)
    assert reached("l40s", "h100-sxm") == pytest.approx(0.5 * share)
    assert reached("h100-sxm", "a100-sxm") == reached("h100-sxm", "l40s", "a100-sxm") == 0.5


@pytest.mark.parametrize(
    ("gpu", "measured", "factor"),
    [
        ("rtx-4090", "l40s", 1.0 / 0.914), ("rtx-6000-ada", "l40s", 1.0 / 0.914), ("l4", "l40s", 1.0),
        ("rtx-5090", "l40s", 1.0 / 0.914), ("a10", "l40s", 1.0), ("h200-sxm", "h100-sxm", 1.0),
        ("rtx-3090", "a100-sxm", 1.0), ("h100-sxm", "l40s", 1.0),
    ],
)  # fmt: skip
def test_memory_without_check_bits_among_its_data_brings_more(gpu: str, measured: str, factor: float) -> None:
    """An L40S keeps them there; GeForce cards have none, and workstation cards by default."""
    law, target, there = laws()["gemm"], load_gpu(gpu), (load_gpu(measured),)
    alike = target.architecture == there[0].architecture
    values = {"dram_efficiency": 0.8}
    told = unhidden(law, values, target, there) if alike else paced(law, values, target, there, there)
    assert told["dram_efficiency"] == pytest.approx(0.8 * factor)


#: Milliseconds that llama.cpp takes for a token of Llama 3 8B in FP16 (llama-8b-tokens of references.toml).
TOKEN_MS = {
    "rtx-4090": 18.40, "rtx-6000-ada": 19.24, "rtx-5000-ada": 30.61, "rtx-4000-ada": 47.96, "l40s": 23.03,
    "a40": 29.46, "rtx-3090": 21.50,
}  # fmt: skip


@pytest.mark.parametrize("gpu", TOKEN_MS)
def test_weights_are_read_as_fast_as_published_tokens_say(gpu: str) -> None:
    """Two milliseconds of a token pass beside the products."""
    sizes = ((6144, 4096, 32), (4096, 4096, 32), (28672, 4096, 32), (4096, 14336, 32), (128256, 4096, 1))
    rows = pl.DataFrame([{"op": "gemm", "dtype": "bf16", "m": 1, "n": n, "k": k} for n, k, _ in sizes])
    spent = tt.predict(rows, gpu=gpu, stack="vllm").frame["duration_us"]
    total_ms = sum(us * count for us, (*_, count) in zip(spent, sizes, strict=True)) * 1e-3
    assert total_ms == pytest.approx(TOKEN_MS[gpu] - 2.0, rel=0.06)


@pytest.mark.parametrize("gpu", ["rtx-3090", "a10", "t4", "v100-pcie", "rtx-5090"])
def test_rows_of_one_token_are_padded_to_the_narrowest_tile_that_cublas_has(gpu: str) -> None:
    """GA100's coefficients hold tiles of 64, which its memory hides: at half the rate they showed."""
    (one,) = members(laws()["gemm"], load_gpu(gpu), "vllm", "cublas")
    assert one.coefficients["least_tile"] == 16.0


def test_a_measured_gpu_keeps_the_narrowest_tile_that_was_fitted() -> None:
    for gpu, tile in (("a100-sxm", 64.0), ("a100-pcie-80gb", 64.0), ("l40s", 8.0), ("l4", 8.0)):
        (one,) = members(laws()["gemm"], load_gpu(gpu), "vllm", "cublas")
        assert one.coefficients["least_tile"] == tile


def test_a_matrix_pipe_of_either_kind_that_is_always_busy_leaves_no_time_to_a_host() -> None:
    rows = monitored(3, act_sm=[1.0] * 3, act_tensor=[1.0, 0.0, 0.0], act_fp64=[0.0, 1.0, 0.0])
    told = host_share(rows, H100, np.full(3, 10.0), np.full(3, H100.clock_max_mhz))
    assert told == pytest.approx([0.0, 0.0, prior_number("monitor.host_share")])


def test_a_program_that_draws_no_more_than_waiting_is_slowed_by_its_busy_share() -> None:
    """100 W at 1400 MHz and 40 at 700, busy or not: a cap of 50 W halves the clock of the busy part."""
    clock, waiting = np.array([700.0, 1400.0]), np.array([[40.0, 100.0]])
    curves = PhaseCurves(clock, np.array([[2.0, 1.0]]), np.zeros(1), waiting, waiting, np.array([1]))
    told = programs_under_cap(curves, np.array([1]), 50.0, 250.0)
    busy, p = np.array(sorted(prior_table("phases.busy_share").values())), prior_number("phases.overlap")
    assert told.clock_mhz[:, 0, 0].tolist() == [700.0] * 3
    slower = (1.0 - busy**p + (2.0 * busy) ** p) ** (1.0 / p)
    assert told.longer[:, 0, 0] == pytest.approx(slower, rel=1e-4)


def _in_trace(count: int, family: str, **columns: list[float]) -> OperatorColumns:
    rows = every_family()[family].take(np.zeros(count, np.int64))
    more = {"access_pattern": np.full(count, "wide", dtype=object)}
    return replace(rows, columns={**rows.columns, **more, **{k: np.array(v) for k, v in columns.items()}})


def test_a_kernel_that_starts_warm_waits_for_a_busy_link_all_the_same() -> None:
    """Half its time beside a collective: half the wait; the second of the rows has no such neighbor."""
    law = laws()["decode"]
    rows = _in_trace(2, "attention decode", beside_collective=[0.5, 0.0])
    values = {name: one.value for name, one in law.priors.items()}
    alone, among = (one.parts(rows, H100, values).fixed_s for one in (law, law_in_trace(law)))
    wait_us = 0.5 * prior_table("traced.beside_collective_nvidia")["otherwise"]
    assert (among - alone) * 1e6 == pytest.approx([wait_us, 0.0])


def test_a_law_whose_traces_err_by_no_time_keeps_its_band_however_short_a_kernel() -> None:
    law, rows = laws()["softmax"], _in_trace(1, "softmax")
    values = {name: one.value for name, one in law.priors.items()}
    pieces = law.parts(rows, H100, values)
    low, high = start_band(np.array([-0.1]), np.array([0.2]), rows, law, pieces, H100)
    assert (low[0], high[0]) == pytest.approx((-0.1, 0.2), rel=1e-12)


def test_an_error_of_time_costs_base_energy_and_takes_power_of_the_counts() -> None:
    """Base energy grows by the time's factor and the counts' stays: by what E gains and P loses, beside
    the same errors of the coefficients."""
    rows = rows_of("gemm", m=[4096.0, 64.0], n=4096.0, k=4096.0)
    made = predict_rows(rows, H100, np.array([900.0, 1500.0]))
    base = made.parts_j["base"] / made.energy_j
    assert (base > 0.05).all()
    assert (base < 0.95).all()
    energy_gain = np.log(base * made.timing.high + 1.0 - base)
    power_loss = np.log(base + (1.0 - base) / made.timing.high)
    of_energy, of_power = np.log(made.energy_high_j / made.energy_j), np.log(made.power_w / made.power_low_w)
    assert of_energy**2 - of_power**2 == pytest.approx(energy_gain**2 - power_loss**2)


def test_a_kernel_of_unknown_length_draws_no_less_than_the_base() -> None:
    """However long it may take: its power falls to the base's alone, which it pays all the time."""
    rows = rows_of("gemm", m=[4096.0], n=4096.0, k=4096.0, duration_us=250.0, duration_sd_us=[1.0, 5000.0],
                   recorded_clock_mhz=1500.0)  # fmt: skip
    made = predict_rows(rows, H100, np.array([1500.0]), anchor=True)
    base_w = made.parts_j["base"] / made.timing.duration_s
    assert (made.timing.high[1] > 10.0).all()
    assert (made.power_low_w > 0.7 * base_w).all()  # whose own error is some 15 %
    assert (made.energy_high_j[1] >= base_w[1] * made.timing.duration_s[1] * made.timing.high[1]).all()


def test_a_timers_error_widens_both_ends_of_a_measured_time_alike() -> None:
    """10 % of deviation beside what is left of the model's own error: squares of logarithms add up."""
    ends = []
    for deviation in (0.0, 10.0):
        rows = rows_of("elementwise", elements=[1e7], duration_us=100.0, duration_sd_us=deviation,
                       recorded_clock_mhz=1500.0)  # fmt: skip
        timing = predict_rows(rows, H100, np.array([1500.0, 900.0]), anchor=True).timing
        ends.append([np.log(side) ** 2 for side in (timing.low, timing.high)])
    more = np.log1p(0.1 * Z90) ** 2
    assert ends[1][0] - ends[0][0] == pytest.approx(np.full((1, 2), more))
    assert ends[1][1] - ends[0][1] == pytest.approx(np.full((1, 2), more))


def test_a_reading_about_a_mean_of_two_scatters_by_all_three() -> None:
    """Beside one of weight w and one of the rest: 1 + w^2 + (1 - w)^2, 1.5 in the middle, 2 at either end."""
    place: Any = SimpleNamespace(weight=np.array([[0.5, 1.0, 0.0]]))
    time, power = OwnScatter(np.array([0.1]), np.array([0.2])).beside(place)
    assert time.tolist() == [pytest.approx([0.1 * 1.5**0.5, 0.1 * 2**0.5, 0.1 * 2**0.5])]
    assert power.tolist() == [pytest.approx([0.2 * 1.5**0.5, 0.2 * 2**0.5, 0.2 * 2**0.5])]
