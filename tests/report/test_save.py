"""Any table to any extension, whole or not at all."""

from __future__ import annotations

import csv
import importlib
import json
import re
from pathlib import Path

import polars as pl
import pytest
from polars._typing import PolarsDataType
from polars.testing import assert_frame_equal

import tracetool as tt
from tests.compare import frames
from tests.report.hostile import HOSTILE
from tracetool.compare.accuracy import Accuracy, accuracy_table, compare_signatures
from tracetool.core.errors import BadInput
from tracetool.report.accuracy import accuracy_view
from tracetool.report.save import check_output, output_suffixes, save_view
from tracetool.report.stream import save_stream
from tracetool.report.view import View
from tracetool.tables.schema import TableSchema, load_schema


def save_table(frame: pl.DataFrame, path: Path, title: str = "t", schema: TableSchema | None = None) -> Path:
    return save_view(View(title, frame, schema), path)


def hostile_table() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "name": HOSTILE,
            "energy_mj": [float(i) for i in range(len(HOSTILE))],
            "energy_low_mj": [i - 0.5 for i in range(len(HOSTILE))],
            "energy_high_mj": [i + 0.5 for i in range(len(HOSTILE))],
            "shape": [[i, 2] for i in range(len(HOSTILE))],
            "when": [None, float("nan"), float("inf"), *[1.0] * (len(HOSTILE) - 3)],
        }
    )


@pytest.mark.parametrize("suffix", output_suffixes())
def test_every_output_takes_hostile_names_and_odd_numbers(suffix: str, tmp_path: Path) -> None:
    made = save_table(hostile_table(), tmp_path / f"t{suffix}", title=HOSTILE[0])
    assert made.stat().st_size > (0 if suffix == ".codequality" else 100)  # a list of nothing judged
    assert [p.name for p in tmp_path.iterdir()] == [made.name]


def test_parquet_gives_the_table_back(tmp_path: Path) -> None:
    made = save_table(hostile_table(), tmp_path / "t.parquet", schema=load_schema("energy"))
    assert_frame_equal(pl.read_parquet(made), hostile_table())
    assert pl.read_parquet_metadata(made)["tracetool.schema"] == "energy/1"


def test_json_gives_names_and_numbers_back(tmp_path: Path) -> None:
    rows = json.loads(save_table(hostile_table(), tmp_path / "t.json").read_text("utf-8"))["rows"]
    assert [r["name"] for r in rows] == HOSTILE
    assert [r["when"] for r in rows[:3]] == [None, None, None]


def test_csv_has_a_row_per_row(tmp_path: Path) -> None:
    made = save_table(hostile_table(), tmp_path / "t.csv")
    with made.open(newline="", encoding="utf-8") as f:
        csv.field_size_limit(1_000_000)
        rows = list(csv.reader(f))
    assert len(rows) == 1 + len(HOSTILE)
    assert len({len(r) for r in rows}) == 1


@pytest.mark.parametrize("suffix", [".md", ".html"])
def test_people_outputs_hold_no_live_markup(suffix: str, tmp_path: Path) -> None:
    text = save_table(hostile_table(), tmp_path / f"t{suffix}").read_text("utf-8")
    assert "<script" not in text.replace("`</script><script>alert(1)</script>`", "")
    assert "<svg" not in text.replace("</style><svg onload=alert(1)>", "") or suffix == ".md"
    assert "\x1b" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())


@pytest.mark.parametrize("suffix", [".html", ".md"])
def test_figures_of_many_units_are_rounded_one_by_one(suffix: str, tmp_path: Path) -> None:
    sheet = tt.gpu("h100-sxm")
    text = sheet.save(tmp_path / f"sheet{suffix}").read_text("utf-8")
    for name, value in (("sm_count", "132"), ("dram_bytes_per_s", "3,350,000,000,000"), ("idle_w", "71.50")):
        row = next(line for line in re.findall(r"<tr>.*?</tr>|\| .*? \|\n", text) if name in line)
        assert value in re.split(r"</?t\w[^>]*>| \| ", row), row


def test_names_too_long_for_a_line_break_and_short_ones_do_not(tmp_path: Path) -> None:
    frame = pl.DataFrame({"name": ["k" * 90, "b"], "agrees": ["inconclusive", "yes"], "energy_j": [1.0, 2.0]})
    text = save_table(frame, tmp_path / "t.html").read_text("utf-8")
    assert f'<td class="long">{"k" * 90}</td><td class="short">inconclusive</td><td class="n">1' in text


def test_an_unknown_extension_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        check_output(tmp_path / "x.docx")
    assert ".parquet" in caught.value.fix


def test_a_missing_folder_is_said_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="folder does not exist"):
        check_output(tmp_path / "no" / "x.md")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "t.json"
    target.write_text("old")
    broken = hostile_table().with_columns(pl.lit(1).alias("x"))
    renderer = importlib.import_module("tracetool.report.renderers.json")
    monkeypatch.setattr(renderer, "flat_columns", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_table(broken, target)
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]


def accuracy(measured: pl.DataFrame | None, warnings: tuple[str, ...] = ()) -> Accuracy:
    rows = compare_signatures(frames.signatures(), frames.predictions(), measured)
    return Accuracy("run", "a100-sxm", 1410.0, accuracy_table(rows), ("too far off",), ("a note",), warnings)


def test_a_report_says_its_verdict_first_in_markdown(tmp_path: Path) -> None:
    made = save_view(accuracy_view(accuracy(frames.energies())), tmp_path / "d.md").read_text("utf-8")
    assert made.startswith("### Energy 0.338")
    assert "gemm_big" in made
    assert "too far off" in made


def test_a_report_without_a_power_log_says_so(tmp_path: Path) -> None:
    made = save_view(accuracy_view(accuracy(None)), tmp_path / "d.md").read_text("utf-8")
    assert "not measured" in made.splitlines()[0]


def test_the_json_report_holds_everything(tmp_path: Path) -> None:
    found = accuracy(frames.energies())
    made = json.loads(save_view(accuracy_view(found), tmp_path / "d.json").read_text("utf-8"))
    assert made["schema"] == "accuracy/4"
    assert made["failed"] is True
    assert {k["name"] for k in made["kernels"]} == {"gemm_big", "softmax", "copy_kernel"}
    assert made["total"]["energy_error_pct"] == pytest.approx(found.total()["energy_error_pct"])


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["=1+1", "-2+3"]), pl.List(pl.String)])
@pytest.mark.parametrize("streamed", [False, True])
def test_no_text_of_any_type_is_a_formula_in_a_csv(
    kind: PolarsDataType, streamed: bool, tmp_path: Path
) -> None:
    texts = pl.Series("=head", ["=1+1", "-2+3"])
    frame = pl.DataFrame(
        [texts.reshape((2, 1)).cast(kind) if kind == pl.List(pl.String) else texts.cast(kind)]
    )
    path = tmp_path / "t.csv"
    if streamed:
        save_stream([frame, frame], path)
    else:
        save_table(frame, path)
    with path.open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert len(cells) == (5 if streamed else 3)
    assert cells[0] == "'=head"
    assert not any(cell.startswith(("=", "-", "+", "@")) for cell in cells)
    assert any("=1+1" in cell for cell in cells[1:])


def test_classified_kernels_are_no_formulas(tmp_path: Path) -> None:
    """The ordinary way from a trace to ``classify -o``."""
    table = tmp_path / "kernels.csv"
    table.write_text("kernel,start_us,duration_us\n" + "=1+1,0,5\n@SUM(A1),10,5\n" * 3)
    tt.ingest(table, out=tmp_path / "run").classify().save(tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        names = {row["name"] for row in csv.DictReader(file)}
    assert names == {"'=1+1", "'@SUM(A1)"}


def test_the_page_names_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text("utf-8")
    entry = page[page.index("- `save(path)`") : page.index("- `show()`")].replace("`", " ").replace(")", " ")
    assert set(output_suffixes()) <= set(entry.split())
