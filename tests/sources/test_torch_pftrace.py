"""PyTorch's Perfetto export holds what its JSON export does: both give one run."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from tests.sources.makers import _field, kineto, torch_pftrace
from tracetool.api.ingest import ingest
from tracetool.core.errors import BadInput
from tracetool.sources.detect import detect
from tracetool.sources.format import ReadOptions
from tracetool.sources.pytorch.formats.torch_pftrace import read
from tracetool.tables.run import Run


def test_both_exports_of_a_profile_give_one_run(tmp_path: Path) -> None:
    json_run, perfetto = (
        Run.open(ingest([make(tmp_path)], gpu="a100-sxm", out=tmp_path / make.__name__))
        for make in (kineto, torch_pftrace)
    )
    for table in ("kernels", "operators", "ranges", "host_calls"):
        ours, theirs = perfetto.table(table), json_run.table(table)
        shared = [c for c in ours.columns if c in theirs.columns]
        assert ours.select(shared).equals(theirs.select(shared)), table
    operators = perfetto.table("operators")
    assert operators["input_dims"].to_list() == [[[128, 64], [64, 256], []]] * 3
    assert perfetto.kernels.filter(pl.col("kind") == "kernel")["operator"].null_count() == 0


def test_json_that_begins_with_an_empty_line_is_json(tmp_path: Path) -> None:
    trace = kineto(tmp_path)
    text = gzip.decompress(trace.read_bytes()) if trace.suffix == ".gz" else trace.read_bytes()
    (tmp_path / "later.json").write_bytes(b"\n" + text)
    assert detect(tmp_path / "later.json")[0] == "kineto"
    assert detect(torch_pftrace(tmp_path))[0] == "torch_pftrace"


def test_damaged_ones_are_refused_in_one_line(tmp_path: Path) -> None:
    raw = gzip.decompress(torch_pftrace(tmp_path).read_bytes())
    cut = tmp_path / "cut.pftrace"
    cut.write_bytes(raw[:-5])
    with pytest.raises(BadInput, match=r"cut\.pftrace: is a cut or damaged Perfetto trace: .*beyond the end"):
        read(cut, ReadOptions())
    staged = tmp_path / "staged.pftrace"
    operator = _field(4, _field(10, "External id") + _field(4, 7))
    begin = _field(8, 1) + _field(11, _field(9, 1) + _field(11, 1) + _field(23, "aten::mm") + operator)
    end = _field(8, 5) + _field(11, _field(9, 2) + _field(11, 1))
    stage = _field(8, 2) + _field(53, _field(1, 1))
    staged.write_bytes(b"".join(_field(1, p) for p in (begin, end, stage)))
    with pytest.raises(BadInput, match="states its 1 kernel as GPU render stages"):
        read(staged, ReadOptions())


def test_render_stages_beside_kernels_are_named(tmp_path: Path) -> None:
    raw = gzip.decompress(torch_pftrace(tmp_path).read_bytes())
    assert not any("render stage" in w for w in read(torch_pftrace(tmp_path), ReadOptions()).warnings)
    mixed = tmp_path / "mixed.pftrace"
    mixed.write_bytes(raw + 3 * _field(1, _field(8, 2) + _field(53, _field(1, 1))))
    trace = read(mixed, ReadOptions())
    assert trace.activities.height == read(torch_pftrace(tmp_path), ReadOptions()).activities.height
    assert any(w.startswith("3 GPU render stages left out") for w in trace.warnings)


def test_a_slice_without_an_end_is_left_out_and_named(tmp_path: Path) -> None:
    raw = gzip.decompress(torch_pftrace(tmp_path).read_bytes())
    last = _field(10, 1)
    cut = tmp_path / "open.pftrace"
    cut.write_bytes(raw[: raw.rindex(last) - 12])
    try:
        trace = read(cut, ReadOptions())
    except BadInput:  # the cut lies within a packet
        pytest.fail("cut at a packet's border")
    assert any("without an end" in w for w in trace.warnings)
