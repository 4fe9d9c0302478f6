"""Kernels of traces: access patterns, cold starts, vendors' priors, and how far they err on real ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.model.operators import every_family, rows_of
from tracetool.core.operators import OperatorColumns
from tracetool.families.pricing import laws
from tracetool.hardware.architecture import architecture_names, load_architecture
from tracetool.hardware.load import load_gpu
from tracetool.hardware.names import gpu_names
from tracetool.kernels.classify import classify_names
from tracetool.model import time_files
from tracetool.model.profiler_overhead import (
    BAND_SHARE,
    COLD_US,
    START_SPREAD_US,
    TRACE_SPREAD,
    as_recorded,
    law_in_trace,
    start_band,
    trace_band,
    traced,
)
from tracetool.model.time_files import time_calibration_of
from tracetool.model.timing import row_pieces, time_rows

TRACES = Path(__file__).parents[3] / "shared/data/traces/kineto"
BOOST = {name: np.array([load_gpu(name).clock_boost_mhz]) for name in ("h100-sxm", "mi300x", "a100-sxm")}


def named(rows: OperatorColumns, name: str) -> OperatorColumns:
    """Return the rows as a trace's kernels of a name, with what it states."""
    stated = classify_names([name]).row(0, named=True)
    columns = {
        c: np.full(len(rows), stated[c] or "", dtype=object) for c in ("name", "access_pattern", "mma_arch")
    }
    return replace(rows, columns={**rows.columns, **columns})


def seconds(rows: OperatorColumns, chip: str) -> float:
    return float(time_rows(rows, load_gpu(chip), BOOST[chip]).duration_s[0, 0])


def test_offsets_cost_what_flat_walks_do_not() -> None:
    rows = rows_of("elementwise", elements=1e7, reads=1, writes=1, walked_dims=2)
    flat = seconds(named(rows, "void at::native::vectorized_elementwise_kernel<4, f>"), "h100-sxm")
    apart = named(rows, "void at::native::elementwise_kernel<128, 4, f>")
    two = seconds(apart, "h100-sxm")
    deeper = replace(apart, columns={**apart.columns, "walked_dims": np.array([4.0])})
    assert flat < 0.8 * two < two < seconds(deeper, "h100-sxm")


def test_a_kernel_of_a_trace_starts_cold_and_errs_more() -> None:
    rows, chip = rows_of("gemm", m=64, n=768, k=768), load_gpu("h100-sxm")
    here = named(rows, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n")
    one_library = replace(time_calibration_of(chip), delivered=frozenset())
    alone, among = row_pieces(rows, chip, one_library), row_pieces(here, chip)
    assert traced(here).all()
    assert not traced(rows).any()
    more = among.pieces.fixed_s - alone.pieces.fixed_s
    assert more == pytest.approx(COLD_US["nvidia"]["gemm"] * 1e-6)
    assert among.low[0] < alone.low[0]
    assert among.high[0] > alone.high[0]


def test_short_kernels_of_a_trace_err_by_microseconds_long_ones_by_a_share() -> None:
    rows = named(
        rows_of("elementwise", elements=[1e4, 1e9], reads=1, writes=1),
        "void at::native::vectorized_elementwise_kernel<4, f>",
    )
    pieces = row_pieces(rows, load_gpu("h100-sxm"))
    short, long = np.log(pieces.high / pieces.low)
    assert short > 2.0 * long


def test_names_narrow_the_band_of_coefficients_of_other_gpus_only() -> None:
    rows, chip = named(rows_of("gemm", m=4096, n=4096, k=4096), "ampere_bf16_gemm"), load_gpu("h100-sxm")
    low, high = np.array([-0.8]), np.array([0.8])
    own = trace_band(low, high, rows, laws()["gemm"])
    carried = trace_band(low, high, rows, laws()["gemm"], carried=True)
    assert own[0] < -0.8
    assert own[0] < carried[0] < 0.0 < carried[1] < own[1]
    assert start_band(*own, rows, laws()["gemm"], row_pieces(rows, chip).pieces, chip)[1] >= own[1]


def test_a_clock_nobody_recorded_widens_the_bound_that_is_slower() -> None:
    rows = rows_of("gemm", m=4096, n=4096, k=4096)
    at = {mhz: time_rows(rows, load_gpu("h100-sxm"), np.array([mhz])) for mhz in (1755.0, 1000.0)}
    open_clock, same = as_recorded(at[1755.0], rows, at[1000.0]), as_recorded(at[1755.0], rows, at[1755.0])
    assert open_clock.high[0] > same.high[0]
    assert open_clock.low[0] == same.low[0]
    counted = replace(rows, columns={**rows.columns, "duration_sd_us": np.array([20.0])})
    rounded = as_recorded(at[1755.0], counted, at[1755.0])
    assert rounded.low[0] < same.low[0] < same.high[0] < rounded.high[0]


def test_a_calibration_fitted_to_traces_keeps_its_own_bands() -> None:
    chip = load_gpu("h100-sxm")
    rows = named(rows_of("gemm", m=64, n=768, k=768), "sm90_gemm")
    given = replace(time_calibration_of(chip), from_traces=frozenset({"gemm"}))
    low, high = given.spread["gemm"]
    found = row_pieces(rows, chip, given)
    assert (found.low[0], found.high[0]) == pytest.approx((np.exp(low), np.exp(high)))


def test_a_law_fitted_to_traces_fits_what_is_left_beside_the_cold_start() -> None:
    law, chip = laws()["norm"], load_gpu("mi300x")
    rows = named(rows_of("norm", rows=4096, cols=1024), "vectorized_layer_norm_kernel")
    c = {k: v.value for k, v in law.priors.items()}
    more = law_in_trace(law).parts(rows, chip, c).fixed_s - law.parts(rows, chip, c).fixed_s
    assert more == pytest.approx(COLD_US["amd"]["norm"] * 1e-6)


def test_older_instructions_take_their_own_architectures_coefficients() -> None:
    chip = load_gpu("h100-sxm")
    rows = rows_of("gemm", m=788, n=768, k=768)
    timing = time_rows(named(rows, "cutlass_80_tensorop_bf16_s16816gemm"), chip, BOOST["h100-sxm"])
    assert timing.basis[0] == "transferred from a100-sxm"
    own = time_rows(named(rows, "sm90_xmma_gemm"), chip, BOOST["h100-sxm"])
    assert own.basis[0] == "calibrated"
    assert timing.duration_s[0, 0] > own.duration_s[0, 0]
    assert timing.high[0, 0] > own.high[0, 0]


def test_amds_matrix_kernels_reach_less_than_nvidias() -> None:
    for rows in (rows_of("gemm", m=8192, n=8192, k=2048), every_family()["attention"]):
        share = seconds(rows, "mi300x") / seconds(rows, "h100-sxm")
        peak = load_gpu("h100-sxm").peak_flops("tensor_bf16", 1e3) / load_gpu("mi300x").peak_flops(
            "tensor_bf16", 1e3
        )
        assert share > 1.2 * peak


def test_amds_coefficients_lie_within_their_bounds() -> None:
    assert laws()["gemm"].by_vendor["amd"] and laws()["prefill"].by_vendor["amd"]
    for name, law in laws().items():
        for given in law.by_vendor.values():
            assert given.keys() <= law.priors.keys(), name
            assert all(law.priors[k].low <= value <= law.priors[k].high for k, value in given.items()), name


def test_coefficients_of_a_vendor_are_of_its_lanes_or_architectures() -> None:
    for name, law in laws().items():
        for key in law.by_vendor:
            vendor, _, part = key.partition("/")
            lanes = {str(int(gpu.warp_size)) for gpu in map(load_gpu, gpu_names()) if gpu.vendor == vendor}
            own = {a for a in architecture_names() if load_architecture(a).vendor == vendor}
            assert part in {"", *lanes, *own}, f"{name}: {key}"


@pytest.mark.parametrize(("generation", "as_cdna_4"), [(7.5, False), (8.0, True), (9.0, True)])
def test_an_architecture_after_one_that_is_stated_takes_its_coefficients(
    generation: float, *, as_cdna_4: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cdna_4 = load_architecture("cdna4")
    new = replace(cdna_4, name="new", generation=replace(cdna_4.generation, value=generation))
    monkeypatch.setattr(
        time_files, "load_architecture", lambda name: new if name == "new" else load_architecture(name)
    )
    law = laws()["gemm"]
    values = time_files._of_vendor(law, {}, replace(load_gpu("mi355x"), architecture="new"))
    expected = law.by_vendor["amd/cdna4" if as_cdna_4 else "amd"]
    assert values["tensor_efficiency"] == expected["tensor_efficiency"]


def test_the_way_back_of_a_norm_reads_the_gradient_too() -> None:
    rows = named(rows_of("norm", dtype="fp32", rows=256, cols=100352), "cudnn::bn_bw_1C11_kernel_new")
    back = replace(
        rows,
        columns={
            **rows.columns,
            "reads": np.array([2.0]),
            "direction": np.array(["bwd"], dtype=object),
        },
    )
    # twice two tensors and a result, against twice one and a result
    assert seconds(back, "a100-sxm") / seconds(rows, "a100-sxm") == pytest.approx(5 / 3, rel=0.1)


def test_few_rows_last_as_long_as_their_threads_work_through_them() -> None:
    rows = named(rows_of("norm", dtype="fp32", rows=8, cols=16384), "vectorized_layer_norm_kernel")
    launched = {"blocks": np.array([8.0]), "threads": np.array([256.0])}
    alone = replace(rows, columns={**rows.columns, **launched})
    assert seconds(alone, "mi300x") > 1.5 * seconds(rows, "mi300x")


def test_attention_in_a_trace_leaves_packing_and_combining_to_kernels_of_their_own() -> None:
    rows = every_family()["attention decode"]
    assert seconds(named(rows, "flash_fwd_splitkv_kernel"), "a100-sxm") < seconds(rows, "a100-sxm") - 3e-6


def test_every_spread_names_a_law_or_a_walk() -> None:
    bands = {*laws(), *(f"{name}/{kind}" for name, law in laws().items() for kind in law.kinds)}
    assert set(TRACE_SPREAD) <= {*bands, "otherwise"}
    assert {*START_SPREAD_US, *BAND_SHARE} <= bands
    assert {name for table in COLD_US.values() for name in table} <= set(laws())


def test_what_traces_showed_takes_the_place_of_a_prior_band() -> None:
    chip = load_gpu("h100-sxm")
    rows = every_family()["memcpy"]
    kind = {"kind": np.array(["HtoD (Pinned -> Device)"], dtype=object)}
    rows = replace(rows, columns={**rows.columns, **kind})
    table, trace = row_pieces(rows, chip), row_pieces(named(rows, "Memcpy HtoD (Pinned -> Device)"), chip)
    assert np.log([table.low[0], table.high[0]]) == pytest.approx(laws()["copy"].spread)
    less, more = TRACE_SPREAD["copy/pinned"]
    assert np.log([trace.low[0], trace.high[0]]) == pytest.approx([-less, more], rel=1e-3)


def test_pages_the_host_may_move_come_slower_from_beyond_its_cache() -> None:
    kind = {"kind": np.array(["HtoD (Pageable -> Device)"] * 2, dtype=object)}
    rows = rows_of("memcpy", bytes=[4e6, 4e8])
    rows = replace(rows, columns={**rows.columns, **kind})
    near, far = time_rows(rows, load_gpu("a100-sxm"), BOOST["a100-sxm"]).duration_s[:, 0]
    assert 110.0 < far / near < 140.0


def test_an_element_taken_by_its_index_waits_for_two_loads() -> None:
    rows = rows_of("gather_scatter", elements=5e4, dtype="fp32")
    once = named(rows, "void at::native::index_elementwise_kernel<128, 1, at::native::gpu_index_kernel>")
    each = {"elements_per_thread": np.array([4.0])}
    four = replace(once, columns={**once.columns, **each})
    assert seconds(four, "a100-sxm") > seconds(once, "a100-sxm") + 1e-6


@pytest.mark.data
@pytest.mark.skipif(not TRACES.exists(), reason="the data stand beside the checkout")
@pytest.mark.parametrize(
    ("trace", "total_pct", "median_pct"),
    [
        ("tracelens__h100__gaunernst_bert-small-uncased", 15.0, 20.0),
        ("tracelens__h100__Falconsai_nsfw_image_detection", 15.0, 20.0),
        ("tracelens__mi300__gaunernst_bert-small-uncased", 20.0, 30.0),
        ("tracelens__mi300__Falconsai_nsfw_image_detection", 15.0, 20.0),
    ],
)
def test_real_kernels_take_what_is_predicted(
    trace: str, total_pct: float, median_pct: float, tmp_path: Path
) -> None:
    from tracetool.api.ingest import ingest
    from tracetool.replay.recording_conditions import recorded_gpu
    from tracetool.replay.run_rows import run_rows
    from tracetool.tables.run import Run

    ingest([TRACES / f"{trace}.json.gz"], out=tmp_path / "run")
    run = Run.open(tmp_path / "run")
    chip = recorded_gpu(run)
    assert chip is not None
    signatures, rows = run_rows(run, chip)
    timing = time_rows(rows, chip, np.array([chip.clock_boost_mhz]))
    launches, measured = signatures["launches"].to_numpy(), rows.number("duration_us")
    known = (
        (rows.text("shape_source") == "operator") & (rows.text("inferred") == "") & (rows.family != "conv")
    )
    predicted = timing.duration_s[:, 0] * 1e6
    ratio = (predicted * launches)[known].sum() / (measured * launches)[known].sum()
    assert abs(ratio - 1.0) * 100 < total_pct
    off = np.repeat(np.abs(predicted / measured - 1.0)[known], launches[known])
    assert np.median(off) * 100 < median_pct
    medians = signatures["duration_median_ns"].to_numpy() / 1e3 / predicted
    inside = (medians >= timing.low[:, 0]) & (medians <= timing.high[:, 0])
    assert np.average(inside[known], weights=launches[known]) > 0.75
    assert pl.Series(timing.basis[known].tolist()).str.contains("calibrated|transferred").all()
