"""The GPUs of an export, the metrics sampled on them, its release, and its t = 0 in UTC."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tracetool.sources.columns import clean_text, distinct_rows, look_up
from tracetool.sources.format import Clock
from tracetool.sources.telemetry.localtime import wall_clock_ns

Read = Callable[..., pl.DataFrame]
_I, _S = pl.Int64(), pl.String()
_GPU_COLUMNS = {
    "id": _I, "name": _S, "busLocation": _S, "uuid": _S, "smCount": _I, "clockRate": _I, "totalMemory": _I,
    "computeMajor": _I, "computeMinor": _I, "cuDevice": _I,
}  # fmt: skip
#: The session's start is read from the wall clock once: good to a few milliseconds.
ANCHOR_ERROR_NS = 3e6


def _settings(read: Read) -> dict[str, str]:
    """Return the export's own settings. The capture's include the job's environment and are never read."""
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        rows = read(table, {"name": _S, "value": _S}).filter(pl.col("name").str.starts_with("EXPORT_"))
        if rows.height:
            return {str(k): str(v) for k, v in rows.select("name", "value").iter_rows()}
    return {}


def versions(read: Read) -> tuple[str | None, str | None]:
    """Return the product and schema version, None where the export states none."""
    settings = _settings(read)
    numbers = [settings.get(f"EXPORT_SCHEMA_VERSION_{p}") for p in ("MAJOR", "MINOR", "MICRO")]
    schema = ".".join(p for p in numbers if p is not None) or None
    return settings.get("EXPORT_PRODUCT_VERSION"), schema


def session_clock(read: Read) -> Clock:
    """Return an export's clock: nanoseconds from the session's start, anchored in UTC where it states so."""
    columns = {"utcEpochNs": _I, "utcTime": _S, "localTime": _S}
    start = read("TARGET_INFO_SESSION_START_TIME", columns).head(1)
    offset = None
    if start.height and start["utcTime"][0] and start["localTime"][0]:
        utc, local = (wall_clock_ns(start[c][0]) for c in ("utcTime", "localTime"))
        if utc is not None and local is not None and abs(local - utc) <= 15 * 3600 * 10**9:
            offset = round((local - utc) / 900e9) * 900 * 10**9
    anchor = start["utcEpochNs"][0] if start.height else None
    if _settings(read).get("EXPORT_PARAM_TIME_NORMALIZE", "").lower() == "true":
        return Clock("utc", 0, ANCHOR_ERROR_NS, offset, "exported with --ts-normalize: times are UTC")
    if anchor is None or not 0 < anchor < 1 << 62:
        return Clock(
            "session", local_offset_ns=offset, basis="nanoseconds from the session's start; no UTC anchor"
        )
    return Clock(
        "session", int(anchor), ANCHOR_ERROR_NS, offset, "session start time of the report (utcEpochNs)"
    )


def read_devices(
    read: Read, activities: pl.DataFrame, telemetry: pl.DataFrame, warnings: list[str]
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the GPUs, and activities and telemetry with ``device`` as rows of them.

    Two processes may both call their GPU device 0: where the export maps (process, device) to a GPU
    that map is used, else the driver's own index.
    """
    gpus = read("TARGET_INFO_GPU", _GPU_COLUMNS).drop("rowid").drop_nulls("id")
    gpus = gpus.sort(gpus.columns).unique("id", keep="first", maintain_order=True)
    links = read("TARGET_INFO_CUDA_DEVICE", {"gpuId": _I, "cudaId": _I, "pid": _I}).drop("rowid")
    links = links.sort(links.columns).unique(["cudaId", "pid"], keep="first", maintain_order=True)
    pairs = distinct_rows(activities.select("profiler_device", "process")).drop_nulls("profiler_device")
    pairs = pairs.join(
        links,
        left_on=["profiler_device", "process"],
        right_on=["cudaId", "pid"],
        how="left",
        nulls_equal=True,
    )
    by_driver = gpus.select(
        pl.coalesce("cuDevice", "id").alias("profiler_device"), pl.col("id").alias("driverGpu")
    ).unique("profiler_device", keep="first", maintain_order=True)
    pairs = pairs.join(by_driver, on="profiler_device", how="left")
    # A GPU the export does not describe keeps its index, as an id no GPU has.
    pairs = pairs.with_columns(gpu=pl.coalesce("gpuId", "driverGpu", -1 - pl.col("profiler_device")))
    sampled = (
        telemetry.select(pl.col("gpu")).unique()
        if telemetry.height
        else pl.DataFrame({"gpu": []}, schema={"gpu": _I})
    )
    used = pl.concat([pairs.select("gpu"), sampled]).unique().sort("gpu")
    if not used.height:
        used = gpus.select(pl.col("id").alias("gpu"))
    used = used.with_row_index("device").with_columns(pl.col("device").cast(pl.Int32))
    first = pairs.group_by("gpu").agg(pl.col("profiler_device").min(), pl.col("process").min())
    devices = (
        used.join(gpus, left_on="gpu", right_on="id", how="left")
        .join(first, on="gpu", how="left")
        .sort("device")
    )
    devices = devices.select(
        "device",
        name=clean_text("name"),
        vendor=pl.lit("nvidia"),
        profiler_device=pl.coalesce("profiler_device", "cuDevice"),
        process=pl.col("process"),
        uuid=clean_text(pl.coalesce("uuid", "busLocation")),
        sm_count=pl.col("smCount"),
        clock_max_mhz=pl.when(pl.col("clockRate") > 0).then(pl.col("clockRate") / 1e6),
        memory_bytes=pl.col("totalMemory"),
        compute_capability=pl.format("{}.{}", "computeMajor", "computeMinor"),
    )
    place = pairs.join(used, on="gpu", how="left").select("profiler_device", "process", "device")
    activities = look_up(activities, place, "profiler_device", "process", nulls_equal=True)
    if telemetry.height:
        telemetry = telemetry.join(used, on="gpu", how="left", maintain_order="left").drop("gpu")
    if activities.height and not gpus.height:
        warnings.append("the export does not describe its GPU (no TARGET_INFO_GPU): name it with --gpu")
    return devices, activities.drop("profiler_device"), telemetry
