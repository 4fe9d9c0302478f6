"""The notebook runs from ingest to plot, and is stored without outputs."""

from __future__ import annotations

import ast
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "notebook.ipynb"
CELLS = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]


def _run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell in the notebook's namespace and return its last expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_every_cell_runs_and_shows_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells are plain Python: no kernel is needed to run them."""
    pytest.importorskip("bokeh")
    monkeypatch.chdir(NOTEBOOK.parent)
    make_folder = tempfile.mkdtemp
    monkeypatch.setattr("tempfile.mkdtemp", lambda **where: make_folder(**where) if where else str(tmp_path))
    names: dict[str, Any] = {}
    shown = [value for source in CODE if (value := _run(source, names)) is not None]
    assert [type(value).__name__ for value in shown].count("Picture") == 2
    for value in shown:
        html = value._repr_html_() if hasattr(value, "_repr_html_") else str(value)
        assert html
    assert (tmp_path / "points.csv").is_file()


def test_it_is_stored_without_outputs() -> None:
    assert all(not c["outputs"] and c["execution_count"] is None for c in CELLS if c["cell_type"] == "code")
    assert len({cell["id"] for cell in CELLS}) == len(CELLS)


@pytest.mark.parametrize("task", ["ingest", "attribute", "predict", "sweep", "plot"])
def test_it_goes_from_ingest_to_plot(task: str) -> None:
    assert any(f".{task}(" in source for source in CODE)
