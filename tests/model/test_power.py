"""Power: additive, rising with the clock, under its cap, anchored where it was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.model.gpu_data import monitored, operators, texts
from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import PRODUCT_PIPE
from tracetool.hardware.load import load_gpu
from tracetool.model.dynamic import core_energy_j, tensor_key
from tracetool.model.idle import idle_power_w
from tracetool.model.operating_point import clocks_under_cap, loop_groups
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_files import believed_calibration, power_calibration_of
from tracetool.model.power_priors import node_scale, prior_calibration
from tracetool.model.power_transfer import transferred
from tracetool.model.predict import predict_rows
from tracetool.model.thermal import Surroundings, leakage_growth, self_heating_w, steady_temperature_c

GPUS = ("a100-pcie-40gb", "h100-sxm", "v100-sxm2-16gb", "mi300x", "l4")
A100 = load_gpu("a100-pcie-40gb")
CLOCKS = np.array([510.0, 765.0, 1005.0, 1200.0, 1410.0])


@pytest.mark.parametrize("name", GPUS)
def test_parts_add_up_and_power_is_energy_over_time(name: str) -> None:
    gpu = load_gpu(name)
    clocks = gpu.supported_clocks_mhz()[::9]
    made = predict_rows(operators(), gpu, clocks)
    assert np.allclose(sum(made.parts_j.values()), made.energy_j)
    assert np.allclose(made.power_w * made.timing.duration_s, made.energy_j)
    assert (made.energy_low_j <= made.energy_j).all()
    assert (made.energy_j <= made.energy_high_j).all()
    assert (made.power_low_w <= made.power_w).all()
    assert (made.power_w <= made.power_high_w).all()


@pytest.mark.parametrize("name", GPUS)
def test_power_never_falls_with_the_clock_at_equal_work(name: str) -> None:
    gpu = load_gpu(name)
    made = predict_rows(operators(), gpu, gpu.supported_clocks_mhz(), power_cap_w=1e5)
    assert (np.diff(made.power_w, axis=1) >= -1e-6 * made.power_w[:, 1:]).all()
    assert (np.diff(made.idle_w) >= -1e-9).all()


@pytest.mark.parametrize("cap_w", [60.0, 120.0, 180.0, 250.0])
def test_power_is_never_above_the_cap_and_throttled_says_so(cap_w: float) -> None:
    made = predict_rows(operators(), A100, CLOCKS, power_cap_w=cap_w)
    assert (made.power_w <= cap_w + 1e-9).all()
    assert (made.throttled == (made.clock_mhz < CLOCKS)).all()
    free = predict_rows(operators(), A100, CLOCKS, power_cap_w=1e5)
    assert (made.timing.duration_s >= free.timing.duration_s - 1e-12).all()


def test_prediction_is_continuous_in_the_clock() -> None:
    fine = np.arange(600.0, 1400.0, 1.0)
    made = predict_rows(operators(), A100, fine, power_cap_w=1e5)
    steps = np.abs(np.diff(np.log(made.power_w), axis=1))
    assert steps.max() < 0.006


def test_energy_of_counts_is_additive() -> None:
    power = power_calibration_of(A100)
    one = Work.of(2, tensor_flops=[1e9, 2e9], fp32_flops=[3e8, 0.0], l2_bytes=[1e6, 5e6])
    both = Work.of(1, tensor_flops=3e9, fp32_flops=3e8, l2_bytes=6e6)
    parts, whole = (
        core_energy_j(one, texts("bf16", "bf16"), power),
        core_energy_j(both, texts("bf16"), power),
    )
    for part in parts:
        assert np.isclose(parts[part].sum(), whole[part][0])


#: Formats by the count of tensor cores that bills them.
_BILLED = {
    "tensor_fp64": "fp64", "tensor_tf32": "fp32 tf32", "tensor_int8": "int8 sq uint8",
    "tensor_fp8": "fp8 fp8_block mxfp8 w4a8_mxfp4_mxfp8", "tensor_fp4": "nvfp4 mxfp4",
    "tensor_fp16": "fp16 bf16 int4 int4_wo int8_wo w4a16_mxfp4 unheard_of",
}  # fmt: skip


def test_a_format_is_billed_as_the_products_that_its_time_is_of() -> None:
    """Weights of 4 bits whose products take the rate of FP16 cost the energy of FP16."""
    formats = {name for names in _BILLED.values() for name in names.split()}
    assert formats - {"unheard_of"} == set(PRODUCT_PIPE)
    for key, names in _BILLED.items():
        assert {tensor_key(name) for name in names.split()} == {key}
        assert key in prior_calibration(load_gpu("b200-sxm")).core_pj


def test_idle_follows_its_equation_and_temperature() -> None:
    power = replace(power_calibration_of(A100), leakage_per_k=0.01, reference_c=40.0)
    cold = idle_power_w(A100, CLOCKS, power, 40.0)
    warm = idle_power_w(A100, CLOCKS, power, 60.0)
    assert np.allclose(cold, idle_power_w(A100, CLOCKS, power))
    leak = power.leakage_w_per_v * A100.voltage_v(CLOCKS)
    assert np.allclose(warm - cold, leak * (np.exp(0.2) - 1.0))


@given(
    power=st.lists(st.floats(20.0, 400.0), min_size=30, max_size=30),
    asked=st.integers(0, 29),
    cap=st.floats(30.0, 350.0),
)
def test_the_cap_settles_at_the_highest_clock_allowed(power: list[float], asked: int, cap: float) -> None:
    curve = np.sort(np.array(power))
    supported = 300.0 + 15.0 * np.arange(30)

    def cost_at(rows: np.ndarray, clocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        return np.interp(clocks, supported, curve), np.ones(clocks.shape)

    clock = supported[[asked]]
    cost = (curve[None, [asked]], np.ones((1, 1)))
    groups = loop_groups(cost[1], None)
    found = clocks_under_cap(cost_at, cost, clock, supported, cap, groups=groups)[0, 0]
    allowed = supported[(curve <= cap) & (supported <= clock[0])]
    assert found == (allowed[-1] if allowed.size else supported[0])


@given(
    power=st.lists(st.floats(20.0, 400.0), min_size=30, max_size=30),
    asked=st.lists(st.floats(250.0, 800.0), min_size=1, max_size=6),
    cap=st.floats(30.0, 350.0),
)
def test_clocks_asked_for_above_the_cap_settle_at_one_clock(
    power: list[float], asked: list[float], cap: float
) -> None:
    curve, supported = np.sort(np.array(power)), 300.0 + 15.0 * np.arange(30)
    tried = []

    def cost_at(rows: np.ndarray, clocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        tried.append(clocks.shape)
        factor = 1.0 + 0.1 * np.asarray(rows)[:, None]
        return factor * np.interp(clocks, supported, curve), np.ones(clocks.shape)

    clocks = np.array(asked)
    cost = cost_at(np.arange(2), np.broadcast_to(clocks, (2, len(clocks))))
    groups = loop_groups(cost[1], None)
    found = clocks_under_cap(cost_at, cost, clocks, supported, cap, groups=groups)
    for row in range(2):
        allowed = supported[(1.0 + 0.1 * row) * curve <= cap]
        for place, clock in enumerate(clocks):
            below = allowed[allowed <= clock]
            lowest = min(supported[0], clock)
            over = (1.0 + 0.1 * row) * np.interp(clock, supported, curve) > cap
            assert found[row, place] == ((below[-1] if below.size else lowest) if over else clock)
    assert all(columns <= 3 for _, columns in tried[1:])


@given(cold=st.floats(10.0, 900.0), leaks=st.floats(0.0, 120.0), per_w=st.floats(0.0, 0.009))
def test_a_chip_warmed_by_its_leakage_is_at_the_fixed_point(cold: float, leaks: float, per_w: float) -> None:
    idle, power = 60.0, cold
    assume(leaks * per_w * np.exp(1.0) < 0.8)
    for _ in range(500):
        power = cold + leaks * (float(leakage_growth(np.array(power), np.array(idle), per_w)) - 1.0)
    made = self_heating_w(np.array([cold]), np.array([idle]), np.array([leaks]), per_w)[0]
    assert cold + made == pytest.approx(power, rel=1e-9)


@settings(deadline=None, max_examples=40)
@given(
    clock=st.sampled_from([510.0, 705.0, 945.0, 1230.0, 1380.0]),
    watt=st.floats(40.0, 240.0),
    dram=st.floats(0.0, 0.95),
    long=st.booleans(),
)
def test_an_anchored_kernel_is_itself_where_it_was_measured(
    clock: float, watt: float, dram: float, long: bool
) -> None:
    duration = 5e6 if long else 800.0
    rows = monitored(duration_us=[duration], recorded_clock_mhz=[clock], power_w=[watt], act_dram=[dram])
    made = predict_rows(rows, load_gpu("v100-pcie"), np.array([clock]), anchor=True)
    assert np.isclose(made.timing.duration_s[0, 0], duration * 1e-6)
    assert np.isclose(made.power_w[0, 0], watt)


@settings(deadline=None, max_examples=40)
@given(
    dram=st.floats(0.0, 1.0), sm=st.floats(0.0, 1.0), fp32=st.floats(0.0, 1.0), seconds=st.floats(1e-5, 20.0)
)
def test_an_anchored_time_never_rises_with_the_clock(
    dram: float, sm: float, fp32: float, seconds: float
) -> None:
    rows = monitored(duration_us=[seconds * 1e6], act_dram=[dram], act_sm=[sm], act_fp32=[fp32])
    gpu = load_gpu("v100-pcie")
    clocks = gpu.supported_clocks_mhz()
    time = predict_rows(rows, gpu, clocks, anchor=True, power_cap_w=1e5).timing.duration_s[0]
    assert (np.diff(time) <= 1e-9 * time[1:]).all()
    # Never faster than its clock alone would make it, but for the step of the path to memory.
    assert (time[clocks >= 700] <= seconds * 1380.0 / clocks[clocks >= 700] * (1 + 1e-9)).all() or dram > 0.05


def test_two_measurements_of_a_kernel_are_both_kept() -> None:
    rows = monitored(
        2, duration_us=[900.0, 2100.0], recorded_clock_mhz=[1380.0, 502.0], power_w=[180.0, 70.0]
    )
    clocks = np.array([502.0, 800.0, 1380.0])
    made = predict_rows(rows, load_gpu("v100-pcie"), clocks, anchor=True)
    assert np.allclose(made.energy_j[0], made.energy_j[1])
    assert np.allclose(made.timing.duration_s[:, [0, 2]], [[2100e-6, 900e-6]] * 2)
    assert np.allclose(made.power_w[:, [0, 2]], [[70.0, 180.0]] * 2)
    assert 900e-6 < made.timing.duration_s[0, 1] < 2100e-6


def test_a_cap_holds_for_anchored_kernels_too() -> None:
    rows = monitored(
        2, name=texts("kernel", "kernel"), recorded_clock_mhz=[1380.0, 502.0], power_w=[180.0, 70.0]
    )
    made = predict_rows(
        rows, load_gpu("v100-pcie"), np.array([502.0, 1200.0, 1380.0]), anchor=True, power_cap_w=120.0
    )
    assert (made.power_w <= 120.0 + 1e-9).all()


def test_a_monitored_program_keeps_its_host_time() -> None:
    fast = predict_rows(monitored(duration_us=[8e6]), load_gpu("v100-pcie"), np.array([690.0]), anchor=True)
    kernel = predict_rows(monitored(duration_us=[8e2]), load_gpu("v100-pcie"), np.array([690.0]), anchor=True)
    assert fast.timing.duration_s[0, 0] / 8.0 < kernel.timing.duration_s[0, 0] / 8e-4


def test_carried_energies_follow_process_and_memory() -> None:
    source_gpu, target = load_gpu("a100-pcie-40gb"), load_gpu("h100-sxm")
    source = power_calibration_of(source_gpu)
    made = transferred(source, source_gpu, target, prior_calibration(target))
    ratio = node_scale(target.node_nm) / node_scale(source_gpu.node_nm)
    assert ratio < 1
    assert np.isclose(made.core_pj["fp32"], source.core_pj["fp32"] * ratio)
    assert (
        made.core_pj["tensor_fp16"]
        < made.core_pj["fp32"] * source.core_pj["tensor_fp16"] / source.core_pj["fp32"]
    )
    assert ratio < made.core_pj["stream"] / source.core_pj["stream"] < 1
    assert made.dram_pj_per_byte < source.dram_pj_per_byte
    assert made.relative_sd > source.relative_sd
    assert made.basis == "transferred"
    # an energy and its error scale alike
    narrow = load_gpu("l4")
    for gpu in (target, narrow):
        carried = transferred(source, source_gpu, gpu, prior_calibration(gpu))
        for name in ("active_pj_per_clock_sm", "dram_pj_per_byte"):
            relative = carried.sd[name] / getattr(carried, name)
            assert relative == pytest.approx(source.sd[name] / getattr(source, name)), name
        relative = carried.sd["tensor_fp16_pj"] / carried.core_pj["tensor_fp16"]
        assert relative == pytest.approx(source.sd["tensor_fp16_pj"] / source.core_pj["tensor_fp16"])


def test_a_gpu_without_calibration_says_what_it_rests_on() -> None:
    assert power_calibration_of(load_gpu("a10")).basis == "transferred"
    assert power_calibration_of(load_gpu("mi300x")).basis == "prior"
    assert believed_calibration(A100).basis != "calibrated"


def test_a_warmer_gpu_leaks_more_and_settles() -> None:
    # without the warming by its own load, which a stated temperature replaces
    cold = replace(power_calibration_of(A100), leakage_per_w=0.0)
    plain = predict_rows(operators(), A100, CLOCKS, power_cap_w=1e5, power_calibration=cold)
    reference = cold.reference_c
    same = predict_rows(
        operators(), A100, CLOCKS, power_cap_w=1e5, surroundings=Surroundings(temperature_c=reference)
    )
    hot = predict_rows(
        operators(), A100, CLOCKS, power_cap_w=1e5, surroundings=Surroundings(temperature_c=80.0)
    )
    settled = predict_rows(
        operators(), A100, CLOCKS, power_cap_w=1e5, surroundings=Surroundings(ambient_c=35.0)
    )
    assert np.allclose(same.power_w, plain.power_w)
    assert (hot.power_w > plain.power_w).all()
    temperature = steady_temperature_c(settled.power_w, A100, Surroundings(ambient_c=35.0))
    again = idle_power_w(
        A100, np.broadcast_to(CLOCKS, settled.power_w.shape), power_calibration_of(A100), temperature
    )
    assert np.allclose(settled.parts_j["base"], again * settled.timing.duration_s, rtol=1e-3)
    assert np.allclose(sum(settled.parts_j.values()), settled.energy_j)


def test_short_kernels_share_the_clock_their_mean_power_allows() -> None:
    hungry, modest = predict_rows(operators(), A100, CLOCKS, power_cap_w=1e5).power_w[[0, 2], -1]
    cap = 0.5 * (hungry + modest) / power_calibration_of(A100).cap_share
    mostly_modest = predict_rows(
        operators(), A100, CLOCKS, power_cap_w=cap, launches=np.array([0.02, 0.0, 50.0])
    )
    assert not mostly_modest.throttled.any()
    mostly_hungry = predict_rows(
        operators(), A100, CLOCKS, power_cap_w=cap, launches=np.array([50.0, 0.0, 0.02])
    )
    assert mostly_hungry.throttled[:, -1].all()
    assert len(set(mostly_hungry.clock_mhz[:, -1])) == 1
    energy = np.array([50.0, 0.0, 0.02]) @ mostly_hungry.energy_j
    seconds = np.array([50.0, 0.0, 0.02]) @ mostly_hungry.timing.duration_s
    assert (energy / seconds <= cap * power_calibration_of(A100).cap_share + 1e-9).all()


def test_a_chip_its_load_warms_leaks_more_unless_its_temperature_is_said() -> None:
    gpu, rows = A100, operators()
    cold = replace(power_calibration_of(gpu), leakage_per_w=0.0)
    warm = replace(cold, leakage_per_w=0.003)
    clocks = np.array([600.0, 1000.0, 1410.0])

    def watt(power: PowerCalibration, around: Surroundings | None = None) -> Floats:
        made = predict_rows(rows, gpu, clocks, power_calibration=power, power_cap_w=1e4, surroundings=around)
        return made.power_w

    more = watt(warm) - watt(cold)
    assert (more > 0).all()
    assert (np.diff(watt(warm), axis=1) >= 0).all()
    # the hotter of two rows gains more at one clock
    order = np.argsort(watt(cold)[:, 1])
    assert (np.diff(more[order, 1]) >= -1e-9).all()
    held = Surroundings(temperature_c=45.0)
    assert np.allclose(watt(warm, around=held), watt(cold, around=held))


@pytest.mark.parametrize(
    ("name", "clock_mhz", "gb_per_s", "read_w"),
    [
        # whole-card readings of a kernel that reads two arrays, RRZE-HPC/gpu-benches, gpu-roofline
        ("a100-sxm-40gb", 1410.0, 1368.0, 233.0),
        ("a40", 1740.0, 679.0, 208.0),
        ("gh200", 1980.0, 3770.0, 582.0),
    ],
)
def test_a_stream_draws_what_whole_cards_read(
    name: str, clock_mhz: float, gb_per_s: float, read_w: float
) -> None:
    rows = OperatorColumns(texts("copy"), {"elements": np.array([2.0**30]), "dtype": texts("fp32")})
    made = predict_rows(rows, load_gpu(name), np.array([clock_mhz]))
    rate = made.timing.work.dram_bytes[0] / made.timing.duration_s[0, 0] / 1e9
    # the readings' rates are not those of a copy: what bytes cost goes with the rate
    moving = (made.parts_j["onchip"] + made.parts_j["dram"])[0, 0] / made.timing.duration_s[0, 0]
    scale = 1.0 + (gb_per_s / rate - 1.0) * moving / made.power_w[0, 0]
    assert made.power_low_w[0, 0] * scale < read_w < made.power_high_w[0, 0] * scale


@pytest.mark.parametrize(
    ("name", "dtype"), [("a100-sxm", "fp8"), ("a100-sxm", "nvfp4"), ("h100-sxm", "nvfp4"), ("l4", "mxfp4")]
)
def test_products_of_weights_that_become_16_bits_wide_pay_for_16_bits(name: str, dtype: str) -> None:
    """A GPU without tensor cores for a format multiplies in BF16, and draws what that and conversions do."""
    gpu = load_gpu(name)

    def computing_j(word: str) -> float:
        sizes = {size: np.array([8192.0]) for size in "mnk"}
        rows = OperatorColumns(
            texts("gemm"),
            {"dtype": texts(word), **sizes, "batch": np.ones(1), "shape_source": texts("operator")},
        )
        made = predict_rows(rows, gpu, np.array([gpu.clock_min_mhz]), power_cap_w=1e5)
        return float(made.parts_j["compute"][0, 0])

    assert 0.95 < computing_j(dtype) / computing_j("bf16") < 1.15  # every tile converts; tiles may differ
