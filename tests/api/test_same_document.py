"""Behavior in one place: each command prints the document that its function returns."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracetool as tt
from tests.documents import check_document
from tracetool.cli.app import run as command_line

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
ROOT = SAMPLES.parent
KERNEL = "ampere_sgemm_128x64_nn"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tt.Run:
    out = tmp_path_factory.mktemp("api") / "mi300x.tracetool"
    return tt.ingest(SAMPLES / "mi300x_kernel_trace.csv", gpu="mi300x", out=out)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "operators.csv"
    path.write_text(
        "op,dtype,m,n,k,elements\ngemm,bf16,4096,4096,4096,\nelementwise,fp32,,,,100000\n", "utf-8"
    )
    runs = [
        f"m,{gpu},{batch},{500 + batch},{scale / batch + 0.1}\n"
        for gpu, scale in (("h100-sxm", 4), ("b200-sxm", 3))
        for batch in (1, 2, 4, 8, 16)
    ]
    header = "model,gpu,batch,power_w,energy_per_token_j\n"
    path.with_name("runs.csv").write_text(header + "".join(runs), "utf-8")
    path.with_name("activity.csv").write_text("name,start_us,end_us\nload,1000000,6000000\n", "utf-8")
    rows = [
        f"{t * 1000},0,{300 if 1000 <= t < 6000 else 60}.{t // 100 % 100:02d}" for t in range(0, 8000, 20)
    ]
    path.with_name("power.csv").write_text("\n".join(["time_us,device,power_w", *rows, ""]), "utf-8")
    return path


CONFIG = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip

#: Each command's words (RUN and TABLE stand for the sample's paths), and the function that is its job.
SAME: dict[str, Callable[[tt.Run, Path], tt.Result]] = {
    "predict RUN --clock 900,1800 --by family": lambda r, _: r.predict(clock=[900, 1800], by="family"),
    "predict RUN --launch graph --scale gemm=0.5": lambda r, _: tt.predict(
        r, launch="graph", scale={"gemm": 0.5}
    ),
    "predict TABLE --gpu a100-sxm --power-cap 300": lambda _, t: tt.predict(
        t, gpu="a100-sxm", power_cap=300.0
    ),
    "sweep TABLE --gpu h100-sxm --clock 900:1500:300 --power-cap 300": lambda _, t: tt.sweep(
        t, gpu="h100-sxm", clock="900:1500:300", power_cap=300
    ),
    "forecast CONFIG --gpu h100-sxm --bs 64 --tp 2": lambda _, t: tt.forecast(
        t.with_name("llama.json"), gpu="h100-sxm", bs=64, tp=2
    ),
    "diagnose RUNS": lambda _, t: tt.diagnose_table(t.with_name("runs.csv")),
    "summary RUN": lambda r, _: tt.summary(r),
    "diagnose RUN": lambda r, _: tt.diagnose(r),
    "diagnose RUN --clock 1200 --by kernel": lambda r, _: tt.diagnose(r, clock=1200.0, by="kernel"),
    "diagnose RUN RUN --work tokens=64": lambda r, _: tt.diagnose_pair(r, r, work={"tokens": (64.0, 64.0)}),
    "export RUN -o OUT": lambda r, _: tt.export(r, r.path.with_name("run.pftrace")),
    "roofline RUN": lambda r, _: tt.roofline(r),
    "attribute RUN --by family --work tokens=64": lambda r, _: tt.energy_by(
        r, ["family"], work={"tokens": 64}
    ),
    "classify NAMES": lambda r, t: tt.classify(t.with_name("names.txt")),
    "classify RUN": lambda r, _: r.classify(),
    f"classify --explain {KERNEL}": lambda _r, _t: tt.explain(KERNEL),
    "check-power ACTIVITY --power LOG --gpu rtx-3090": lambda _r, t: tt.check_power(
        t.with_name("activity.csv"), power=t.with_name("power.csv"), gpu="rtx-3090"
    ),
    "gpus": lambda _r, _t: tt.gpus(),
    "gpus --show h100-sxm": lambda _r, _t: tt.gpu("h100-sxm"),
    "gpus h100-sxm": lambda _r, _t: tt.gpu("h100-sxm"),
    "families": lambda _r, _t: tt.families(),
    "formats": lambda _r, _t: tt.formats(),
    "schema kernels": lambda _r, _t: tt.schema("kernels"),
    "schema": lambda _r, _t: tt.schema(),
}


def _rounded(document: Any) -> Any:
    """Return a document to ten digits: sums over threads differ in the last one from call to call."""
    if isinstance(document, float):
        return float(f"{document:.10g}") if abs(document) > 1e-9 else 0.0
    if isinstance(document, dict):
        return {key: _rounded(value) for key, value in document.items()}
    return [_rounded(value) for value in document] if isinstance(document, list) else document


@pytest.mark.parametrize("words", SAME)
def test_a_command_prints_the_document_of_its_function(
    words: str, sample: tt.Run, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = table.with_name("llama.json")
    config.write_text(json.dumps(CONFIG), "utf-8")
    table.with_name("names.txt").write_text("ampere_sgemm_128x64_nn\n", "utf-8")
    places = {
        "RUN": sample.path,
        "TABLE": table,
        "CONFIG": config,
        "NAMES": table.with_name("names.txt"),
        "OUT": sample.path.with_name("run.pftrace"),
    }
    places |= {
        "RUNS": table.with_name("runs.csv"),
        "ACTIVITY": table.with_name("activity.csv"),
        "LOG": table.with_name("power.csv"),
    }
    arguments = [str(places.get(word, word)) for word in words.split()]
    assert command_line([*arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    check_document(words, printed)
    result = SAME[words](sample, table)
    assert _rounded(printed) == _rounded(result.to_dict())
    assert "<table" in result._repr_html_()
    assert result.frame.height > 0


#: Comparisons sum over threads: their last digits, and the order of equal rows, differ from call to call.
COMPARED: dict[str, Callable[[tt.Run], tt.Result]] = {
    "diff RUN --fail-on time=900% --exit-zero": lambda r: r.diff(fail_on=["time=900%"]),
    "diff RUN RUN": lambda r: tt.diff(r, r),
    "check RUN --base RUN": lambda r: tt.check(r, base=r),
}


@pytest.mark.parametrize("words", COMPARED)
def test_a_comparison_is_printed_as_its_function_returned_it(
    words: str, sample: tt.Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracetool.cli import output

    emitted: list[tt.Result] = []
    emit = output.emit
    monkeypatch.setattr(output, "emit", lambda result, **how: emitted.append(result) or emit(result, **how))
    assert command_line([*(w.replace("RUN", str(sample.path)) for w in words.split()), "--json"]) == 0
    printed, own = json.loads(capsys.readouterr().out), COMPARED[words](sample)
    assert printed == emitted[0].to_dict()
    check_document(words, printed)
    assert type(emitted[0]) is type(own)
    assert printed.keys() == own.to_dict().keys()
    assert "<table" in own._repr_html_()


def test_ingest_prints_the_run(sample: tt.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "again.tracetool"
    trace = SAMPLES / "mi300x_kernel_trace.csv"
    assert command_line(["ingest", str(trace), "--gpu", "mi300x", "-o", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    check_document("ingest", printed)
    assert printed == tt.open(out).to_dict()
    assert {**printed, "run": ""} == {**sample.to_dict(), "run": ""}


def test_baselines_and_a_report_are_one_document(
    sample: tt.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("bokeh")
    store, page = tmp_path / "kept", tmp_path / "page.html"
    added = tt.add_baseline(store, sample).to_dict()
    check_document("baseline add", added)
    assert [Path(file).is_file() for file in added["files"]] == [True]
    assert command_line(["baseline", "list", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == tt.list_baselines(store).to_dict()
    assert command_line(["report", str(sample.path), "-o", str(page), "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    check_document("report", reported)
    assert _rounded(reported) == _rounded(sample.report(page).to_dict())
    check_document("baseline prune", tt.prune_baselines(store, keep=1).to_dict())


def test_a_prediction_takes_a_frame_as_its_file(table: Path) -> None:
    frame = pl.read_csv(table)
    assert tt.predict(frame, gpu="h100-sxm").to_dict() == tt.predict(table, gpu="h100-sxm").to_dict()
    with pytest.raises(tt.BadInput, match="which GPU"):
        tt.predict(frame)


def test_charts_are_pages_of_their_own(sample: tt.Run, table: Path, tmp_path: Path) -> None:
    pytest.importorskip("bokeh")
    results = {
        "Energy and time over clocks": tt.sweep(table, gpu="h100-sxm", clock="900:1500:300"),
        "Predicted energy": sample.predict(),
        "Predicted energy ": tt.predict(table, gpu="h100-sxm"),
        "Why the energy changed": tt.diff(sample, sample),
        "Predicted against measured": tt.diff(sample),
    }
    for title, result in results.items():
        picture = result.plot()
        assert picture.title.startswith(title.strip())
        html = picture._repr_html_()
        assert html.startswith("<iframe srcdoc=")
        assert "<script" not in html, "the page inside the notebook is escaped"
    assert picture.save(tmp_path / "chart.html").stat().st_size > 10_000


def test_names_in_a_notebook_are_escaped(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("<script>alert(1)</script>\n", "utf-8")
    classified = tt.classify(names)
    assert "<script>" not in classified._repr_html_()
    assert "<script>" not in tt.explain("<script>alert(1)</script>")._repr_html_()


def test_pandas_is_asked_for_by_its_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(tt.MissingPart, match="pandas") as missing:
        tt.gpus().to_pandas()
    assert "pip install pandas" in missing.value.line()


def _typed_names() -> set[str]:
    tree = ast.parse((ROOT / "tracetool" / "__init__.py").read_text("utf-8"))
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [n for n in guard.body if isinstance(n, ast.ImportFrom) and n.module != "typing"]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def test_every_public_name_is_typed_and_loads() -> None:
    names: Any = set(tt.__all__) - {"__version__"}
    assert names == _typed_names()
    assert all(callable(getattr(tt, name)) for name in names)


def test_a_function_is_not_its_package() -> None:
    """``tracetool.report`` is a package too: whichever is imported first, ``tt.report`` is the function."""
    import subprocess
    import sys

    program = (
        "import tracetool.report.save, tracetool.record.machine, tracetool.calibrate.calibrate\n"
        "import tracetool as tt, inspect\n"
        "assert all(map(inspect.isfunction, (tt.report, tt.record, tt.calibrate, tt.families)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_it_loads_no_library() -> None:
    import subprocess
    import sys

    program = "import sys, tracetool; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {
        "numpy",
        "polars",
        "typer",
        "rich",
        "pyarrow",
        "importlib.metadata",
        "typing",  # slower to load than Python is to start, and an interrupt then would be a traceback
    }
