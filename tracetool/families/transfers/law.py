"""Copies: a latency and the bytes over the narrowest path; and the laws of collectives.

Equation and sources: docs/families/links.md.
"""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Bools, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families import names
from tracetool.families.coefficients import read_coefficients
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.families.registry import count_work
from tracetool.families.transfers.collective import BETWEEN_SERVERS, OVER_LINKS, THROUGH_HOST
from tracetool.families.transfers.problem import over_link
from tracetool.hardware.gpu import Gpu

#: How sharply a copy's way through L2 hides behind memory: exponent of the norm in which they meet. [1] A
#: prior, that of attention's keys.
L2_NORM = 6.0

_DATA = read_coefficients(__package__)


def _copy(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    work = count_work(rows, gpu)
    n = len(rows)
    crossing = work.link_bytes > 0
    words = np.char.lower(rows.text("kind").astype(str))
    back = crossing & (_contain(words, "dtoh") | _contain(words, "d2h"))
    rate = c["link_efficiency"] * gpu.pcie_bytes_per_s / np.maximum(rows.number("link_sharers", 1.0), 1.0)
    # pages beyond the host's last cache come from its memory
    near = 1.0 / (1.0 + rows.number("bytes", 0.0) / c["host_cache"])
    pageable = c["pageable_far_rate"] + (c["pageable_rate"] - c["pageable_far_rate"]) * near
    # a large destination is memory its process never touched: each page faults on its first write
    fresh = back & (rows.number("bytes", 0.0) > c["fresh_bytes"])
    pageable = np.where(fresh, 1.0 / (1.0 / pageable + 1.0 / c["fresh_rate"]), pageable)
    rate = np.where(_contain(words, "pageable"), np.minimum(rate, pageable), rate)
    sets = rows.family == names.MEMSET
    start = np.where(sets, c["set_us"], c["inside_us"])
    start = np.where(crossing, c["latency_us"] + np.where(back, c["back_us"], 0.0), start)
    inside = work.dram_bytes / (np.where(sets, c["set_efficiency"], c["efficiency"]) * gpu.dram_bytes_per_s)
    return Pieces(
        fixed_s=start * 1e-6 + work.link_bytes / rate,
        serial_cycles=np.zeros(n),
        stream_s=np.zeros(n),
        floor_s=np.zeros(n),
        # what stays on the device is a kernel of the driver's: at a low clock L2 passes less than memory
        core_cycles=np.where(crossing, 0.0, work.dram_bytes / gpu.l2_bytes_per_clock),
        memory_s=np.where(crossing, 0.0, inside),
        norm=np.full(n, L2_NORM),
        active=np.where(crossing, 0.0, 0.3),
        work=work,
    )


def _contain(words: np.ndarray[tuple[int], np.dtype[np.str_]], word: str) -> Bools:
    return np.asarray(np.char.find(words, word) >= 0)


#: Copies that err differently: inside the device, sets, and over the link by the host's kind of memory.
COPY_KINDS = ("inside", "set", "pinned", "pageable", "managed")


def _copy_kind(rows: OperatorColumns) -> Ints:
    words = np.char.lower(rows.text("kind").astype(str))
    over = np.where(_contain(words, "managed"), 4, np.where(_contain(words, "pageable"), 3, 2))
    inside = np.where(rows.family == names.MEMSET, 1, 0)
    return np.where(over_link(rows), over, inside).astype(np.int64)


#: Hosts differ more than GPUs: slots of half the lanes, links shared by two GPUs, slow cores.
COPY = Law("copy", _copy, _DATA["copy"], spread=(-0.75, 1.1), kinds=COPY_KINDS, kind_of=_copy_kind)
LAWS = (OVER_LINKS, THROUGH_HOST, BETWEEN_SERVERS, COPY)
