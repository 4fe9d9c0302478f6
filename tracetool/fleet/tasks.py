"""Tasks of a worker on one job: inputs come as arguments, outputs go to the data set."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final

import polars as pl

from tracetool.core.errors import BadInput, TracetoolError
from tracetool.fleet.jobs import Job
from tracetool.fleet.storage import Place
from tracetool.tables.scratch import clear_temporary, temporary_folder
from tracetool.tables.write import write_parquet

#: Folder of the runs; each is one that every command of the tool reads.
RUNS: Final = "runs"


def key(job: str) -> str:
    """Return the folder of a job in a partitioned data set."""
    return f"job={job}"


def ingest_job(job: Job, target: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Read a job's traces and logs into one run of the data set.

    Raises
    ------
    BadInput
        If no file of it can be used.
    """
    from tracetool.api.ingest import ingest

    start = time.monotonic()
    source, place = Place(job.where), Place(target)
    with _scratch(place) as scratch:
        copies = scratch / "sources"
        copies.mkdir()
        traces = [source.fetch(i.path, copies) for i in job.traces]
        beside = [source.fetch(i.path, copies) for i in job.beside]
        logs = [source.fetch(i.path, copies) for i in job.logs]
        try:
            run = ingest(
                [*traces, *beside], logs, tz=options.get("tz"), gpu=options.get("gpu"), out=scratch / "run"
            )
        except TracetoolError as error:  # names the copy: say whose it is
            error.message = error.message.replace(f"{copies}/", f"{source.name}/")
            error.message = error.message.replace(str(scratch / "run"), place.name)
            raise
        clock = run.info["clock"]
        own = {str(path) for path in traces}
        figures = {
            "kernels": int(run.signatures.filter(pl.col("kind") == "kernel")["launches"].sum()),
            "gpus": [g or "" for g in run.devices["gpu"].to_list()],
            "ranks": run.devices["rank"].to_list(),
            "uuids": run.devices["uuid"].to_list(),
            "warnings": len(run.info["warnings"]),
            "clock": clock["domain"],
            "start_ns": _start_ns(run.path) if clock["domain"] == "utc" else None,
            "bytes": sum(i.size for i in job.files),
            "sources": [i.path for i in job.files],
            "from": "" if source.local else source.name,
            "traces": [i.path for i in job.traces],
            "beside": [i.path for i in job.beside],
            "sha256": [s["sha256"] for s in run.info["sources"]],
            "trace_sha256": [s["sha256"] for s in run.info["sources"] if s["path"] in own],
            "labels": dict(job.labels),
        }
        place.store(scratch / "run", RUNS, key(job.name))
    return {**figures, "seconds": time.monotonic() - start}


def _start_ns(run: Path) -> int | None:
    first = (
        pl.scan_parquet(run / "kernels.parquet", glob=False).select(pl.col("start_ns").min()).collect().item()
    )
    return None if first is None else int(first)


def attribute_job(job: str, target: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Write the energy of a job's kernels by GPU: measured where its log identifies it, else predicted."""
    from tracetool.api.energy_by import energy_by
    from tracetool.replay.measured_energy import NOT_MEASURED

    start = time.monotonic()
    place = Place(target)
    with _scratch(place) as scratch:
        run = _run(place, job, scratch)
        grouped = energy_by(run, ["gpu", "signature"], gpu=options.get("gpu"))
        groups = grouped.groups.rename({"name": "group"})  # GPU 0 / kernel #signature
        rows = groups.filter(pl.col("group").str.starts_with("GPU "))
        group_names = rows["group"].str.splitn(" / ", 2).struct
        device = group_names.field("field_0").str.extract(r"GPU (\d+)").cast(pl.Int32).alias("device")
        numbered = group_names.field("field_1").str.extract(r"#(\d+)$").cast(pl.Int64).alias("signature")
        gpus = run.devices.select("device", "gpu", "rank", "uuid")
        table = (
            rows.drop("group")
            .with_columns(device, numbered)
            .join(gpus, on="device", how="left", maintain_order="left")
            .join(_signatures(run.signatures), on="signature", how="left", maintain_order="left")
            .with_columns(pl.col("kernel", "family").fill_null("(idle)"), pl.col("launch").fill_null(""))
            .select(_ENERGY)
        )
        _write_ranks(table, place, "energy", job, scratch)
        run_row = groups.filter(pl.col("group") == "run").row(0, named=True)
    figures = {
        k: run_row[k] for k in ("energy_j", "energy_low_j", "energy_high_j", "source", "time_ms", "idle_ms")
    }
    if run_row["energy_j"] is None:
        figures["no_energy"] = _why_none(grouped.notes, run.path)
    elif reasons := [n.removeprefix(NOT_MEASURED) for n in grouped.notes if n.startswith(NOT_MEASURED)]:
        figures["not_measured"] = reasons[0].replace(f"{run.path}: ", "")
    return {**figures, "seconds": time.monotonic() - start}


def _why_none(notes: Sequence[str], run: Path) -> str:
    """Return why a job has no energy and what to do about it, as the notes of its run say it."""
    notes = [note.removeprefix("no energies: ").replace(f"{run}: ", "") for note in notes]
    return next((note for note in notes if "not predicted: " in note), "; ".join(notes))


def _signatures(signatures: pl.DataFrame) -> pl.DataFrame:
    """Return the columns that identify kernels in all jobs: name, family, launch with shapes as one text."""
    launch = pl.format(
        "{}x{}x{} of {}x{}x{}", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"
    ).fill_null("")
    sizes = pl.element().cast(pl.List(pl.String)).list.join("x")
    shapes = pl.col("input_dims").list.eval(sizes).list.join(", ").fill_null("")
    return signatures.select(
        pl.col("signature").cast(pl.Int64),
        pl.coalesce("name", "kind").alias("kernel"),
        "family",
        pl.concat_str(launch, shapes, separator=" ").str.strip_chars().alias("launch"),
    )


_ENERGY: Final = (
    "kernel", "family", "launch", "energy_j", "energy_low_j", "energy_high_j", "source", "identified",
    "predicted_energy_j", "measured_j",
    "time_ms", "idle_ms", "launches", "power_w", "device", "gpu", "uuid", "rank",
)  # fmt: skip


def classify_job(job: str, target: str, _options: Mapping[str, Any]) -> dict[str, Any]:
    """Write a job's kernels by GPU: kernel, family, launch, launches and time."""
    from tracetool.tables.windows import Window, parts_of

    start = time.monotonic()
    place = Place(target)
    with _scratch(place) as scratch:
        run = _run(place, job, scratch)
        sums = []
        for window in parts_of(run):
            rows = window.kernels.group_by("device", pl.col("signature").cast(pl.Int64)).agg(
                pl.len().cast(pl.Int64).alias("launches"), pl.col("duration_ns").sum()
            )
            if isinstance(window, Window):
                rows = rows.with_columns(
                    window.numbers.gather(rows["signature"]).cast(pl.Int64).alias("signature")
                )
            sums.append(rows)
        table = (
            pl.concat(sums).group_by("device", "signature").sum()
            .join(_signatures(run.signatures), on="signature")
            .join(run.devices.select("device", "gpu", "rank", "uuid"), on="device")
            .with_columns((pl.col("duration_ns") / 1e6).alias("time_ms"))
            .sort("device", "time_ms", "signature", descending=[False, True, False])
            .select("kernel", "family", "launch", "launches", "time_ms", "device", "gpu", "uuid", "rank")
        )  # fmt: skip
        _write_ranks(table, place, "families", job, scratch)
    return {"signatures": table.height, "seconds": time.monotonic() - start}


def predict_job(job: str, target: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Write a job's predictions at clocks by rank: its GPU's energy with interval, the job's makespan."""
    from tracetool.api.predict import predict

    start = time.monotonic()
    place = Place(target)
    with _scratch(place) as scratch:
        run = _run(place, job, scratch)
        predicted = predict(run, **{k: v for k, v in options.items() if v is not None})
        totals = predicted.totals.with_columns(pl.lit(predicted.gpu).alias("gpu"))
        gpus = run.devices.select("device", "uuid", "rank")
        table = _by_gpu(totals).join(gpus, on="device", how="left", maintain_order="left")
        _write_ranks(table, place, "predictions", job, scratch)
    return {"clocks": totals.height, "gpu": predicted.gpu, "seconds": time.monotonic() - start}


def _by_gpu(totals: pl.DataFrame) -> pl.DataFrame:
    """Return a job's totals by clock and GPU: energies add up to the job's, their errors go together."""
    rows = totals.select(*_TOTALS, "devices").explode("devices")
    of_gpu = pl.col("devices").struct
    energy = of_gpu.field("energy_j")
    share = energy / energy.sum().over("clock_mhz")
    return rows.with_columns(
        of_gpu.field("device").cast(pl.Int32),
        of_gpu.field("kernel_time_ms"),
        of_gpu.field("mean_power_w"),
        pl.col("energy_j", "energy_low_j", "energy_high_j") * share,
    ).drop("devices")


_TOTALS: Final = (
    "clock_mhz", "energy_j", "energy_low_j", "energy_high_j", "makespan_ms", "makespan_low_ms",
    "makespan_high_ms",
    "mean_power_w", "kernel_time_ms", "throttled_share", "gpu",
)  # fmt: skip


def _run(place: Place, job: str, scratch: Path) -> Any:
    from tracetool.api.run import open_run

    copy = scratch / "run"
    copy.mkdir()
    return open_run(place.fetch_folder(copy, RUNS, key(job)))


def remove_scratch(place: Place) -> None:
    """Remove what ended tasks left of their scratch in a local data set."""
    within = Path(place.path(".scratch"))
    if place.local and within.is_dir():
        clear_temporary(within)
        with suppress(OSError):  # a task of another command is at work there
            within.rmdir()


def _scratch(place: Place) -> AbstractContextManager[Path]:
    """Return a scratch folder: within a local data set, so that runs are renamed and not copied."""
    if not place.local:
        return temporary_folder()
    within = Path(place.path(".scratch"))
    within.mkdir(parents=True, exist_ok=True)
    return temporary_folder(within)


def _write_ranks(table: pl.DataFrame, place: Place, kind: str, job: str, scratch: Path) -> None:
    ranks = pl.coalesce("rank", "device").cast(pl.Int64)
    for (rank,), rows in table.group_by(ranks.alias("_rank"), maintain_order=True):
        _write(rows.drop("rank"), place, kind, job, int(str(rank)), scratch)


def _write(table: pl.DataFrame, place: Place, kind: str, job: str, rank: int, scratch: Path) -> None:
    folder = scratch / f"{kind}-{rank}"
    folder.mkdir()
    try:
        write_parquet(table, folder / "part.parquet")
        place.store(folder, kind, key(job), f"rank={rank}")
    except OSError as error:
        raise BadInput.unwritable(place.name, error) from error


TASKS: Final = {"attribute": attribute_job, "classify": classify_job, "predict": predict_job}
