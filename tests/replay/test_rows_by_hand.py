"""What options and tables state, read as it was meant: clocks, temperatures, flags, operands and shapes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.model.operators import rows_of
from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.coefficient_files import parse_calibration
from tracetool.hardware.load import load_gpu
from tracetool.model.timing import time_rows
from tracetool.replay.assumptions import Assumptions
from tracetool.replay.clocks import parse_clocks
from tracetool.replay.gpu_transfer import on_gpu
from tracetool.replay.operand_content import CONTENT_COLUMN, SWITCHING, with_operands
from tracetool.replay.operator_tables import read_table
from tracetool.replay.recording_conditions import (
    Recorded,
    _ignored_shapes,
    _possible,
    without_refuted_sizes,
)
from tracetool.replay.run_case import run_case
from tracetool.replay.table_checks import check_operators
from tracetool.replay.unfused_attention import _with_casts, unfused


@pytest.mark.parametrize(
    ("text", "fault"), [("1200:900", "ends below its start"), ("1:30000:1", "asks for 30000 values")]
)
def test_a_range_of_clocks_is_refused_for_what_is_wrong_with_it(text: str, fault: str) -> None:
    assert parse_clocks("900:930:15") == [900.0, 915.0, 930.0]
    with pytest.raises(BadInput, match=f"the range '{text}' {fault}"):
        parse_clocks(text)


def test_a_chip_is_at_most_ten_degrees_hotter_than_governors_let_it_be() -> None:
    """Governors slow a chip down from 95 C on."""
    hot = Assumptions.read(temperature_c=105.0).surroundings
    assert hot is not None
    assert hot.temperature_c == 105.0
    for option, celsius in (("temperature", 106.0), ("temperature", -41.0), ("ambient", 81.0)):
        with pytest.raises(BadInput, match=f"--{option} {celsius:g} is not a temperature"):
            Assumptions.read(**{f"{option}_c": celsius})


@pytest.mark.parametrize(
    "words", [["false", "true"], ["0", "1"], ["no", "yes"], [" No ", "TRUE"], [False, True], [0, 1]]
)
def test_every_spelling_of_a_flag_is_read(words: list[Any]) -> None:
    table = pl.DataFrame(
        {"op": ["attention"] * 2, "dtype": "bf16", "phase": "prefill", "batch": 1, "q_len": 64, "kv_len": 64,
         "heads": 4, "kv_heads": 4, "head_dim": 64, "causal": words}
    )  # fmt: skip
    assert check_operators("t", table)["causal"].to_list() == [0.0, 1.0]
    if isinstance(words[0], str):
        with pytest.raises(BadInput, match="row 2, column causal: 'maybe' is neither true nor false"):
            check_operators("t", table.with_columns(causal=pl.Series(["no", "maybe"])))


def test_scores_in_four_bytes_are_widened_as_they_are() -> None:
    """2 x 4 x 32 x 48 scores of TF32 are read and written in FP32: a tensor each way."""
    columns: dict[str, list[Any]] = {
        "op": ["norm", "attention"], "dtype": ["fp32", "tf32"], "rows": [64, None], "cols": [128, None],
        "phase": [None, "prefill"], "batch": [None, 2], "q_len": [None, 32], "kv_len": [None, 48],
        "heads": [None, 4], "head_dim": [None, 16],
    }  # fmt: skip
    whole = unfused(read_table(pl.DataFrame(columns))).frame
    steps = whole.filter((pl.col("op") == "elementwise") & (pl.col("elements") == 2 * 4 * 32 * 48))
    assert steps.select("dtype", "reads", "writes").rows() == [
        ("tf32", 1, 1),  # scaled
        ("tf32", 2, 1),  # masked
        ("fp32", 1, 1),  # widened
    ]


def _switching(**columns: object) -> list[float]:
    """Return the switching of products of FP16, one for each value of a column."""
    width = max(len(v) for v in columns.values())  # type: ignore[arg-type]
    rows = rows_of("gemm", "fp16", m=[64.0] * width, n=64, k=64)
    for name, values in columns.items():
        rows.columns[name] = np.array(values, dtype=object if name == CONTENT_COLUMN else np.float64)
    return [float(v) for v in with_operands(rows, "").number(SWITCHING)]


def test_bits_that_toggle_are_enough_to_state_operands() -> None:
    """Switching grows by the same for each tenth of the bits that toggles."""
    still, tenth, fifth, unstated = _switching(toggle=[0.0, 0.1, 0.2, np.nan])
    assert 0.0 < still < tenth < fifth < 1.0
    assert fifth - still == pytest.approx(2.0 * (tenth - still))
    assert np.isnan(unstated)


def _safetensors(path: Path, tensors: dict[str, np.ndarray]) -> str:
    """Write tensors of FP32 one after the other."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    data = b"".join(values.astype("<f4").tobytes() for values in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return str(path)


def test_operands_are_the_largest_tensor_of_a_file(tmp_path: Path) -> None:
    """A matrix of zeros between a bias and a scale of random numbers."""
    bias, scale = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    zeros = np.zeros((64, 64), np.float32)
    np.save(tmp_path / "zeros.npy", zeros)
    several = _safetensors(tmp_path / "layer.safetensors", {"bias": bias, "weight": zeros, "scale": scale})
    lone, largest = _switching(**{CONTENT_COLUMN: [str(tmp_path / "zeros.npy"), several]})
    assert largest == lone < 0.8


def test_two_numbers_are_a_tensor_and_one_is_none(tmp_path: Path) -> None:
    for count in (1, 2, 64):
        np.save(tmp_path / f"{count}.npy", np.ones(count, np.float32))
    two, many = _switching(**{CONTENT_COLUMN: [str(tmp_path / "2.npy"), str(tmp_path / "64.npy")]})
    assert two == many  # of ones, repeated or not
    with pytest.raises(BadInput, match="holds float32 of shape"):
        _switching(**{CONTENT_COLUMN: [str(tmp_path / "1.npy")]})


def test_a_size_inferred_from_a_time_that_refutes_it_is_none_without_the_anchor_either() -> None:
    """Two of three products take more than five times their measured time: one of stated size."""
    gpu = load_gpu("a100-sxm")
    rows = rows_of(
        "gemm", m=8192.0, n=8192, k=8192, duration_us=[100.0, 100.0, 4000.0], recorded_clock_mhz=1410.0,
        inferred_low=[np.nan, 0.5, 0.5],
    )  # fmt: skip
    conditions = Recorded(_possible(rows, gpu)[0], 1410.0, 400.0, ())
    left = without_refuted_sizes(rows, conditions)
    assert left.text("shape_source", "none").tolist() == ["operator", "none", "operator"]


def test_a_shape_is_forgotten_where_its_work_cannot_be_done_in_the_time() -> None:
    """2 x 8,192 cubed is 1.1 TFLOP, at 312 TFLOP/s 3.5 ms: 4 ms may be, 0.1 ms not, an unknown time may."""
    gpu = load_gpu("a100-sxm")
    rows = rows_of(
        "gemm", m=[8192.0] * 3, n=8192, k=8192, duration_us=[4000.0, 100.0, np.nan], recorded_clock_mhz=1410.0
    )
    left, notes = _possible(rows, gpu)
    assert left.text("shape_source", "none").tolist() == ["operator", "none", "operator"]
    assert notes == ["ignored the shapes of 1 signature: its measured time is too short for that work"]
    untimed = {name: values for name, values in rows.columns.items() if name != "duration_us"}
    left, notes = _possible(type(rows)(rows.family, untimed), gpu)
    assert left.text("shape_source", "none").tolist() == ["operator"] * 3
    assert notes == []


def test_a_file_fitted_on_another_gpu_is_told_and_one_that_names_none_is_not() -> None:
    text = (
        '[about]\ntitle = "mine"\nbasis = "calibrated"\n{}[base]\n'
        'board_w = {{ value = 60.0, unit = "W", kind = "fitted", source = "mine" }}\n'
    )
    told = {}
    for gpu in ("", "a100-sxm", "h100-sxm"):
        file = parse_calibration("mine.toml", text.format(f'gpu = "{gpu}"\n' if gpu else ""))
        told[gpu] = [note for note in Assumptions((file,)).notes(load_gpu("a100-sxm")) if "fitted on" in note]
    assert told["h100-sxm"] == ["mine.toml was fitted on h100-sxm, not on a100-sxm: taken as it is"]
    assert told[""] == told["a100-sxm"] == []


def test_signatures_that_are_ignored_are_counted_as_people_do() -> None:
    assert _ignored_shapes(1200, by_limit=True) == (
        "ignored the shapes of 1,200 signatures: their measured time is too short for that work within the"
        " power limit"
    )


@pytest.mark.parametrize(("anchor", "kept"), [(True, ("clock", "left aside")), (False, ("clock",))])
def test_shapes_that_a_time_rules_out_are_noted_where_that_time_is_used(
    anchor: bool, kept: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, rows = load_gpu("a100-sxm"), rows_of("gemm", m=[64.0])
    conditions = SimpleNamespace(notes=("clock", "left aside"), rows=rows, clock_mhz=1200.0, limit_w=400.0)
    monkeypatch.setattr(
        "tracetool.replay.run_case._measured", lambda *_: (pl.DataFrame(), rows, conditions, gpu, gpu, [])
    )
    nothing: Any = None
    case = run_case(nothing, None, [900.0, 1200.0], anchor=anchor, scale={})
    assert case.notes == kept
    assert (case.recorded_at, case.limit_w) == (1, 400.0)


def test_an_unknown_kernel_is_carried_by_the_parts_of_its_time() -> None:
    """On half the SMs and half the bandwidth all but the fixed part of its time takes twice as long."""
    gpu = load_gpu("a100-sxm")
    half = replace(gpu, sm_count=gpu.sm_count // 2, dram_bytes_per_s=gpu.dram_bytes_per_s / 2.0)
    row = {"duration_us": np.array([100.0]), "recorded_clock_mhz": np.array([gpu.clock_boost_mhz])}
    rows = OperatorColumns(np.array(["unknown"], dtype=object), row)
    times = time_rows(rows, gpu, np.array([[gpu.clock_boost_mhz]]))
    core, memory, fixed = times.core_s[0, 0], times.memory_s[0], times.fixed_s[0]
    core, memory = float(core), float(np.ravel(memory)[0])
    assert min(core, memory) > 0.0
    moving = (core + memory) / (core + memory + float(fixed))
    assert on_gpu(rows, gpu, half).number("duration_us").tolist() == pytest.approx([100.0 * (1.0 + moving)])


def test_a_cast_stands_between_products_of_two_heads_or_more_and_their_softmax() -> None:
    for batch, words in ((1, "fp32"), (2, "bf16")):
        frame = pl.DataFrame(
            {"op": ["gemm", "elementwise", "softmax"], "dtype": ["bf16", "fp32", "fp32"],
             "batch": [batch, None, None], "reads": [None, 1, None], "writes": [None, 1, None]}
        )  # fmt: skip
        cast = _with_casts(frame)
        assert cast["dtype"].to_list() == ["bf16", words, "fp32"]
        assert cast["writes"].to_list() == [None, batch, None]
