"""Every configuration beside the checkout: its weights are those its library counts, its rows a table."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import polars as pl
import pytest

from tracetool.forecast.config import read_model
from tracetool.forecast.model import Forward, Model, Parallel
from tracetool.forecast.model_names import named_models, resolved
from tracetool.replay.operator_tables import read_table

DATA = Path(__file__).resolve().parents[3] / "shared/data/models"
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not DATA.is_dir(), reason="no configurations beside the checkout"),
]
PATHS = sorted(DATA.glob("*.json")) if DATA.is_dir() else []
LANGUAGE = [p for p in PATHS if "_class_name" not in json.loads(p.read_text())]


def counted() -> dict[str, tuple[float, float]]:
    """Parameters, and those a token meets, as the listing beside the configurations counts them."""
    counts = {}
    with (DATA / "SOURCES.tsv").open() as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            text = row["check"] or ""
            if whole := re.search(r"own formula ([\d,]+) parameters", text):
                active = re.search(r"text tower only ([\d.]+)e9", text)
                parameters = float(whole[1].replace(",", ""))
                counts[row["model_id"].replace("/", "--")] = (
                    parameters,
                    float(active[1]) * 1e9 if active else parameters,
                )
    return counts


COUNTS = counted() if PATHS else {}


def model_of(path: Path) -> Model:
    return read_model(path)


@pytest.mark.parametrize("path", LANGUAGE, ids=lambda p: p.stem)
def test_a_language_model_has_the_weights_its_library_counts(path: Path) -> None:
    model = model_of(path)
    if path.stem not in COUNTS:
        pytest.skip("not counted")
    parameters, active = COUNTS[path.stem]
    assert model.parameters == pytest.approx(parameters, rel=0.02)
    if active != parameters:
        assert model.active_parameters == pytest.approx(active, rel=0.02)


@pytest.mark.parametrize("path", LANGUAGE, ids=lambda p: p.stem)
@pytest.mark.parametrize("parallel", [Parallel(), Parallel(tp=2), Parallel(tp=2, dp=2, ep=4), Parallel(pp=2)])
def test_its_rows_are_an_operator_table(path: Path, parallel: Parallel) -> None:
    rows = model_of(path).operators(Forward(16, 3000, 2, 400, 700), parallel)
    table = read_table(pl.DataFrame(rows, infer_schema_length=None))
    assert table.frame.height == len(rows)
    assert (table.counts > 0).all()


@pytest.mark.parametrize("path", LANGUAGE, ids=lambda p: p.stem)
def test_gpus_of_a_replica_hold_the_model_between_them(path: Path) -> None:
    model = model_of(path)
    one = model.weight_bytes(Parallel())
    for parallel in (Parallel(tp=2), Parallel(tp=4, ep=4), Parallel(pp=2)):
        shared = model.weight_bytes(parallel) * parallel.gpus
        assert one * 0.999 <= shared <= one * (1.2 if parallel.pp > 1 else 1.1), parallel
        assert model.kv_bytes_per_token(parallel) <= model.kv_bytes_per_token(Parallel())


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_name_that_stands_for_another_has_the_same_sizes(path: Path) -> None:
    name = resolved(path.stem.replace("--", "/"))
    if name in named_models():
        published, named = read_model(path), read_model(name)
        assert named.parameters == pytest.approx(published.parameters - published.tower_parameters, rel=1e-6)
        assert named.layers == published.layers
