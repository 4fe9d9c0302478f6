# ruff: noqa: E501 - kernel names are long
from __future__ import annotations

import polars as pl
import pytest

from tracetool.cli.app import run
from tracetool.core.errors import BadInput
from tracetool.kernels.classification import classify_run, classify_source, family_shares
from tracetool.kernels.classify import explain_name
from tracetool.tables.run import Run, write_run

NAMES = ["ampere_sgemm_128x64_tn", "vectorAdd(float*, float*)", "zzz"]


@pytest.fixture
def a_run(tmp_path):
    kernels = pl.DataFrame(
        {
            "start_ns": [0, 10, 20],
            "duration_ns": [8, 5, 5],
            "device": [0, 0, 0],
            "kind": ["kernel", "kernel", "memcpy"],
        }
        | {"name": [NAMES[0], NAMES[2], "Memcpy HtoD"], "signature": [0, 1, 2]}
    )
    signatures = kernels.select("signature", "kind", "name").with_columns(
        launches=pl.lit(1), duration_ns=pl.lit(8), duration_median_ns=pl.lit(8.0)
    )
    return Run.open(write_run(tmp_path / "r.tracetool", {"kernels": kernels, "signatures": signatures}, {}))


def test_a_run_gives_one_row_per_kernel_launch(a_run):
    got = classify_run(a_run)
    assert got["family"].to_list() == ["gemm", "unknown"]
    assert got["tile_m"].to_list() == [128, None]  # as the name states it
    assert got["duration_ns"].sum() == 13
    assert family_shares(got)["time_ms"].sum() == pytest.approx(13e-6)
    assert classify_source(a_run.path).equals(got)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".txt"])
def test_names_of_every_kind_of_file(tmp_path, suffix):
    file = tmp_path / f"names{suffix}"
    frame = pl.DataFrame({"name": NAMES, "grid": ["[1, 1, 1]", "", ""]})
    if suffix == ".txt":
        file.write_text("\n".join(NAMES) + "\n\n", "utf-8")
    else:
        getattr(frame, "write_csv" if suffix == ".csv" else "write_parquet")(file)
    got = classify_source(file)
    assert got["name"].to_list() == NAMES
    assert got["family"].to_list() == ["gemm", "elementwise", "unknown"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.csv", b"a,b\n1,2\n"), ("x.csv", b"name\n"), ("x.csv", b""), ("x.txt", b"\0\0\0"), ("x.txt", b""), ("x.parquet", b"PAR1")],
)  # fmt: skip
def test_files_that_hold_no_names_say_so(tmp_path, name, content):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(BadInput, match="x\\."):
        classify_source(file)


def test_command_writes_what_it_is_asked(tmp_path, capsys):
    source = tmp_path / "names.txt"
    source.write_text("\n".join(NAMES), "utf-8")
    out = tmp_path / "families.csv"
    assert run(["classify", str(source), "-o", str(out)]) == 0
    assert pl.read_csv(out)["family"].to_list() == ["gemm", "elementwise", "unknown"]
    assert "gemm" in capsys.readouterr().out
    assert run(["classify"]) == 2
    assert run(["classify", str(tmp_path / "absent.txt")]) == 2
    assert run(["families"]) == 0


def test_explain_says_what_each_token_means(capsys):
    found = explain_name(
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x64x32_stage4_warpsize2x2x1_tensor16x8x16_kernel"
    )
    tokens = dict(found["tokens"])
    assert {"sm80", "tilesize128x64x32", "stage4", "warpsize2x2x1"} <= set(tokens)
    assert {"attribute": "stages", "value": 4} .items() <= next(
        f for f in found["attributes"] if f["attribute"] == "stages"
    ).items()  # fmt: skip
    assert run(["classify", "--explain", "nvjet_tst_64x64_64x8_1x1_h_bz_TNN"]) == 0
    assert "nvjet" in capsys.readouterr().out
    assert explain_name("zzz")["tokens"] == []
