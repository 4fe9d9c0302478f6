"""Copies and collectives: a latency and the bytes over the narrowest path."""

from __future__ import annotations

import numpy as np

from tracetool.families.count import count_work
from tracetool.hardware.gpu import Gpu
from tracetool.model.laws.law import Coefficient, Coefficients, Law
from tracetool.model.pieces import Pieces
from tracetool.vocabulary.arrays import Bools
from tracetool.vocabulary.operators import OperatorColumns

_COLLECTIVE = {
    "latency_us": Coefficient(9.0, 1.0, 60.0, "us"),  # a message of no length
    "hop_us": Coefficient(0.8, 0.0, 10.0, "us"),  # each rank of a ring
    "reach": Coefficient(0.75, 0.2, 1.0, "1"),  # share of the link's peak
}
_COPY = {
    "latency_us": Coefficient(1.5, 0.2, 10.0, "us"),  # start and end of a copy
    "back_us": Coefficient(0.8, 0.05, 5.0, "us"),  # to the host: its memory must answer
    # pages the host may move pass through the driver's own, copied by one of its cores
    "pageable_rate": Coefficient(6e9, 2e9, 2e10, "B/s"),
    "link_reach": Coefficient(0.85, 0.3, 1.0, "1"),  # share of the link's peak
    "reach": Coefficient(0.85, 0.3, 1.0, "1"),  # share of the memory's peak
}


def _collective(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    work = count_work(rows, gpu)
    n = len(rows)
    rate = gpu.link_bytes_per_s if gpu.link_bytes_per_s > 0 else gpu.pcie_bytes_per_s
    ranks = np.maximum(rows.number("ranks", 2.0), 1.0)
    wire = work.link_bytes / (c["reach"] * rate)
    return Pieces(
        fixed_s=(c["latency_us"] + c["hop_us"] * (ranks - 1.0)) * 1e-6 + wire,
        serial_cycles=np.zeros(n),
        stream_s=np.zeros(n),
        floor_s=np.zeros(n),
        core_cycles=np.zeros(n),
        memory_s=np.zeros(n),
        norm=np.ones(n),
        active=np.full(n, 0.15),
        work=work,
    )


def _copy(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    work = count_work(rows, gpu)
    n = len(rows)
    crossing = work.link_bytes > 0
    words = np.char.lower(np.char.add(rows.text("kind").astype(str), rows.text("name").astype(str)))
    back = crossing & (_said(words, "dtoh") | _said(words, "d2h"))
    rate = np.full(n, c["link_reach"] * gpu.pcie_bytes_per_s)
    rate = np.where(_said(words, "pageable"), np.minimum(rate, c["pageable_rate"]), rate)
    return Pieces(
        fixed_s=(c["latency_us"] + np.where(back, c["back_us"], 0.0)) * 1e-6 + work.link_bytes / rate,
        serial_cycles=np.zeros(n),
        stream_s=np.zeros(n),
        floor_s=np.zeros(n),
        core_cycles=np.zeros(n),
        memory_s=np.where(crossing, 0.0, work.dram_bytes / (c["reach"] * gpu.dram_bytes_per_s)),
        norm=np.ones(n),
        active=np.where(crossing, 0.0, 0.3),
        work=work,
    )


def _said(words: np.ndarray[tuple[int], np.dtype[np.str_]], word: str) -> Bools:
    return np.asarray(np.char.find(words, word) >= 0)


COLLECTIVE = Law("collective", _collective, _COLLECTIVE, spread=(-0.9, 0.9))
COPY = Law("copy", _copy, _COPY, spread=(-0.7, 0.7))
