"""``tracetool calibrate`` from runs with a power log, and its time part."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import polars as pl
import pytest

from tests.documents import check_document
from tracetool.api.ingest import ingest
from tracetool.api.predict import predict
from tracetool.calibrate.calibrate import calibrate
from tracetool.calibrate.runs import read_measured_run
from tracetool.core.errors import BadInput
from tracetool.hardware.load import load_gpu
from tracetool.model.timing import time_rows
from tracetool.replay.operator_tables import read_table

Tool = Callable[..., CompletedProcess[str]]
SAMPLES = Path(__file__).parents[2] / "sample_traces"
A100 = load_gpu("a100-sxm")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "generation.tracetool"
    power = [SAMPLES / "a100_generation_power.csv"]
    return ingest([SAMPLES / "a100_generation.pt.trace.json.gz"], power, tz="-05:00", gpu=None, out=out).path


def operators(path: Path, factor: float) -> Path:
    """Forty norms timed ``factor`` times slower than the delivered model says: a law quick to fit."""
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "op": ["norm"] * 40,
            "dtype": ["bf16"] * 40,
            "rows": 2 ** rng.integers(10, 17, size=40),
            "cols": 2 ** rng.integers(9, 14, size=40),
            "clock_mhz": [1000.0] * 40,
        }
    )
    table = read_table(frame.drop("clock_mhz"))
    rows = table.rows.take(table.index)
    seconds = time_rows(rows, A100, np.array([1000.0])).duration_s[:, 0]
    frame.with_columns(pl.Series("duration_us", seconds * 1e6 * factor)).write_csv(path)
    return path


def test_a_run_gives_the_kernels_its_log_identifies(run: Path) -> None:
    found = read_measured_run(run, A100)
    assert found.power is not None
    watt = dict(zip(found.power.group, found.power.power_w, strict=True))
    truth = json.loads((SAMPLES / "truth.json").read_text("utf-8"))
    assert truth
    assert 60 < watt["(idle)"] < 100
    assert max(watt.values()) > 300
    assert found.rejected.height > 0
    assert not found.rejected["reason"].is_null().any()
    assert (found.rejected["duration_us"] > 0).all()


def test_a_run_moves_its_energy_per_operation_and_says_what_it_cannot_tell(run: Path) -> None:
    made = calibrate([run], "a100-sxm")
    rests = dict(zip(made.coefficients["coefficient"], made.coefficients["rests_on"], strict=True))
    assert rests["tensor_fp16_pj"] == "data"
    assert rests["tensor_fp8_pj"] == "prior"
    assert (
        made.errors.row(0, named=True)["held_out_percent"] < made.errors.row(0, named=True)["constant power"]
    )
    assert any("gain" in n for n in made.notes)


def test_a_run_without_a_log_or_of_another_gpu_is_refused(run: Path, tmp_path: Path) -> None:
    silent = ingest(
        [SAMPLES / "a100_generation.pt.trace.json.gz"], tz=None, gpu=None, out=tmp_path / "silent"
    ).path
    with pytest.raises(BadInput, match="no power readings"):
        calibrate([silent], "a100-sxm", part="power")
    with pytest.raises(BadInput, match="was recorded on a100-sxm"):
        calibrate([run], "h100-sxm")


def test_times_are_fitted_and_used_by_predict(command: Tool, tmp_path: Path) -> None:
    slow = operators(tmp_path / "slow.csv", 1.5)
    out = tmp_path / "mine.toml"
    done = command("calibrate", slow, "--gpu", "a100-sxm", "--part", "time", "-o", out, "--json")
    assert done.returncode == 0, done.stderr
    check_document("calibrate", json.loads(done.stdout))
    question = tmp_path / "question.csv"
    pl.read_csv(slow).drop("duration_us", "clock_mhz").write_csv(question)
    plain = predict(question, gpu="a100-sxm", clock="1000").totals.row(0, named=True)
    mine = predict(question, gpu="a100-sxm", clock="1000", calibration=[out]).totals.row(0, named=True)
    assert 1.35 < mine["kernel_time_ms"] / plain["kernel_time_ms"] < 1.6


def test_both_parts_share_a_file(run: Path, tmp_path: Path) -> None:
    made = calibrate(
        [run, operators(tmp_path / "o.csv", 1.2).rename(tmp_path / "p.csv")], "a100-sxm", part="time"
    )
    assert "[norm]" in made.toml
    assert "[power]" not in made.toml
    with pytest.raises(BadInput, match="no measured power"):
        calibrate([run, tmp_path / "p.csv"], "a100-sxm", part="both")
    frame = pl.read_csv(tmp_path / "p.csv").with_columns(pl.lit(250.0).alias("power_w"))
    frame.write_csv(tmp_path / "q.csv")
    made = calibrate([run, tmp_path / "q.csv"], "a100-sxm", part="both")
    out = tmp_path / "both.toml"
    out.write_text(made.toml, "utf-8")
    assert {"[power]", "[norm]"} <= set(made.toml.splitlines())
    assert predict(tmp_path / "p.csv", gpu="a100-sxm", clock="1000", calibration=[out]).totals.height


def test_the_columns_tell_the_part_and_ten_rows_are_enough(tmp_path: Path) -> None:
    sizes = [
        (m, n, k)
        for m in (64, 512, 4096)
        for n, k in ((4096, 4096), (8192, 1024), (1024, 8192), (2048, 2048))
    ]
    table = tmp_path / "mine.csv"
    header = "op,dtype,m,n,k"
    table.write_text(header + "\n" + "\n".join(f"gemm,bf16,{m},{n},{k}" for m, n, k in sizes) + "\n", "utf-8")
    exact = predict(table, gpu="h200-sxm").frame["duration_us"].to_list()
    rows = [f"gemm,bf16,{m},{n},{k},{1.3 * us}" for (m, n, k), us in zip(sizes, exact, strict=True)]
    table.write_text(header + ",duration_us\n" + "\n".join(rows) + "\n", "utf-8")
    made = calibrate([table], "h200-sxm")
    assert "[gemm]" in made.toml
    assert "[power]" not in made.toml
    assert made.errors["held_out_percent"][0] < 15.0


def test_too_few_rows_name_what_is_missing(run: Path, tmp_path: Path) -> None:
    table = tmp_path / "few.csv"
    table.write_text("op,dtype,m,n,k,duration_us\n" + "gemm,bf16,512,512,512,9\n" * 4, "utf-8")
    with pytest.raises(BadInput, match="5 rows"):
        calibrate([table], "a100-sxm", part="time")
    with pytest.raises(BadInput, match="--part"):
        calibrate([run], "a100-sxm", part="everything")


def test_a_warmer_chip_draws_more(tmp_path: Path) -> None:
    table = tmp_path / "one.csv"
    table.write_text("op,dtype,m,n,k\ngemm,bf16,4096,4096,4096\n", "utf-8")

    def energy(**told: float) -> float:
        made = predict(table, gpu="a100-sxm", clock="1000", **told)  # type: ignore[arg-type]
        return float(made.totals["energy_j"][0])

    assert energy(temperature=80.0) > energy(temperature=50.0)
    assert energy(ambient=40.0) > energy(ambient=20.0)
    with pytest.raises(BadInput, match="lets it settle"):
        energy(temperature=50.0, ambient=20.0)
    with pytest.raises(BadInput, match="not a temperature"):
        energy(temperature=400.0)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "holds no coefficients"),
        ('[power]\nboard_w = { value = -3.0, unit = "W", kind = "fitted", source = "x" }', "below zero"),
        ('[voltage]\nfloor_v = { value = 0.7, unit = "V", kind = "fitted", source = "x" }', "missing"),
        ('[powr]\nboard_w = { value = 3.0, unit = "W", kind = "fitted", source = "x" }', "holds no"),
    ],
)
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    file, table = tmp_path / "x.toml", tmp_path / "one.csv"
    file.write_text(text, "utf-8")
    table.write_text("op,dtype,m,n,k\ngemm,bf16,64,64,64\n", "utf-8")
    with pytest.raises(BadInput, match=fault):
        predict(table, gpu="a100-sxm", clock="1000", calibration=[file])


def test_an_unusable_log_gives_no_coefficient_of_power(tmp_path: Path) -> None:
    head, *lines = (SAMPLES / "a100_generation_power.csv").read_text("utf-8").splitlines()
    watt = next(i for i, name in enumerate(head.split(",")) if "power.draw" in name)
    stuck = [",".join([*c[:watt], " 70.10 W", *c[watt + 1 :]]) for c in (line.split(",") for line in lines)]
    log = tmp_path / "power.csv"
    log.write_text("\n".join([head, *stuck]), "utf-8")
    trace = SAMPLES / "a100_generation.pt.trace.json.gz"
    made = ingest([trace], [log], tz="-05:00", gpu=None, out=tmp_path / "stuck.tracetool")
    with pytest.raises(BadInput, match="power log is unusable"):
        calibrate([made.path], "a100-sxm", part="power")
    by_times = calibrate([made.path, operators(tmp_path / "norms.csv", 1.3)], "a100-sxm")
    assert "[power]" not in by_times.toml
    assert any("unusable" in note and "stuck.tracetool" in note for note in by_times.notes)
