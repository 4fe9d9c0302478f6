"""Parts of the model from a few numbers: base, leakage, open clocks, unknown shapes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.model.operators import rows_of
from tracetool.core.operators import OperatorColumns
from tracetool.families.names import ELEMENTWISE, UNKNOWN
from tracetool.families.pricing import laws
from tracetool.families.registry import family_of
from tracetool.hardware.coefficient_files import parse_calibration
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model import time_files
from tracetool.model.anchor import FROM_SPLIT, with_memory_efficiency
from tracetool.model.eligible_implementations import members
from tracetool.model.idle import idle_power_w
from tracetool.model.memory_efficiency import MemoryEfficiency, memory_efficiency
from tracetool.model.phases import phase_clocks
from tracetool.model.power_files import calibration_from_file, power_promise
from tracetool.model.power_priors import _awake_w, prior_calibration
from tracetool.model.power_transfer import UNSEEN_BASE_SD, with_own_base
from tracetool.model.predict import predict_rows
from tracetool.model.profiler_overhead import SLOW_CLOCK, as_recorded, trace_band
from tracetool.model.residency import WEIGHT_WAY, streamed_bytes
from tracetool.model.thermal import leakage_growth
from tracetool.model.time_files import _NEAR
from tracetool.model.timing import row_pieces, time_rows
from tracetool.model.unknown_shapes import unshaped_pieces

GPU = load_gpu("h100-sxm")
CLOCK = np.array([GPU.clock_boost_mhz])


def _with(rows: OperatorColumns, **columns: float | np.ndarray) -> OperatorColumns:
    n = len(rows)
    more = {name: np.broadcast_to(np.asarray(v, np.float64), (n,)).copy() for name, v in columns.items()}
    return replace(rows, columns={**rows.columns, **more})


def test_leakage_grows_with_power_above_idle_alone() -> None:
    assert leakage_growth(np.array([300.0, 100.0, 60.0]), 100.0, 0.002) == pytest.approx(
        [np.exp(0.4), 1.0, 1.0]
    )


def test_leakage_of_an_idle_gpu_grows_with_its_voltage() -> None:
    """0.8 V up to 1 GHz and 1 V at 1.4: 5 W a volt, and e^(2 x 0.2) times as much; clocks 3 V^2 f."""
    power = replace(
        prior_calibration(GPU), board_w=10.0, memory_w=20.0, leakage_w_per_v=5.0, leakage_per_v=2.0,
        clock_w_per_v2_ghz=3.0, voltage=VoltageCurve(0.8, 1000.0, 0.5, 0.0, 1.2, True),
    )  # fmt: skip
    drawn = idle_power_w(GPU, np.array([500.0, 1400.0]), power)
    assert drawn == pytest.approx([30.0 + 4.0 + 3.0 * 0.64 * 0.5, 30.0 + 5.0 * np.exp(0.4) + 3.0 * 1.4])


@pytest.mark.parametrize(
    ("apart", "near"), [((0.0, 0.01), 1), ((0.3, 0.3 + 0.5 * _NEAR), 2), ((0.3, 9.0), 1)]
)
def test_coefficients_are_carried_from_gpus_about_as_near(
    apart: tuple[float, float], near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU like the one asked stands alone; otherwise those that are hardly further away stand beside."""
    places = dict(zip(("a100-sxm", "h200-sxm"), apart, strict=True))
    monkeypatch.setattr(time_files, "_distance", lambda _, donor, __: places[donor.name])
    file: Any = SimpleNamespace(section=lambda law: law == "gemm")
    donors = [(load_gpu(name), file) for name in reversed(places)]
    told = time_files._nearest(GPU, "gemm", donors)
    assert [(gpu.name, away) for gpu, _, away in told] == list(places.items())[:near]
    assert time_files._nearest(GPU, "conv", donors) == []


@pytest.mark.parametrize("name", ["h100-sxm", "a100-sxm", "mi300x", "rtx-4090", "l40s"])
def test_an_idle_gpu_draws_what_its_parts_add_up_to(name: str) -> None:
    """At the lowest clock: the idle reading, and what memory draws once awake."""
    gpu = load_gpu(name)
    prior, floor_v = prior_calibration(gpu), gpu.voltage.floor_v
    clocks_w = prior.clock_w_per_v2_ghz * floor_v**2 * gpu.clock_min_mhz / 1e3
    base_w = prior.board_w + prior.memory_w + prior.leakage_w_per_v * floor_v + clocks_w
    assert base_w == pytest.approx(max(gpu.idle_w, clocks_w) + _awake_w(gpu))
    assert min(prior.board_w, prior.memory_w, prior.leakage_w_per_v) >= 0.0


def test_a_base_of_its_own_narrows_carried_coefficients_alone() -> None:
    prior = prior_calibration(GPU)
    carried = replace(prior, basis="transferred", relative_sd=float(np.hypot(0.12, UNSEEN_BASE_SD)))
    assert with_own_base(carried).relative_sd == pytest.approx(0.12)
    fitted = replace(carried, basis="fitted")
    assert with_own_base(fitted) is fitted


def test_memory_twice_as_quick_needs_twice_the_clock_above_its_start() -> None:
    assert MemoryEfficiency(1400.0, 600.0, 0.8).beside_memory(2.0) == MemoryEfficiency(2200.0, 600.0, 0.4)


def test_a_slow_core_adds_to_memory_s_time_where_only_the_split_is_known() -> None:
    rows = rows_of("elementwise", elements=[1e7, 1e7], reads=1, writes=1)
    clocks = np.array([[400.0, 1980.0]] * 2)
    timing = time_rows(rows, GPU, clocks[0])
    basis = np.array([FROM_SPLIT, "law"], dtype=object)
    timing = replace(
        timing, basis=basis, duration_s=np.full((2, 2), 5e-3), memory_s=np.array([[2e-3, 2e-3]] * 2)
    )
    slowed = with_memory_efficiency(timing, GPU, clocks, np.array([[1980.0]] * 2))
    curve = memory_efficiency(GPU)
    factor = float(curve.at(np.array(400.0)) / curve.at(np.array(1980.0)))
    assert factor > 1.0
    assert slowed.duration_s[0] == pytest.approx([5e-3 + 2e-3 * (factor - 1.0), 5e-3])
    assert slowed.memory_s[0] == pytest.approx([2e-3 * factor, 2e-3])
    assert slowed.duration_s[1].tolist() == [5e-3, 5e-3]


def test_a_recording_at_an_unknown_clock_may_have_been_slower() -> None:
    """Twice as long at the lowest clock: a share of ln 2 more above, nothing below."""
    rows = rows_of("elementwise", elements=[1e7, 1e7], reads=1, writes=1)
    timing = time_rows(rows, GPU, CLOCK)
    slowest = replace(timing, duration_s=timing.duration_s * np.array([[2.0], [0.5]]))
    told = as_recorded(timing, rows, slowest)
    assert told.low == pytest.approx(timing.low)
    more = np.array([[SLOW_CLOCK * np.log(2.0)], [0.0]])
    assert np.log(told.high) == pytest.approx(np.hypot(np.log(timing.high), more))


def test_the_lowest_clock_alone_widens_a_prediction() -> None:
    rows = rows_of("gemm", m=4096, n=4096, k=4096)
    plain, low = (predict_rows(one, GPU, CLOCK) for one in (rows, _with(rows, recorded_clock_low_mhz=990.0)))
    assert low.timing.high[0, 0] > 1.02 * plain.timing.high[0, 0]
    assert low.timing.low == pytest.approx(plain.timing.low)


def test_rows_of_no_trace_keep_their_band_beside_those_of_one() -> None:
    law = laws()["stream"]
    rows = rows_of("elementwise", elements=[1e7, 1e7], reads=1, writes=1)
    rows = replace(rows, columns={**rows.columns, "access_pattern": np.array(["", "wide"], dtype=object)})
    band = np.array([0.1, 0.1])
    low, high = trace_band(-band, band, rows, law)
    assert (low[0], high[0]) == (-0.1, 0.1)
    assert high[1] > 0.1
    assert low[1] < -0.1


def test_weights_stream_by_their_share_and_all_else_whole() -> None:
    rows = rows_of("gemm", m=[512, 512], n=[4096, 4096], k=[8192, 8192], batch=[1, 4])
    work = row_pieces(rows, GPU).pieces.work
    weights = 2.0 * 4096 * 8192
    expected = work.dram_bytes - (1.0 - WEIGHT_WAY) * np.array([weights, 0.0])  # batches are no weights
    assert streamed_bytes(rows, work) == pytest.approx(expected)
    assert 0.0 < WEIGHT_WAY < 1.0


def _unknown(family: str, **columns: float | np.ndarray) -> OperatorColumns:
    n = max(np.size(v) for v in columns.values())
    return _with(rows_of(family, elements=np.full(n, np.nan)), **columns)


def test_a_kernel_of_unknown_shape_has_a_band_on_either_side() -> None:
    pieces = row_pieces(_unknown(UNKNOWN, duration_us=np.array([50.0, 80.0])), GPU)
    assert (pieces.low < 1.0).all()
    assert pieces.high == pytest.approx(1.0 / pieces.low)


@pytest.mark.parametrize("name", [UNKNOWN, ELEMENTWISE])
def test_bytes_of_an_unknown_shape_follow_its_time_and_what_its_blocks_can_draw(name: str) -> None:
    """Twice the time is twice the bytes; a memory clock of half is half; one block draws for one SM."""
    clock = {"recorded_clock_mhz": GPU.clock_boost_mhz, "threads": 256.0}
    memory = np.array([1.0, 1.0, 0.5, 1.0]) * GPU.memory_clock_mhz
    rows = _unknown(
        name, duration_us=np.array([50.0, 100.0, 50.0, 50.0]), recorded_mem_clock_mhz=memory,
        blocks=np.array([1e5, 1e5, 1e5, 1.0]), **clock,
    )  # fmt: skip
    pieces, _ = unshaped_pieces(rows, GPU, family_of(name))
    moved = pieces.work.dram_bytes
    assert moved[1:3] / moved[0] == pytest.approx([2.0, 0.5])
    assert moved[3] < 0.1 * moved[0]
    share = family_of(name).shares[1]
    assert moved[0] <= share * 50e-6 * GPU.dram_bytes_per_s * prior_number("unshaped.reached") * 1.001
    assert pieces.norm.tolist() == [1.0 if name == UNKNOWN else prior_number("unshaped.overlap")] * 4


def test_a_launch_that_states_no_blocks_fills_the_gpu() -> None:
    rows = _unknown(
        ELEMENTWISE, duration_us=np.full(3, 50.0), blocks=np.array([0.0, np.nan, 1e5]), threads=256.0
    )
    pieces, _ = unshaped_pieces(rows, GPU, family_of(ELEMENTWISE))
    assert pieces.work.dram_bytes[:2] == pytest.approx([pieces.work.dram_bytes[2]] * 2)
    assert pieces.active[0] == pieces.active[2]


@pytest.mark.parametrize(
    ("stacks", "elsewhere"),
    [(("sglang", "trtllm"), True), (("sglang", "vllm"), False), (("sglang", ""), False)],
)
def test_kernels_take_a_librarys_host_where_all_were_measured_in_others(
    stacks: tuple[str, ...], elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One measured under the library itself, or under none, brings its own."""
    chosen = tuple(SimpleNamespace(stack=stack, laws={"x": None}) for stack in stacks)
    for name, answer in (
        ("candidates", chosen), ("other_version", False), ("is_known", True), ("may_run_others", False),
        ("in_library", stacks), ("_from_elsewhere", "with the host of vllm"),
    ):  # fmt: skip
        monkeypatch.setattr(
            f"tracetool.model.eligible_implementations.{name}", lambda *_, answer=answer: answer
        )
    monkeypatch.setattr("tracetool.model.eligible_implementations._member", lambda *a: a[2].stack)
    law: Any = SimpleNamespace(name="x")
    bands: Any = SimpleNamespace(swapped=0.1)
    made: Any = members(law, GPU, "vllm 0.24.0", "", bands=bands)
    assert made == (("with the host of vllm",) * 2 if elsewhere else stacks)


def test_what_a_file_fits_is_its_own_and_the_rest_stays_where_it_came_from() -> None:
    start = replace(prior_calibration(load_gpu("a100-sxm")), basis="transferred", carried_from="x")
    prior = replace(start, monitored=start)
    coefficient = 'board_w = { value = 60.0, unit = "W", kind = "fitted", source = "mine" }\n'
    made = {}
    for section in ("power", "monitor"):
        text = f'[about]\ntitle = "mine"\nbasis = "calibrated"\n[{section}]\n{coefficient}'
        read = calibration_from_file(parse_calibration("mine.toml", text), prior)
        assert read.monitored is not None
        made[section] = [(one.basis, one.carried_from, one.board_w == 60.0) for one in (read, read.monitored)]
    own, carried = ("calibrated", "", True), ("transferred", "x", False)
    assert made == {"power": [own, carried], "monitor": [carried, own]}


def test_an_expected_error_of_power_is_told_by_its_mean_and_its_ninetieth_percentile() -> None:
    """A deviation of 10 %: root of 2 / pi of it in the mean, 1.645 of it at the percentile."""
    power: Any = SimpleNamespace(basis="transferred", carried_from="a100-sxm", relative_sd=0.1)
    assert power_promise(power) == (
        "power coefficients: transferred from a100-sxm; expected power error: mean 8 %, 90th percentile 16 % "
        "(programs and long loops; readings of single short operators err more)"
    )


def test_a_coefficient_is_carried_from_near_gpus_by_what_lies_between() -> None:
    """2 at no distance and 8 at one that halves its weight: the geometric mean of 2, 2 and 8."""
    law: Any = SimpleNamespace(priors={"a": SimpleNamespace(carried=True, choices=())})
    made = time_files._mean(law, [{"a": 2.0}, {"a": 8.0}], [0.0, time_files._WEIGHT])
    assert made["a"] == pytest.approx(32.0 ** (1.0 / 3.0))


def test_a_grid_of_clocks_holds_the_highest_and_those_asked_for() -> None:
    supported = np.arange(301.0, 1412.0)
    grid = phase_clocks(supported, np.array([777.5]))
    assert grid[-1] == supported[-1]
    assert 777.5 in grid.tolist()
    assert np.diff(grid).max() <= 10.0
    assert len(grid) < 160
