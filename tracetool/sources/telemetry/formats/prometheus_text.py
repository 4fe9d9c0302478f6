"""Scrapes of a ``/metrics`` page, one after another: exporters of GPUs (DCGM, AMD) and of hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.sources.columns import rejected_rows
from tracetool.sources.format import Format, Probe, ReadOptions, Trace
from tracetool.sources.io.text import read_text
from tracetool.sources.telemetry.exporters import DCGM_KINDS, DCGM_POWERS, METRICS
from tracetool.sources.telemetry.localtime import clock_of, stamp_times, stamped_lines
from tracetool.sources.telemetry.meters import gpus_of_hosts, readings
from tracetool.sources.telemetry.readings import power_rows

#: Metrics of hosts to scope, column and factor to its unit.
_HOST: Final = {
    "node_rapl_package_joules_total": ("socket", "energy_j", 1.0),
    "node_rapl_dram_joules_total": ("host_memory", "energy_j", 1.0),
    "kepler_node_package_joules_total": ("socket", "energy_j", 1.0),
    "kepler_node_dram_joules_total": ("host_memory", "energy_j", 1.0),
    "kepler_node_platform_joules_total": ("node", "energy_j", 1.0),
    "ipmi_dcmi_power_consumption_watts": ("node", "power_w", 1.0),
    "scaph_host_power_microwatts": ("node", "power_w", 1e-6),
}
_SAMPLE = r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(\d{12,14}))?$"
_LABELS: Final = {
    "uuid": ("UUID", "uuid", "gpu_uuid", "serial_number"), "index": ("gpu", "gpu_id"),
    "host": ("Hostname", "hostname", "instance", "node"), "name": ("modelName", "card_model"),
}  # fmt: skip


def sniff(probe: Probe) -> float:
    """Score: samples of metrics that are known, as an exporter writes them."""
    lines = [line for line in probe.lines(4000) if not line.startswith("#")]
    names = {line.partition("{")[0].partition(" ")[0] for line in lines}
    if not names & (set(METRICS) | set(_HOST)):
        return 0.0
    return 0.9 if any("{" in line and "} " in line for line in lines) else 0.5


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the readings of GPUs and hosts.

    Raises
    ------
    BadInput
        If no sample is of a metric that is known.
    """
    lines = [s for s in stamped_lines(read_text(path, options.max_ratio)) if not s.text.startswith("#")]
    table = pl.DataFrame(
        {
            "line": [s.number for s in lines],
            "stamp": [s.stamp for s in lines],
            "text": [s.text.strip() for s in lines],
        },
        schema={"line": pl.Int64, "stamp": pl.String, "text": pl.String},
    )
    fields = table["text"].str.extract_groups(_SAMPLE).struct.unnest()
    fields.columns = ["metric", "labels", "value", "ms"]
    table = table.hstack(fields)
    powers = table.filter(pl.col("metric").is_in([*METRICS, *_HOST]))
    bad = table.filter(pl.col("metric").is_null())
    stamps = [
        s if ms is None else f"{int(ms) / 1e3:.3f}" for s, ms in powers.select("stamp", "ms").iter_rows()
    ]
    trace = Trace("Prometheus exporter", clock_of(stamps, "an exporter"))
    number = pl.col("value").cast(pl.Float64, strict=False)
    powers = powers.with_columns(
        stamp_times(stamps).alias("time_ns"),
        number.alias("number"),
        *(_label(names).alias(column) for column, names in _LABELS.items()),
    )
    if trace.clock.domain == "none":
        powers = powers.with_columns(time_ns=pl.lit(0, dtype=pl.Int64))
    usable = (pl.col("number").is_finite() & pl.col("time_ns").is_not_null()).fill_null(value=False)
    bad = pl.concat([bad.select("line", "text"), powers.filter(~usable).select("line", "text")])
    if bad.height:
        trace.rejected.append(
            rejected_rows(path.name, bad["line"], "not a sample with its time", bad["text"])
        )
    powers = powers.filter(usable)
    of_gpus = powers.filter(pl.col("metric").is_in([*METRICS])).with_columns(
        index=pl.col("index").str.extract(r"(\d{1,4})$", 1).cast(pl.Int64)
    )
    of_hosts = powers.filter(pl.col("metric").is_in([*_HOST]))
    if not powers.height:
        raise BadInput.in_file(
            path, "holds no sample of a GPU's or a host's power",
            "while true; do date +%s.%N; curl -s HOST:9400/metrics; sleep 1; done > metrics.txt",
        )  # fmt: skip
    parts_of = [_hosts(of_hosts)]
    if of_gpus.height:
        device, trace.devices = gpus_of_hosts(of_gpus)
        parts_of.append(_gpus(of_gpus.with_columns(device)))
    trace.telemetry = readings(parts_of)
    return trace


def _label(names: tuple[str, ...]) -> pl.Expr:
    each = [pl.col("labels").str.extract(rf'(?:^|,)\s*{name}="([^"]*)"', 1) for name in names]
    return pl.coalesce(each)


def _gpus(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the samples of GPUs, a row for each scrape."""
    columns = {metric: column for metric, (column, _) in METRICS.items()}
    factors = {metric: factor for metric, (_, factor) in METRICS.items()}
    long = rows.select(
        "time_ns",
        "device",
        pl.col("metric").replace_strict(columns).alias("what"),
        (pl.col("number") * pl.col("metric").replace_strict(factors)).alias("number"),
    )
    wide = long.group_by("time_ns", "device", "what", maintain_order=True).agg(pl.col("number").first())
    wide = wide.pivot("what", index=["time_ns", "device"], values="number")
    return power_rows(wide, {c: f for c, f in DCGM_POWERS.items() if c in wide.columns}, DCGM_KINDS)


def _hosts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the samples of hosts; each series is a meter."""
    if not rows.height:
        return pl.DataFrame()
    scope = pl.col("metric").replace_strict({m: s for m, (s, _, _) in _HOST.items()})
    is_power = pl.col("metric").is_in([m for m, (_, c, _) in _HOST.items() if c == "power_w"])
    value = pl.col("number") * pl.col("metric").replace_strict({m: f for m, (_, _, f) in _HOST.items()})
    return rows.select(
        "time_ns",
        device=pl.lit(None, dtype=pl.Int32),
        power_w=pl.when(is_power).then(value),
        power_kind=pl.when(is_power).then(pl.lit("average")).otherwise(pl.lit("counter")),
        energy_j=pl.when(~is_power).then(value),
        field=pl.concat_str(scope, pl.lit("."), "metric", pl.lit(" "), pl.col("labels").fill_null("")),
        scope=scope,
    )


FORMAT = Format(
    title="Scrapes of an exporter (Prometheus text)",
    holds="telemetry",
    made_by="while true; do date +%s.%N; curl -s HOST:9400/metrics; sleep 1; done > metrics.txt",
    tried="samples of dcgm-exporter 3 and 4 (render_metrics.go), AMD's, Kepler, node_exporter, ipmi_exporter",
    checked="watts, times and counters of the lines the test wrote; a counter in another unit is refused",
    sniff=sniff,
    read=read,
    suffixes=(".txt", ".prom"),
    memory_ratio=30.0,
)
