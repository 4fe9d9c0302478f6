"""What a runtime or driver function does, told by its name."""

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
    names = calls["name"].unique().drop_nulls().to_list()
    plain = {n: plain_call(n) for n in names}
    return calls.with_columns(
        name=pl.col("name").replace_strict(plain, default="?", return_dtype=pl.String),
        kind=pl.col("name").replace_strict(
            {n: call_kind(p) for n, p in plain.items()}, default="other", return_dtype=pl.String
        ),
    )
