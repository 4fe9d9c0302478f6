"""Action of a runtime or driver function, read from its name."""

from __future__ import annotations

import re

import polars as pl

_RULES: tuple[tuple[str, str], ...] = (
    (r"graphlaunch", "graph_launch"),
    (r"(?:launch|hipmodulelaunch|cuda_launch)", "launch"),
    (r"synchronize|streamwaitevent|eventquery|streamquery|hsa_signal_wait", "sync"),
    (r"memcpy|memory_copy|hsa_amd_memory_async_copy|memory_async_copy", "memcpy"),
    (r"memset|memory_async_fill", "memset"),
    (r"malloc|free|memcreate|memmap|memunmap|memaddress|memrelease|mempool|hostalloc|hostregister", "malloc"),
    (r"event", "event"),
)
_VERSION = re.compile(r"(_v\d+|_ptsz|_ptds)+(?=$|_v\d+)")


def call_kind(name: str) -> str:
    """Return ``launch``, ``graph_launch``, ``sync``, ``memcpy``, ``memset``, ``malloc``, ``event`` ...

    >>> call_kind("cudaLaunchKernelExC"), call_kind("hipGraphLaunch"), call_kind("cudaStreamSynchronize")
    ('launch', 'graph_launch', 'sync')
    """
    low = name.lower()
    for pattern, kind in _RULES:
        if re.search(pattern, low):
            return kind
    return "other"


def plain_call(name: str) -> str:
    """Return a function's name without its version suffix.

    >>> plain_call("cudaLaunchKernel_v7000"), plain_call("cuMemcpyHtoDAsync_v2_ptsz")
    ('cudaLaunchKernel', 'cuMemcpyHtoDAsync')
    """
    return _VERSION.sub("", name) or name


def with_call_kinds(calls: pl.DataFrame) -> pl.DataFrame:
    """Add ``kind`` to host calls and make their names plain, once per distinct name."""
    distinct = calls["name"].drop_nulls().unique()
    plain = [plain_call(n) for n in distinct.to_list()]
    looked = pl.DataFrame(
        {"name": distinct, "#plain": plain, "kind": [call_kind(p) for p in plain]},
        schema={"name": pl.String, "#plain": pl.String, "kind": pl.String},
    )
    joined = calls.join(looked, on="name", how="left", maintain_order="left")
    return joined.with_columns(
        pl.col("#plain").fill_null("?").alias("name"), pl.col("kind").fill_null("other")
    ).drop("#plain")
