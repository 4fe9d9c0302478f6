"""srt-slurm's power package: GPUs of several hosts, and the windows of the benchmarks beside them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import measured, rejected_rows
from tracetool.sources.format import Clock, Format, Probe, ReadOptions, Trace
from tracetool.sources.io.csv_file import has_columns, read_csv
from tracetool.sources.telemetry.localtime import parse_stamps
from tracetool.sources.telemetry.meters import gpus_of_hosts
from tracetool.sources.telemetry.readings import power_rows
from tracetool.tables.benchmark_windows import END, START, small_json, window_documents

#: Versions of the samples' columns that are known: 2 and 3 add utilization and temperature.
VERSIONS = (1, 2, 3)
_COLUMNS = (
    "schema_version", "timestamp_unix", "scrape_seq", "hostname", "gpu_index", "gpu_uuid", "power_w",
    "gpu_util_pct", "sm_active", "temperature_c",
)  # fmt: skip
_FIELD = "DCGM_FI_DEV_POWER_USAGE"


def sniff(probe: Probe) -> float:
    """Score: the folder with its samples, or the samples alone."""
    if probe.path.is_dir():
        return 1.0 if (probe.path / "samples.csv").is_file() else 0.0
    first = (probe.lines(1) or [""])[0]
    return (
        1.0 if has_columns(first, "timestamp_unix", "scrape_seq", "hostname", "gpu_uuid", "power_w") else 0.0
    )


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings, each GPU by its host and unique id, and the windows in ``details``.

    Raises
    ------
    BadInput
        If the samples are of another schema, are not those the manifest signs, or hold no reading.
    """
    samples = path / "samples.csv" if path.is_dir() else path
    text = pl.String()
    rows = read_csv(samples, {c: ([c], text) for c in _COLUMNS}, options.max_ratio)
    numbers = (
        "schema_version",
        "timestamp_unix",
        "gpu_index",
        "power_w",
        "gpu_util_pct",
        "sm_active",
        "temperature_c",
    )
    times = parse_stamps(rows["timestamp_unix"]).alias("time_ns")
    rows = rows.with_columns(times, *(measured(c).alias(c) for c in numbers))
    versions = {int(v) for v in rows["schema_version"].drop_nulls().unique() if abs(v) < 1e9}
    if odd := sorted(versions - set(VERSIONS)):
        raise BadInput.in_file(
            samples, f"has schema_version {odd[0]}, not 1 to {VERSIONS[-1]}", "is it newer?"
        )
    usable = (
        pl.col("timestamp_unix").is_between(1e8, 7.2e9)
        & pl.col("time_ns").is_not_null()
        & pl.col("power_w").is_not_null()
        & pl.col("gpu_index").is_between(0, 1e6)
        & pl.col("hostname").is_not_null()
    ).fill_null(value=False)
    good, bad = rows.filter(usable), rows.filter(~usable)
    if not good.height:
        raise BadInput.in_file(samples, "holds no reading", "was the exporter reachable? see manifest.json")
    trace = Trace("srt-slurm", Clock("utc", 0, 5e7, basis="the head node's clock, seconds since 1970"))
    if bad.height:
        hosts = bad["hostname"].fill_null("")
        trace.rejected.append(rejected_rows(samples.name, bad["line"], "not a whole reading", hosts))
    device, trace.devices = gpus_of_hosts(
        good.select(
            host="hostname", index=pl.col("gpu_index").cast(pl.Int64), uuid="gpu_uuid",
            name=pl.lit(None, dtype=pl.String),
        )
    )  # fmt: skip
    trace.devices = trace.devices.with_columns(vendor=pl.lit(None, dtype=pl.String))
    frame = good.select(
        "time_ns",
        device=device,
        power="power_w",
        temperature_c="temperature_c",
        utilization=pl.coalesce("sm_active", pl.col("gpu_util_pct") / 100),
    )
    trace.telemetry = power_rows(frame, {"power": _FIELD}, {_FIELD: None})
    if path.is_dir():
        _package(path, samples, trace)
    return trace


def _package(path: Path, samples: Path, trace: Trace) -> None:
    """Read the files beside the samples: the manifest's verdict and the windows."""
    manifest = small_json(path / "manifest.json")
    signed = manifest.get("samples_sha256")
    if isinstance(signed, str) and hashlib.sha256(samples.read_bytes()).hexdigest() != signed.lower():
        raise BadInput.in_file(
            samples, "is not the file its manifest.json signs", "copy the package again, whole"
        )
    if manifest.get("publication_valid") is False:
        reasons = manifest.get("reason_codes")
        words = ", ".join(str(r) for r in reasons[:5]) if isinstance(reasons, list) else ""
        trace.warnings.append(
            f"its manifest says that the package is not valid to publish{': ' if words else ''}{words}"
        )
    windows = window_documents(path)
    trace.details["windows"] = [
        {
            "name": name,
            "status": str(window.get("status")),
            "concurrency": window.get("concurrency") if isinstance(window.get("concurrency"), int) else None,
            "start_s": start,
            "end_s": end,
        }
        for name, window in windows.items()
        if isinstance(start := window.get(START), int | float)
        and (isinstance(end := window.get(END), int | float) or end is None)
    ]
    if lost := len(windows) - len(trace.details["windows"]):
        trace.warnings.append(f"{lost} of its windows cannot be read")


FORMAT = Format(
    title="srt-slurm power package",
    holds="telemetry",
    made_by="srtctl apply -f recipe.yaml   (its folder power/, or samples.csv)",
    tried="schema versions 1 to 3, as its writer documents them; InferenceX's samples of AMD (version 2)",
    checked="watts, times and counters of the lines the test wrote; joules of its windows by hand",
    sniff=sniff,
    read=read,
    suffixes=("power/", "samples.csv"),
    memory_ratio=20.0,
)
