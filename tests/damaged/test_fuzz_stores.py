"""Baselines and documents of data sets, edited by somebody else: a result or one line."""

from __future__ import annotations

import json
import random
import shutil
import zlib
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

import tracetool as tt
from tests.compare.folders import write_folder
from tests.damaged.fuzz import EXAMPLES, FIRST, numbers
from tests.damaged.mutate.documents import change_json
from tests.damaged.mutate.tables import change_frame
from tests.damaged.test_fuzz_runs import obeys
from tracetool.cli.app import run as command
from tracetool.fleet.manifest import Manifest
from tracetool.fleet.storage import Place


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run and a store of three baselines."""
    folder = tmp_path_factory.mktemp("whole")
    run = write_folder(folder / "run.tracetool")
    for n in range(3):
        words = f"baseline add {folder / 'store'} {run} --commit c{n} --branch main -q"
        assert command(words.split()) == 0
    return folder


def edit_baseline(store: Path, draw: random.Random) -> str:
    """Edit what a baseline states of itself, or a column of its classes."""
    path = draw.choice(sorted(store.rglob("*.parquet")))
    table = pq.read_table(path)
    held = dict(table.schema.metadata)
    note = path.with_suffix(".json")
    if draw.random() < 0.5:
        key = next(k for k in held if k.startswith(b"tracetool"))
        step = change_json(note, json.loads(held[key]), draw)
        held[key] = (
            draw.choice((b"", note.read_bytes()[:-9], b"[" * 100_000))
            if draw.random() < 0.1
            else note.read_bytes()
        )
        note.unlink()
    else:
        frame, step = change_frame(pl.DataFrame(table), draw)
        table = frame.to_arrow()
    pq.write_table(table.replace_schema_metadata(held), path)
    return f"{path.name}: {step}"


_COMMANDS = (
    ["baseline", "list", "store"],
    ["baseline", "prune", "store", "--keep", "1"],
    *[["check", "RUN", "--baseline", "store", "--branch", "main"]] * 3,
)


@pytest.mark.timeout(8000)
def test_a_command_on_edited_baselines_ends_well(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACETOOL_DEBUG", "1")  # what nobody foresaw is raised, not printed
    monkeypatch.chdir(tmp_path)
    count, faults, number = max(3, EXAMPLES // 4), dict[str, str](), FIRST
    for number in numbers(count):
        shutil.rmtree(tmp_path / "store", ignore_errors=True)
        shutil.copytree(whole / "store", tmp_path / "store")
        draw = random.Random(zlib.crc32(f"baselines {number}".encode()))
        step, chosen = edit_baseline(tmp_path / "store", draw), draw.choice(_COMMANDS)
        fault = obeys([str(whole / "run.tracetool") if w == "RUN" else w for w in chosen], tmp_path)
        if fault and not ("'nan'" in step and fault.startswith("figures")):  # a name may be of those letters
            faults.setdefault(
                fault.split(": ")[0], f"example {number}: {step}\n  {' '.join(chosen)}\n  {fault}"
            )
    print(f"baselines: {number - FIRST + 1} of {count} examples, {len(faults)} kinds of faults")
    assert not faults, "\n" + "\n".join(faults.values())


@pytest.mark.parametrize(
    "kind",
    [
        "document",
        "no table",
        "text",
        "time",
        "deep",
        "infinite",
        "steps",
        "key",
        "gpu",
        "short span",
        "spans",
        "energy",
        "small energy",
        "launches",
    ],
)
def test_a_baseline_that_is_none_is_refused_in_one_line(
    kind: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What changed baselines brought to light, each by its name: a traceback before."""
    monkeypatch.setenv("TRACETOOL_DEBUG", "1")
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    path = min((tmp_path / "store").rglob("*.parquet"))
    table = pq.read_table(path)
    frame, held = pl.DataFrame(table), dict(table.schema.metadata)
    header = json.loads(held[b"tracetool.baseline"])
    changes = {
        "document": {"keys": [header["keys"]]},
        "time": {"time_s": 7_258_118_400_000_000_001},
        "text": {"basis": "k\udfff"},
        "infinite": {"span_s": float("inf")},
        "steps": {"steps": 10**59},
        "key": {"keys": {**header["keys"], "GPU": float("inf")}},
        "gpu": {"gpu": float("nan")},
        "short span": {"span_s": 1e-320},
        "spans": {"step_span_s": "-1"},
    }
    figures = {
        "energy": ("energy_j", 1e300),
        "small energy": ("energy_j", 1e-320),
        "launches": ("launches", float("nan")),
    }
    text = json.dumps(header | changes.get(kind, {})).encode()
    held[b"tracetool.baseline"] = b"[" * 100_000 if kind == "deep" else text
    rows = frame.clear() if kind == "no table" else frame
    if kind in figures:
        name, value = figures[kind]
        rows = rows.with_columns(pl.when(pl.int_range(pl.len()) == 0).then(value).otherwise(name).alias(name))
    pq.write_table(rows.to_arrow().replace_schema_metadata(held), path)
    run, store = tmp_path / "run.tracetool", tmp_path / "store"
    assert not obeys(["check", str(run), "--baseline", str(store), "--branch", "main"], tmp_path)
    assert command(["check", str(run), "--baseline", str(store), "--branch", "main", "-q"]) == 2
    if kind in ("deep", "time", "text"):
        assert not obeys(["baseline", "list", str(store)], tmp_path)


@pytest.mark.parametrize("entry", [{"job": "a"}, {"job": "a", "state": "done", "marks": "", "labels": [1]}])
def test_a_document_of_a_data_set_that_states_no_job_is_refused(
    entry: dict[str, object], tmp_path: Path
) -> None:
    document = tmp_path / "manifest" / "ingest" / "a.json"
    document.parent.mkdir(parents=True)
    document.write_text(json.dumps({"schema": "fleet/1", **entry}))
    with pytest.raises(tt.BadInput, match="is no fleet/1 document"):
        Manifest(Place(tmp_path), "ingest")
    document.write_text("[" * 100_000)
    assert not Manifest(Place(tmp_path), "ingest").entries()  # cut short: as if it was never done
