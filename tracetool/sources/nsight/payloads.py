"""What NCCL says of its calls in NVTX payloads: bytes of a message, communicator, ranks.

NCCL hands each call's message and communicator to NVTX (its ``src/collectives.cc`` and
``src/include/nvtx_payload_schemas.h``). Newer exports hold the bytes in ``NVTX_EVENTS.binaryData`` and their
layout in ``NVTX_PAYLOAD_SCHEMA_ENTRIES``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracetool.core.arrays import Ints
from tracetool.sources.nsight.store import Store

#: Bytes before a payload: domain, schema, length of the payload, and these 32 or all, of 8 each, as public
#: readers of such exports take them apart (GitHub, nsys-ai: nccl_payload_breakdown, nccl_communicator). [B]
_HEADER: Final = 32
#: Bytes of an integer entry by its type in NVTX's ``nvToolsExtPayload.h``: int to uint64, size. [B]
_WIDTHS: Final = {5: 4, 6: 4, 7: 8, 8: 8, 9: 8, 10: 8, 15: 4, 16: 4, 17: 8, 18: 8, 22: 8}
#: NCCL's names of the entries that are read, and their columns.
_ENTRIES: Final = {
    "Message size [bytes]": "message",
    "NCCL communicator ID": "communicator",
    "No. of ranks": "ranks",
    "No. of devices": "ranks",
}
#: Calls whose message is what one rank gives or takes; the whole is that of all, by NCCL's interface.
_OF_EACH_RANK: Final = ("ncclAllGather", "ncclReduceScatter", "ncclAlltoAll", "ncclGather", "ncclScatter")
_SEND, _RECEIVE, _GROUP_END = "ncclSend", "ncclRecv", "ncclGroupEnd"
#: A message lies in a GPU's memory, which holds a third of this: what is larger was garbled. [B] A prior.
_MOST_BYTES: Final = 1 << 40
#: Ranks of one communicator at most; ten times the GPUs of the largest machines. [1] A prior.
_MOST_RANKS: Final = 1 << 20
#: The process and thread of a global thread id.
_THREAD: Final = (1 << 48) - 1
_I = pl.Int64()
_CATEGORY: Final = pl.Categorical()
#: Width and offset of each entry, by domain and schema. [B]
_Layouts = dict[tuple[int, int], dict[str, tuple[int, int]]]
_TIMES: Final = {"start": _I, "end": _I, "globalTid": _I, "textId": _I}
_STATED: Final = {**_TIMES, "message": _I, "communicator": _I, "ranks": _I}


def read_payloads(store: Store, strings: pl.DataFrame) -> pl.DataFrame:
    """Return NCCL's calls with what they state, and ends of groups of calls, by thread and time.

    Parameters
    ----------
    store : Store
        An open export.
    strings : DataFrame
        Its texts: ``id``, ``value``.

    Returns
    -------
    DataFrame
        ``thread``, ``start``, ``end`` [ns], ``label``, ``message`` [B], ``communicator``, ``ranks``; no rows
        where the export holds no payloads of NCCL.
    """
    entries = store.read(
        "NVTX_PAYLOAD_SCHEMA_ENTRIES",
        {"domainId": _I, "schemaId": _I, "type": _I, "name": pl.String(), "offset": _I},
    )
    entries = entries.filter(pl.col("name").is_in(list(_ENTRIES)) & pl.col("type").is_in(list(_WIDTHS)))
    layouts: _Layouts = {}
    for domain, schema, kind, name, offset in entries.drop("rowid").iter_rows():
        layouts.setdefault((domain, schema), {})[_ENTRIES[name]] = (_WIDTHS[kind], offset or 0)
    layouts = {key: layout for key, layout in layouts.items() if _is_apart(layout)}
    decoded = list(_decoded(store.payload_events(), layouts)) if layouts else []
    if not decoded:
        return pl.DataFrame()
    calls = pl.concat([pl.DataFrame(schema=_STATED), *decoded], how="diagonal").with_columns(
        _within("ranks", 1, _MOST_RANKS)
    )
    text = strings.select(
        pl.col("id").cast(_I).alias("textId"), pl.col("value").cast(pl.String).alias("label")
    )
    ends = text.filter(pl.col("label") == _GROUP_END)["textId"].to_list()
    groups = store.read("NVTX_EVENTS", _TIMES, ("textId", ends)).drop("rowid")
    groups = groups.join(calls, on=list(_TIMES), how="anti")
    frame = pl.concat([calls, groups], how="diagonal_relaxed")
    frame = frame.join(text, on="textId", how="left", maintain_order="left").drop_nulls(["start", "end"])
    return frame.with_columns((pl.col("globalTid") & _THREAD).alias("thread")).sort("thread", "start")


def _is_apart(layout: dict[str, tuple[int, int]]) -> bool:
    """Whether no two entries share bytes, as all do at 0 where an export states no offsets."""
    spans = sorted((offset, offset + width) for width, offset in layout.values())
    return all(end <= start for (_, end), (start, _) in pairwise(spans))


def _within(column: str, least: int, most: int) -> pl.Expr:
    return pl.when(pl.col(column).is_between(least, most)).then(column).alias(column)


def _decoded(events: pl.DataFrame, layouts: _Layouts) -> Iterator[pl.DataFrame]:
    """Yield the events of each layout with its entries; payloads shorter than they say are left out."""
    lengths = events.select(pl.col("payload").bin.size())["payload"].to_numpy()
    for length in np.unique(lengths):
        if length < _HEADER:
            continue
        rows = events.filter(pl.Series(lengths == length))
        raw = np.frombuffer(b"".join(rows["payload"].to_list()), dtype=np.uint8).reshape(-1, int(length))
        header = np.ascontiguousarray(raw[:, :_HEADER]).view("<u8").astype(np.int64)
        for (domain, schema), entries in layouts.items():
            own = (
                (header[:, 0] == domain)
                & (header[:, 1] == schema)
                & (header[:, 2] >= 0)
                & (header[:, 2] <= length - _HEADER)
            )
            if not own.any():
                continue
            columns = [
                pl.Series(name, _numbers(raw[own], _HEADER + offset, width))
                for name, (width, offset) in entries.items()
                if offset >= 0 and _HEADER + offset + width <= length
            ]
            yield rows.filter(pl.Series(own)).select(list(_TIMES)).with_columns(columns)


def _numbers(raw: NDArray[np.uint8], at: int, width: int) -> Ints:
    return np.ascontiguousarray(raw[:, at : at + width]).view(f"<u{width}")[:, 0].astype(np.int64)


def state_collectives(
    activities: pl.DataFrame, host_calls: pl.DataFrame, payloads: pl.DataFrame
) -> pl.DataFrame:
    """Return activities with bytes, ranks and process group of the collectives whose calls state them.

    Parameters
    ----------
    activities : DataFrame
        With ``kind``, ``process``, ``correlation``, ``bytes``.
    host_calls : DataFrame
        With ``process``, ``thread``, ``correlation``, ``start_ns``.
    payloads : DataFrame
        As :func:`read_payloads` returns them.

    Notes
    -----
    A kernel is that of the call in which it was launched. Calls within a group launch at the group's end:
    its kernel has the sum of their messages where they are of one kind and communicator; of several kernels
    each has the message of a call where all calls are alike, and nothing is stated otherwise.
    """
    if not payloads.height or not host_calls.height:
        return activities
    launched = _launched(activities.with_row_index("row"), host_calls, payloads.with_row_index("range"))
    calls = _with_ranges(payloads.with_row_index("range"), launched)
    unknown = pl.col("whole").is_null().any()
    sent = pl.col("whole").filter(pl.col("label") == _SEND).sum()
    per_range = calls.group_by("of", maintain_order=True).agg(
        pl.len().alias("calls"),
        pl.struct("label", "communicator", "whole").n_unique().alias("distinct"),
        pl.struct(_kind(), "communicator").n_unique().alias("kinds"),
        pl.when(~unknown).then(sent).alias("sent"),
        pl.when(~unknown).then(pl.col("whole").sum()).alias("sum"),
        pl.col("whole").first(),
        pl.col("communicator", "ranks").first(),
    )
    stated = launched.join(per_range, left_on="range", right_on="of").with_columns(
        pl.len().over("range").alias("kernels")
    )
    alone = (pl.col("kernels") == 1) & (pl.col("kinds") == 1)
    alike = (pl.col("kernels") == pl.col("calls")) & (pl.col("distinct") == 1)
    of_kernel = (
        pl.when(alike).then("whole").when(alone & (pl.col("sent") > 0)).then("sent").when(alone).then("sum")
    )
    known = stated.filter(alone | alike).select(
        "row",
        of_kernel.alias("message"),
        pl.col("ranks").alias("ranks_stated"),
        pl.format("NCCL {}", pl.col("communicator").reinterpret(signed=False))
        .cast(_CATEGORY)
        .alias("process_group"),
    )
    joined = activities.with_row_index("row").join(known, on="row", how="left", maintain_order="left")
    return joined.with_columns(
        pl.coalesce("message", pl.col("bytes").cast(_I)).alias("bytes"), pl.col("ranks_stated").alias("ranks")
    ).drop("row", "message", "ranks_stated")


def _kind() -> pl.Expr:
    """Return what calls that one kernel carries out have in common: sends and receives are one kind."""
    return pl.when(pl.col("label") == _RECEIVE).then(pl.lit(_SEND)).otherwise("label")


def _launched(activities: pl.DataFrame, host_calls: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels that were launched within a range: ``row`` of the kernel, ``range``."""
    by_thread = (pl.col("process").cast(_I) * (1 << 24) + pl.col("thread").cast(_I)).alias("thread")
    calls = host_calls.select(by_thread, pl.col("process", "correlation").cast(_I), "start_ns").sort(
        "start_ns"
    )
    calls = calls.filter(pl.col("thread").is_in(ranges["thread"].unique().implode()))
    within = calls.join_asof(
        ranges.select("thread", "range", pl.col("start").alias("start_ns"), "end").sort("start_ns"),
        on="start_ns", by="thread", strategy="backward", check_sortedness=False,
    )  # fmt: skip
    within = within.filter(pl.col("start_ns") <= pl.col("end")).select("process", "correlation", "range")
    kernels = activities.filter(pl.col("kind").cast(pl.String) == "kernel")
    return kernels.select("row", pl.col("process", "correlation").cast(_I)).join(
        within.unique(["process", "correlation"], keep="first", maintain_order=True),
        on=["process", "correlation"],
        maintain_order="left",
    )


def _with_ranges(ranges: pl.DataFrame, launched: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that state a message, the range that launched each, and its whole message [B]."""
    launching = launched["range"].unique()
    ranks = ranges.filter(pl.col("ranks").is_not_null()).unique(
        "communicator", keep="first", maintain_order=True
    )
    calls = ranges.filter(pl.col("message").is_not_null()).drop("ranks")
    calls = calls.join(
        ranks.select("communicator", "ranks"), on="communicator", how="left", maintain_order="left"
    )
    each = pl.col("label").is_in(list(_OF_EACH_RANK)).fill_null(value=False)
    calls = (
        calls.with_columns(_within("message", 0, _MOST_BYTES))
        .with_columns(
            pl.when(each).then(pl.col("message") * pl.col("ranks")).otherwise("message").alias("whole")
        )
        .with_columns(_within("whole", 0, _MOST_BYTES))
    )
    ends = ranges.filter((pl.col("label") == _GROUP_END) & pl.col("range").is_in(launching.implode()))
    later = calls.sort("start").join_asof(
        ends.select("thread", "start", pl.col("range").alias("end_range")).sort("start"),
        on="start", by="thread", strategy="forward", check_sortedness=False,
    )  # fmt: skip
    own = pl.col("range").is_in(launching.implode())
    return later.with_columns(pl.when(own).then("range").otherwise("end_range").alias("of")).drop_nulls("of")
