"""Counters that plugins leave in an export: power and temperature of GPUs are read, others named.

A counter group has a table of samples of its own, ``NVTX_COUNTER_SAMPLES_<domain>_<group>``, with a column
a field; what group, layout and scope are called stands in three tables beside it. The ``nvml_metrics``
plugin samples ``nvmlDeviceGetPowerUsage`` in milliwatts and ``nvmlDeviceGetTemperature`` in degrees
Celsius. Sources: "NVML power and temperature metrics" in the user guide of Nsight Systems; its recipe
``storage_util_map`` for the tables; NVTX's ``nvToolsExtCounters.h``. Names of the plugin's groups and
columns are published nowhere: quantity, unit and GPU are read off whatever they say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from tracetool.core.number_text import counted
from tracetool.sources.nsight.metrics import NAMES, SAMPLES
from tracetool.sources.nsight.store import Store

_I, _S = pl.Int64(), pl.String()
_TABLE: Final = re.compile(r"NVTX_COUNTER_SAMPLES_(-?\d{1,20})_(-?\d{1,20})")
#: Tables of samples and counts by any source, as exports call them; those that describe or list are none.
_OTHER: Final = re.compile(
    r"(?!TARGET_INFO|ENUM_|META_DATA|NVTX_COUNTER)"
    r"(?:.*_(?:METRIC|COUNTER|SAMPLE|TELEMETRY|SENSOR)S?(?:_EVENTS?)?(?:_-?\d+)*|PERF_EVENT.*|GENERIC_EVENTS)"
)
_GENERIC: Final = "GENERIC_EVENTS"
_POWER, _TEMPERATURE = re.compile(r"power|watt", re.IGNORECASE), re.compile(r"temp", re.IGNORECASE)
#: Not a reading: what is set, or what another part draws.
_UNWANTED: Final = re.compile(
    r"limit|cap\b|max|min\b|threshold|\bcpu|\bsoc\b|module|socket|system|memory", re.IGNORECASE
)
_WATTS: Final = (
    (re.compile(r"mW\b|milli-?watt", re.IGNORECASE), 1000),
    (re.compile(r"\bW\b|\bwatt", re.IGNORECASE), 1),
)
#: The unit the plugin documents, and the highest reading that makes it another: no GPU draws less. [W]
_PLUGIN_STEPS, _LEAST_PEAK_W = 1000, 2.0
_PLACES: Final = (
    ("uuid", re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|GPU-[0-9a-z]{4,}", re.IGNORECASE)),
    ("busLocation", re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)),
)
_INDEX: Final = re.compile(r"(?:gpu|device)[\s#:_/\[(]*(\d{1,3})(?![0-9a-f-])", re.IGNORECASE)
#: What NVML's power call is called in its own log: the GPU's sensor class says what it averages over.
_FIELD: Final = "power.draw"
_MOST_TEXT = 60


@dataclass(frozen=True)
class Counter:
    """One column of a table of samples, and the texts that describe it."""

    table: str
    column: str
    text: str  # of the column first, then of its group and scope
    first: str  # of the column alone

    @property
    def quantity(self) -> str:
        """Return ``power``, ``temperature`` or nothing: by the column's own name, else by its group's."""
        for text in (self.first, self.text):
            power, temperature = (p.search(text) for p in (_POWER, _TEMPERATURE))
            if power or temperature:
                return "" if _UNWANTED.search(text) else "power" if power else "temperature"
        return ""


def read_counters(store: Store, warnings: list[str]) -> pl.DataFrame:
    """Return ``time_ns``, ``gpu``, ``power_w``, ``field``, ``scope`` and ``temperature_c`` of GPUs' counters.

    A group or table that holds anything else, or whose GPU is not known, is named in a warning with its
    samples. Empty where there is none.
    """
    gpus = _gpus(store)
    counters = list(_counters(store))
    read = [c for c in counters if c.quantity]
    tables = sorted({c.table for c in read})
    places = _places(read, tables, gpus)
    readings = []
    for table in tables:
        of_table = [c for c in read if c.table == table]
        if places[table] is not None:
            readings.append(
                _readings(store, of_table, warnings).with_columns(gpu=pl.lit(places[table], dtype=_I))
            )
    used_columns = {(c.table, c.column) for c in read if places[c.table] is not None}
    _name_others(store, [c for c in counters if (c.table, c.column) not in used_columns], warnings)
    readings = [p for p in readings if p.height]
    return pl.concat(readings, how="diagonal").sort("gpu", "time_ns") if readings else pl.DataFrame()


def _gpus(store: Store) -> list[dict[str, Any]]:
    columns = {"id": _I, "uuid": _S, "busLocation": _S, "name": _S}
    frame = (
        store.read("TARGET_INFO_GPU", columns).drop_nulls("id").sort("id").unique("id", maintain_order=True)
    )
    return list(frame.iter_rows(named=True))  # a row per GPU


def _counters(store: Store) -> Iterator[Counter]:
    """Yield every column of every table of samples."""
    keys = {"domainId": _S, "counterGroupId": _S, "schemaId": _S, "scopeId": _S}
    groups = _described(store, "NVTX_COUNTER_GROUPS", keys | {"name": _S}, "domainId", "counterGroupId")
    layouts = _described(store, "NVTX_PAYLOAD_SCHEMAS", {"name": _S}, "domainId", "schemaId")
    scopes = _described(store, "NVTX_SCOPES", {"path": _S}, "domainId", "scopeId")
    entries = _described(
        store, "NVTX_PAYLOAD_SCHEMA_ENTRIES", {"description": _S}, "domainId", "schemaId", "name"
    )
    for domain, number in groups:  # one behind a view is refused, and missed without a word otherwise
        store.count(f"NVTX_COUNTER_SAMPLES_{domain}_{number}")
    for table in sorted(store.tables):
        if not (numbers := _TABLE.fullmatch(table)):
            continue
        domain, group_number = numbers.groups()
        group = groups.get((domain, group_number), {})
        layout = layouts.get((domain, str(group.get("schemaId"))), {})
        scope = scopes.get((domain, str(group.get("scopeId"))), {})
        about = [group.get("name"), scope.get("path"), layout.get("name")]
        for column in sorted(store.tables[table] - {"timestamp", "rowid"}):
            entry = entries.get((domain, str(group.get("schemaId")), column), {})
            first = " ".join(filter(None, (column, entry.get("description"))))
            yield Counter(table, column, " / ".join(filter(None, (first, *about))), first)


def _described(
    store: Store, table: str, columns: Mapping[str, pl.DataType], *keys: str
) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the rows of a table by key. Numbers of domains may fill 64 bits: they are compared as text."""
    all_columns = {**columns, **{k: columns.get(k, _S) for k in keys}}
    numbers = {c: (_I if c.endswith("Id") else kind) for c, kind in all_columns.items()}
    frame = store.read(table, numbers).drop("rowid").with_columns(pl.col(c).cast(_S) for c in numbers)
    frame = frame.drop_nulls(keys).unique(keys, keep="first", maintain_order=True)
    return {tuple(row[k] for k in keys): row for row in frame.iter_rows(named=True)}


def _places(
    counters: Sequence[Counter], tables: Sequence[str], gpus: Sequence[dict[str, Any]]
) -> dict[str, int | None]:
    """Return the GPU of each table: the one its texts name, else one by one where as many have power."""
    places = {t: _place(" ".join(c.text for c in counters if c.table == t), gpus) for t in tables}
    for quantity in ("power", "temperature"):
        unplaced = [c.table for c in counters if c.quantity == quantity and places[c.table] is None]
        if len(set(unplaced)) == len(gpus):
            places |= {
                t: int(g["id"]) for t, g in zip(sorted(set(unplaced), key=_numbers), gpus, strict=True)
            }
    return places


def _numbers(table: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", table)]


def _place(text: str, gpus: Sequence[dict[str, Any]]) -> int | None:
    for column, pattern in _PLACES:
        if stated := pattern.search(text):
            same = [g for g in gpus if _is_same_id(g[column], stated[0])]
            if len(same) == 1:
                return int(same[0]["id"])
    if (index := _INDEX.search(text)) and any(g["id"] == int(index[1]) for g in gpus):
        return int(index[1])
    return None


def _is_same_id(one: str | None, another: str) -> bool:
    """Return whether two unique ids or bus addresses are equal; a bus's domain may have 4 or 8 digits."""
    first, second = (t.lower().lstrip("0") for t in (one or "", another))
    return bool(first) and first == second


def _readings(store: Store, counters: Sequence[Counter], warnings: list[str]) -> pl.DataFrame:
    """Return the samples of one GPU's table."""
    power = next((c for c in counters if c.quantity == "power"), None)
    temperature = next((c for c in counters if c.quantity == "temperature"), None)
    columns: dict[str, pl.DataType] = {c.column: pl.Float64() for c in (power, temperature) if c}
    frame = store.read(counters[0].table, {"timestamp": _I, **columns}).drop_nulls("timestamp")
    values = {
        "power_w": pl.col(power.column) / _steps_per_watt(power, frame, warnings) if power else None,
        "temperature_c": pl.col(temperature.column) if temperature else None,
    }
    out = frame.select(time_ns=pl.col("timestamp"), **{n: v for n, v in values.items() if v is not None})
    if power:
        field = pl.when(pl.col("power_w").is_not_null()).then(pl.lit(_FIELD))
        out = out.with_columns(field=field, scope=pl.lit("gpu"))
    return out.filter(
        pl.any_horizontal(pl.col([n for n, v in values.items() if v is not None]).is_not_null())
    )


def _steps_per_watt(counter: Counter, frame: pl.DataFrame, warnings: list[str]) -> int:
    """Return how many steps of a power counter are a watt."""
    stated = next((w for pattern, w in _WATTS if pattern.search(counter.text)), None)
    if stated is not None:
        return stated
    peak = frame[counter.column].max()
    if isinstance(peak, float) and 0.0 < peak / _PLUGIN_STEPS < _LEAST_PEAK_W:
        warnings.append(
            f"{counter.table}: power without a unit, {peak:g} at most: taken for watts,"
            f" for in milliwatts no GPU would draw so little"
        )
        return 1
    return _PLUGIN_STEPS


def _generic(store: Store) -> int:
    """Return the events that are no hardware metrics, which exports repeat as text."""
    types = store.read(NAMES, {"typeId": _I})["typeId"].drop_nulls().unique()
    return store.read(_GENERIC, {"typeId": _I}).filter(~pl.col("typeId").is_in(types.implode())).height


def _name_others(store: Store, unread: Sequence[Counter], warnings: list[str]) -> None:
    """Name the groups and tables of samples that are not read, each with its count."""
    by_table: dict[str, list[str]] = {}
    for counter in unread:
        by_table.setdefault(counter.table, []).append(" ".join(counter.text.split())[:_MOST_TEXT])
    for table in store.tables:
        if table != SAMPLES and _OTHER.fullmatch(table):
            by_table.setdefault(table, [])
    for table, texts in sorted(by_table.items()):
        if count := _generic(store) if table == _GENERIC else store.count(table):
            what = f" ({', '.join(texts[:3])}{' and others' if len(texts) > 3 else ''})" if texts else ""
            warnings.append(f"{table}{what} is not read: {counted(count, 'sample')}")
