"""Classify: a run's kernels, a list of names, or one name explained token by token."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.core.escape import from_csv, map_distinct
from tracetool.core.paths import regular_file
from tracetool.kernels.classify import COLUMNS, classify_names
from tracetool.kernels.structure import describe
from tracetool.tables.measured_work import work_by_signature
from tracetool.tables.recorded_clock import recorded_clock
from tracetool.tables.run import RUN_FILE, Run
from tracetool.tables.run_folder import is_run_path
from tracetool.tables.table_file import stored_table
from tracetool.tables.windows import Window, parts_of

#: Columns a table of names may call them.
_NAME_COLUMNS = ("name", "kernel", "kernel_name", "Name", "Kernel_Name", "KernelName", "Kernel Name")
_LARGEST_LINE = 1 << 20
#: Launches described at once on their way to a file.
_SLICE = 1 << 17


def opened_run(source: str | os.PathLike[str] | Run) -> Run | None:
    """Return the run that a source is, None for a file of names."""
    if isinstance(source, Run):
        return source
    path = Path(source)
    if is_run_path(path) or path.name == RUN_FILE:
        return Run.open(path.parent if path.name == RUN_FILE else path)
    return None


def classify_source(source: str | os.PathLike[str] | Run) -> pl.DataFrame:
    """Classify a run or a file of kernel names.

    Parameters
    ----------
    source : path
        A run directory; a ``.csv`` or ``.parquet`` table with a column ``name``; or a text file, one
        name per line.

    Returns
    -------
    DataFrame
        For a run, one row per kernel launch in timeline order with ``duration_ns``, and families
        refined by the operators; else one row per name in input order. Columns:
        :data:`tracetool.kernels.grammar.MEANINGS`.

    Raises
    ------
    BadInput
        If the source cannot be read or holds no names.
    """
    run = opened_run(source)
    if run is not None:
        return classify_run(run)
    path = Path(os.fspath(source))  # type: ignore[arg-type]
    frame, column = _names(path)
    classes = classify_names(frame[column].cast(pl.String).to_list())
    user_columns = [c for c in frame.columns if c not in classes.columns and c != column]
    return pl.concat([classes, frame.select(user_columns)], how="horizontal")


#: What the operator and the launch add to the name, per signature of a run.
_DESCRIBED = (
    *(
        "family",
        "basis",
        "dtype",
        "m",
        "n",
        "k",
        "batch",
        "rows",
        "cols",
        "elements",
        "q_len",
        "kv_len",
        "heads",
    ),
    *("split_k", "blocks", "shape_source", "inferred"),
)


def classify_run(run: Run) -> pl.DataFrame:
    """Return one row per kernel launch of a run: what its name states, refined by operator and launch."""
    few = _classified(run)
    return pl.concat([_launches(window, few) for window in parts_of(run)])


def classify_windows(run: Run) -> Iterator[pl.DataFrame]:
    """Give what :func:`classify_run` returns in slices: seventy columns of a whole window take gigabytes."""
    few = _classified(run)
    for window in parts_of(run):
        for launches in _timed(window).iter_slices(_SLICE):
            yield _with_attributes(launches, few)


def shares_of(run: Run) -> pl.DataFrame:
    """Return :func:`family_shares` of a run from its signatures alone."""
    few = _classified(run).select("signature", "family")
    kernels = run.signatures.filter(pl.col("kind") == "kernel")
    shares = kernels.drop("family").join(few, on="signature", how="left").group_by("family").agg(
        pl.col("name").n_unique().alias("names"),
        pl.col("launches").sum().cast(pl.UInt32).alias("rows"),
        (pl.col("duration_ns").sum() / 1e6).alias("time_ms"),
    )  # fmt: skip
    return shares.sort("time_ms", "family", descending=[True, False])


def _launches(run: Run, few: pl.DataFrame) -> pl.DataFrame:
    """Return one row per kernel launch of a run or a window of it."""
    return _with_attributes(_timed(run), few)


def _timed(run: Run) -> pl.DataFrame:
    """Return when and where each kernel launch of a run or a window of it ran, by the run's signatures."""
    columns = ["start_ns", "duration_ns", "device", "stream", "kind", "name", "signature"]
    # a run that fits at once is read whole: rows that refer to none are refused there
    rows = run.launches(columns) if isinstance(run, Window) else run.kernels
    return rows.filter(pl.col("kind") == "kernel").select(c for c in columns if c != "kind")


def _with_attributes(launches: pl.DataFrame, few: pl.DataFrame) -> pl.DataFrame:
    return launches.join(few, on="signature", how="left", maintain_order="left")


def _classified(run: Run) -> pl.DataFrame:
    """Return the attributes of each signature of a run."""
    signatures = run.signatures
    clock = recorded_clock(run)
    described = describe(signatures, clock_mhz=clock[0] if clock else None).select(_DESCRIBED)
    named = classify_names(signatures["name"].to_list()).drop("name")
    stated = named.drop([c for c in named.columns if c in _DESCRIBED])
    table = pl.concat([signatures.select("signature"), described, stated], how="horizontal")
    order = ["signature", *COLUMNS, *(c for c in _DESCRIBED if c not in COLUMNS)]
    work = work_by_signature(run)
    if work.height:  # what a profiler counted of one launch
        table = table.join(work, on="signature", how="left", maintain_order="left")
        order += work.columns[1:]
    # millions of launches share few signatures: texts that repeat are kept once
    texts = [c for c, dtype in table.schema.items() if dtype == pl.String]
    return table.select(order).with_columns(pl.col(texts).cast(pl.Categorical))


def family_shares(classified: pl.DataFrame) -> pl.DataFrame:
    """Return names, launches and time per family, the largest first."""
    timed = "duration_ns" in classified.columns and classified.schema["duration_ns"].is_integer()
    shares = classified.group_by("family").agg(
        pl.col("name").n_unique().alias("names"),
        pl.len().alias("rows"),
        *([(pl.col("duration_ns").cast(pl.Float64).sum() / 1e6).alias("time_ms")] if timed else []),
    )
    order = "time_ms" if timed else "rows"
    return shares.sort(order, "family", descending=[True, False])


def _names(path: Path) -> tuple[pl.DataFrame, str]:
    regular_file(path, "give a run (tracetool ingest TRACE makes one) or a file of names")
    suffix = path.suffix.lower()
    read_text = (lambda raw: pl.read_csv(raw, infer_schema=False)) if suffix == ".csv" else _lines
    frame = stored_table(path, read_text, suffix[1:] or "text")
    column = _column(frame.columns)
    if column is None:
        raise BadInput.in_file(
            path, f"has no column of kernel names (columns: {', '.join(frame.columns[:8])})", "call it name"
        )
    if not frame.height:
        raise BadInput.in_file(path, "holds no names", "give a name a line, or a column name")
    if "duration_ns" in frame.columns and frame["duration_ns"].dtype.is_numeric():
        short = (frame["duration_ns"] < 0).fill_null(value=False)
        if short.any():
            raise BadInput.in_file(path, f"row {int(short.arg_true()[0]) + 1}: duration_ns is below 0")
    if suffix == ".csv":  # as this tool itself writes names that a spreadsheet would run
        frame = frame.with_columns(map_distinct(frame[column], from_csv))
    return frame, column


def _lines(raw: bytes) -> pl.DataFrame:
    if b"\0" in raw[:4096]:
        raise ValueError("binary data")
    if raw.lstrip()[:2].startswith((b"{", b"[{", b"[\n")):  # "[CUDA memcpy HtoD]" is a name
        raise ValueError("a JSON document, not a name a line")
    lines = [line[:_LARGEST_LINE] for line in raw.decode("utf-8", "replace").splitlines()]
    return pl.DataFrame({"name": [line for line in lines if line.strip()]}, schema={"name": pl.String})


def _column(columns: Sequence[str]) -> str | None:
    return next((c for c in _NAME_COLUMNS if c in columns), None)
