"""What a redacted run, and a redacted export, still say of whoever made the trace."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import Tool
from tests.damaged.small_run import small_run
from tests.sources.makers import TRACES, Sample
from tracetool.api.ingest import ingest
from tracetool.kernels.redact import KEY_VARIABLE, Redactor
from tracetool.tables.run import Run, write_run
from tracetool.tables.schema import load_schema, schema_names

SECRET = "acme-moonshot"
PUBLIC = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
USERS = f"void at::native::vectorized_elementwise_kernel<4, {SECRET.replace('-', '_')}::Functor<float>>(int)"


def planted(frame: pl.DataFrame) -> pl.DataFrame:
    """Write the secret into every text of a table."""
    texts = [n for n, d in frame.schema.items() if d == pl.String]
    lists = [n for n, d in frame.schema.items() if d == pl.List(pl.String)]
    return frame.with_columns(
        *(pl.lit(f"{SECRET}/layer 3").alias(n) for n in texts),
        *(pl.lit([f"/home/{SECRET}"], dtype=pl.List(pl.String)).alias(n) for n in lists),
    )


@pytest.mark.parametrize("name", sorted(schema_names()))
def test_a_text_in_any_column_is_replaced(name: str) -> None:
    from tracetool.kernels.redact import _PUBLIC

    frame = load_schema(name).empty().clear(1)
    redacted = Redactor(b"key").tables({name: planted(frame)})[name]
    closed = redacted.drop(_PUBLIC.get(name, set()), strict=False)
    assert SECRET not in json.dumps(closed.to_dicts(), default=str)
    assert redacted.schema == frame.schema


@pytest.mark.parametrize("sample", TRACES, ids=lambda s: s.format)
def test_every_format_is_redacted_and_loses_no_figure(sample: Sample, tmp_path: Path) -> None:
    folder = tmp_path / SECRET
    folder.mkdir()
    path = sample.make(folder)
    plain = ingest([path], out=tmp_path / "plain")
    redacted = ingest([path], out=tmp_path / "redacted", redact=True)
    assert SECRET not in (tmp_path / "redacted" / "run.json").read_text()
    assert path.name not in (tmp_path / "redacted" / "run.json").read_text()
    ranges = plain.table("ranges")["name"].drop_nulls().unique().to_list()
    named = [r for r in ranges if not r[-1:].isdigit()]
    assert not set(named) & set(redacted.table("ranges")["name"].drop_nulls())
    same = ["start_ns", "duration_ns", "device", "kind", "signature"]
    assert redacted.kernels.select(same).equals(plain.kernels.select(same))
    assert redacted.signatures["family"].equals(plain.signatures["family"])


def test_names_of_public_libraries_stay_and_those_made_of_users_types_do_not() -> None:
    redactor = Redactor(b"key")
    frame = pl.DataFrame({"name": [PUBLIC, USERS, f"{SECRET}_softmax_forward", "[CUDA memcpy HtoD]"]})
    public, users, softmax, copy = redactor.tables({"signatures": frame})["signatures"]["name"]
    assert (public, copy) == (PUBLIC, "[CUDA memcpy HtoD]")
    assert users.startswith("elementwise_kernel_")
    assert softmax.startswith("softmax_kernel_")


def test_one_key_gives_one_word_and_no_key_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracetool.kernels.redact import redaction_key

    monkeypatch.setenv(KEY_VARIABLE, "ours")
    assert Redactor(redaction_key()).word("a", "range") == Redactor(redaction_key()).word("a", "range")
    monkeypatch.delenv(KEY_VARIABLE)
    assert Redactor(redaction_key()).word("a", "range") != Redactor(redaction_key()).word("a", "range")


def test_an_export_is_redacted(tmp_path: Path, command: Tool) -> None:
    run = Run.open(small_run(tmp_path))
    tables = {name: run.table(name) for name in run.info["tables"]}
    tables["ranges"] = tables["ranges"].with_columns(name=pl.lit(SECRET))
    info = {k: v for k, v in run.info.items() if k not in ("schema", "tool_version", "tables")}
    named = write_run(tmp_path / "named.tracetool", tables, info)
    done = command("export", named, "-o", tmp_path / "plain.json", "-q")
    assert done.returncode == 0, done.stderr
    assert SECRET in (tmp_path / "plain.json").read_text()
    done = command("export", named, "-o", tmp_path / "redacted.json", "--redact", "-q")
    assert done.returncode == 0, done.stderr
    assert SECRET not in (tmp_path / "redacted.json").read_text()
