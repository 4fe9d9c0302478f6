"""Collectives and copies as docs/families/collectives.md and links.md write them, one at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tracetool.core.operators import OperatorColumns
from tracetool.families.transfers.collective import OVER_LINKS, THROUGH_HOST, _library_shots, choose_fabric
from tracetool.families.transfers.fabric import PeerLinks
from tracetool.families.transfers.host import carry_through_host, crowd, one_shot_through_host
from tracetool.families.transfers.implementation import LIBRARIES
from tracetool.families.transfers.law import COPY
from tracetool.families.transfers.nccl import LL, LL128, NVLS, SENDS, SENDS_LL, SIMPLE, carry, protocols
from tracetool.families.transfers.problem import copy_work, message_of
from tracetool.hardware.load import load_gpu
from tracetool.model.timing import time_rows

GPU = load_gpu("h100-sxm")
RATE, LATENCY, LAUNCH = 4.5e11, 2.3e-6, 1.0e-6
WAIT = LATENCY - LAUNCH
C = {
    "ll_start": 1.7, "ll_step": 0.31, "ll_fill": 0.6, "ll_fill_bytes": 30000.0, "ll_share": 0.37,
    "ll128_start": 2.1, "ll128_step": 0.41, "ll128_share": 0.83, "simple_start": 3.1, "simple_step": 0.53,
    "simple_share": 0.71, "nvls_start": 4.3, "nvls_peer": 0.61, "nvls_share": 1.7, "sends_start": 1.1,
    "sends_peer": 0.7, "sends_ll_share": 0.29, "sends_simple_us": 9.7, "sends_share": 0.59, "own_share": 0.43,
    "start_factor": 1.3, "step_factor": 0.9, "simple_factor": 1.2, "link_factor": 0.95,
}  # fmt: skip


def rows_of(family: str, **given: Any) -> OperatorColumns:
    columns = {k: np.array([v], dtype=object if isinstance(v, str) else float) for k, v in given.items()}
    return OperatorColumns(np.array([family], dtype=object), columns)


def links(*, adds: bool) -> PeerLinks:
    return PeerLinks(
        bytes_per_s=np.array([RATE]), latency_s=LATENCY, wait_s=WAIT, launch_s=LAUNCH, adds=np.array([adds])
    )


RING = {"all_reduce": (2.0, 2), "all_gather": (1.0, 1), "reduce_scatter": (1.0, 1), "all_to_all": (1.0, 1)}


@pytest.mark.parametrize("ranks", [2.0, 4.0, 8.0])
@pytest.mark.parametrize("kind", [*RING, "broadcast", "send"])
def test_a_ring_sends_its_share_in_its_steps(kind: str, ranks: float) -> None:
    message = message_of(rows_of("collective", bytes=1e6, ranks=ranks, kind=kind))
    factor, laps = RING.get(kind, (0.0, 1))
    assert message.ring_bytes[0] == pytest.approx(factor * (ranks - 1) / ranks * 1e6 if factor else 1e6)
    assert message.steps[0] == laps * (ranks - 1)
    assert message.sends[0] == (kind in ("all_to_all", "send"))
    assert message.reduces_all[0] == (kind == "all_reduce")
    assert message.per_peer[0] == (1e6 if kind == "send" else 1e6 / ranks)
    assert message.peers[0] == (1.0 if kind == "send" else ranks - 1)


@pytest.mark.parametrize("ranks", [2.0, 4.0, 8.0])
@pytest.mark.parametrize("size", [1e3, 4e4, 1e6, 3e7, 2e9])
@pytest.mark.parametrize(("kind", "adds"), [("all_reduce", False), ("all_reduce", True), ("all_gather", True),
                                            ("all_to_all", False), ("send", False),
                                            ("broadcast", False)])  # fmt: skip
def test_each_protocol_takes_what_the_page_says(kind: str, adds: bool, size: float, ranks: float) -> None:
    message = message_of(rows_of("collective", bytes=size, ranks=ranks, kind=kind))
    between = links(adds=adds)
    chosen, spent = int(protocols(message, between)[0]), carry(message, between, C)
    ring, steps = float(message.ring_bytes[0]), float(message.steps[0])
    fast, start, step = RATE * C["link_factor"], C["start_factor"], C["step_factor"]
    one = kind == "send"  # all of it to one peer, and none to itself
    copied, peers = ring if one else ring + C["own_share"] * size / ranks, 1.0 if one else ranks - 1
    page = {
        LL: LAUNCH + WAIT * (C["ll_start"] * start + C["ll_step"] * step * steps)
        * (1 + C["ll_fill"] * size / (size + C["ll_fill_bytes"])) + ring / (C["ll_share"] * RATE),
        LL128: LAUNCH + WAIT * (C["ll128_start"] * start + C["ll128_step"] * step * steps)
        + ring / (C["ll128_share"] * fast),
        SIMPLE: LATENCY * C["simple_factor"] * (C["simple_start"] + C["simple_step"] * steps)
        + copied / (C["simple_share"] * fast),
        NVLS: LATENCY * C["simple_factor"] * (C["nvls_start"] + C["nvls_peer"] * ranks)
        + size / (C["nvls_share"] * fast),
        SENDS_LL: LAUNCH + WAIT * (C["sends_start"] * start + C["sends_peer"] * step * peers)
        + ring / (C["sends_ll_share"] * RATE),
        SENDS: C["sends_simple_us"] * 1e-6 + WAIT * C["sends_peer"] * peers
        + copied / (C["sends_share"] * fast),
    }  # fmt: skip
    assert spent.seconds[0] == pytest.approx(page[chosen], rel=1e-9)
    assert spent.link_bytes[0] == pytest.approx(size if chosen == NVLS else ring)
    if kind in ("all_to_all", "send"):
        assert chosen == (SENDS_LL if size / (1.0 if one else ranks) <= 16384 else SENDS)
    elif not adds or kind != "all_reduce":
        assert chosen in (LL, LL128, SIMPLE)


HOST = {
    "sends_us": 11.0, "sends_step_us": 3.0, "ll_us": 7.0, "ll_step_us": 2.3, "simple_us": 31.0,
    "simple_step_us": 4.1, "sends_share": 0.61, "share": 0.83, "ll_share": 0.41, "crowd_4": 0.27,
    "crowd_8": 0.07, "own_below_bytes": 1e6, "start_us": 13.0,
}  # fmt: skip


@pytest.mark.parametrize("ranks", [2.0, 4.0, 8.0])
@pytest.mark.parametrize("size", [1e3, 1e5, 1e8])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "all_to_all", "send"])
def test_through_the_host_the_faster_protocol_runs(kind: str, size: float, ranks: float) -> None:
    card = load_gpu("l40s")  # no peer links
    message = message_of(rows_of("collective", bytes=size, ranks=ranks, kind=kind))
    rate = card.pcie_bytes_per_s * {2: 1.0, 4: 0.27, 8: 0.07}[int(ranks)]
    steps, ring, sends = float(message.steps[0]), float(message.ring_bytes[0]), kind in ("all_to_all", "send")
    peers = 1.0 if kind == "send" else ranks - 1
    short = HOST["sends_us"] + HOST["sends_step_us"] * peers if sends else (
        HOST["ll_us"] + HOST["ll_step_us"] * steps)  # fmt: skip
    long = HOST["simple_us"] + HOST["simple_step_us"] * (1.0 if sends else steps)
    share = HOST["sends_share"] if sends else HOST["share"]
    page = min(short * 1e-6 + ring / (HOST["ll_share"] * rate), long * 1e-6 + ring / (share * rate))
    spent = carry_through_host(message, card, HOST)
    assert spent.seconds[0] == pytest.approx(page, rel=1e-9)
    assert spent.link_bytes[0] == ring


def test_ranks_between_those_stated_keep_a_share_between() -> None:
    """By the logarithm of both: 2 * sqrt(2) ranks keep the root of what 4 keep; 16 what 8 do, 1 what 2 do."""
    shares = crowd(np.array([1.0, 2.0, 8**0.5, 4.0, 8.0, 16.0]), HOST)
    assert shares == pytest.approx([1.0, 1.0, 0.27**0.5, 0.27, 0.07, 0.07])


@pytest.mark.parametrize(("kind", "ranks", "size", "own"), [
    ("all_reduce", 2.0, 1e5, True), ("all_reduce", 4.0, 1e5, False), ("all_reduce", 2.0, 1e6, False),
    ("all_gather", 2.0, 1e5, False),
])  # fmt: skip
def test_two_ranks_add_short_messages_in_one_shot(kind: str, ranks: float, size: float, own: bool) -> None:
    card = load_gpu("l40s")
    message = message_of(rows_of("collective", bytes=size, ranks=ranks, kind=kind))
    shot, takes = one_shot_through_host(message, card, HOST)
    assert takes.tolist() == [own]
    assert shot.link_bytes[0] == (ranks - 1) * size
    assert shot.seconds[0] == pytest.approx(13e-6 + (ranks - 1) * size / (0.83 * card.pcie_bytes_per_s))


@pytest.mark.parametrize(
    ("stack", "own"),
    [("vllm 0.24.0", True), ("sglang 0.5.10", True), ("trtllm 1.3", False), ("nccl", False)],
)
def test_one_shot_is_of_the_two_libraries_that_have_it(stack: str, own: bool) -> None:
    card = load_gpu("l40s")
    c = {name: coefficient.value for name, coefficient in THROUGH_HOST.priors.items()}
    rows = rows_of("collective", bytes=1e4, ranks=2.0, kind="all_reduce", stack=stack)
    shot_s = c["vllm_start_us"] * 1e-6 + 1e4 / (c["vllm_share"] * card.pcie_bytes_per_s)
    took_s = float(THROUGH_HOST.parts(rows, card, c).fixed_s[0])
    assert took_s == pytest.approx(shot_s) if own else took_s > 1.1 * shot_s


COPIES = {
    "link_efficiency": 0.81, "host_cache": 2e7, "pageable_far_rate": 3e9, "pageable_rate": 9e9,
    "fresh_bytes": 3e7, "fresh_rate": 2e9, "set_us": 1.3, "inside_us": 1.9, "latency_us": 2.7, "back_us": 0.6,
    "set_efficiency": 0.91, "efficiency": 0.77,
}  # fmt: skip


@pytest.mark.parametrize("size", [1e4, 1e7, 1e9])
@pytest.mark.parametrize("sharers", [1.0, 2.0])
@pytest.mark.parametrize("kind", ["HtoD pinned", "DtoH pageable", "HtoD pageable", "PtoP", "DtoH"])
def test_a_copy_over_a_link_takes_the_narrowest_path(kind: str, sharers: float, size: float) -> None:
    pieces = COPY.pieces(rows_of("memcpy", bytes=size, kind=kind, link_sharers=sharers), GPU, COPIES)
    rate, back = 0.81 * GPU.pcie_bytes_per_s / sharers, kind.startswith("DtoH")
    if "pageable" in kind:  # through the host's memory, slower beyond its cache; new pages fault
        pageable = 3e9 + 6e9 / (1 + size / 2e7)
        if back and size > 3e7:
            pageable = 1 / (1 / pageable + 1 / 2e9)
        rate = min(rate, pageable)
    assert pieces.fixed_s[0] == pytest.approx((3.3 if back else 2.7) * 1e-6 + size / rate)
    assert pieces.memory_s[0] == 0
    assert pieces.work.link_bytes[0] == pieces.work.dram_bytes[0] == size
    assert pieces.active[0] == 0


def test_a_copy_of_unknown_size_moves_nothing() -> None:
    for family in ("memcpy", "memset"):
        work = COPY.pieces(rows_of(family, kind="DtoD"), GPU, COPIES).work
        assert work.dram_bytes[0] == work.l2_bytes[0] == work.link_bytes[0] == 0


@pytest.mark.parametrize("family", ["memcpy", "memset"])
def test_inside_a_copy_reads_and_writes_and_a_set_writes(family: str) -> None:
    pieces = COPY.pieces(rows_of(family, bytes=1e8, kind="DtoD" if family == "memcpy" else ""), GPU, COPIES)
    start, moved, share = (1.9, 2e8, 0.77) if family == "memcpy" else (1.3, 1e8, 0.91)
    assert pieces.fixed_s[0] == pytest.approx(start * 1e-6)
    assert pieces.memory_s[0] == pytest.approx(moved / (share * GPU.dram_bytes_per_s))
    assert pieces.work.link_bytes[0] == 0
    assert pieces.work.dram_bytes[0] == pieces.work.l2_bytes[0] == moved
    assert math.isclose(pieces.active[0], 0.3)


@pytest.mark.parametrize(("share", "carried"), [(0.9, LL), (1.1, LL128)])
def test_low_latency_ends_where_the_wider_lines_catch_up(share: float, carried: int) -> None:
    """14 steps: 6.6 + 14 x 0.6 us and bytes at 0.31 of the rate; 14 + 14 x 1.9 and at 0.92 of 0.81 of it."""
    behind_us = 14.0 + 14 * 1.9 - (6.6 + 14 * 0.6)
    equal = behind_us * 1e-6 * RATE / (1.0 / 0.31 - 1.0 / (0.92 * 0.81)) * 8.0 / 14.0
    message = message_of(rows_of("collective", bytes=share * equal, ranks=8.0, kind="all_reduce"))
    assert protocols(message, links(adds=False)).tolist() == [carried]


def test_peer_links_join_two_ranks_where_nothing_else_is_said() -> None:
    """A bridge joins two PCIe cards: two ranks, and those that state no number; three go through the host."""
    bridged = load_gpu("a100-pcie-40gb")
    assert bridged.link_ranks == 2
    rows = OperatorColumns(np.full(3, "collective", dtype=object), {"ranks": np.array([2.0, 3.0, np.nan])})
    assert choose_fabric(rows, bridged).tolist() == [0, 1, 0]
    unstated = OperatorColumns(np.array(["collective"], dtype=object), {})
    assert choose_fabric(unstated, bridged).tolist() == [0]


@pytest.mark.parametrize(
    ("ranks", "carrying"), [(2.0, 1), (4.0, 3), (8.0, 7)], ids=["one link", "three", "all seven"]
)
def test_fewer_ranks_of_a_mesh_have_fewer_links(ranks: float, carrying: int) -> None:
    """A link of an MI300X leads to one GPU; ranks behind a switch have the whole rate, however few."""
    rows = rows_of("collective", bytes=2.0**30, ranks=ranks, kind="all_reduce", dtype="bf16")
    sent = 2.0 * (ranks - 1.0) / ranks * 2.0**30
    mesh, switch = load_gpu("mi300x"), load_gpu("h100-sxm")
    assert mesh.link_rate(np.array([ranks]))[0] == pytest.approx(carrying * mesh.link_bytes_per_s / 7)
    assert switch.link_rate(np.array([ranks]))[0] == switch.link_bytes_per_s
    timing = time_rows(rows, mesh, 2100.0)
    assert timing.duration_s[0, 0] > sent / (carrying * 64e9)
    assert timing.duration_s[0, 0] < 2.0 * sent / (carrying * 64e9)


@pytest.mark.parametrize(
    ("library", "early", "runs"),
    [("sglang", True, "vllm"), ("sglang", False, "sglang"), ("vllm", False, "vllm"), ("trtllm", 1, "trtllm")],
)  # fmt: skip
def test_early_sglang_reduces_with_the_kernels_of_vllm(library: str, early: bool, runs: str) -> None:
    """A kernel's fit that is ten times as slow is seen where that kernel runs, and nowhere else."""
    message = message_of(rows_of("collective", bytes=8192.0, ranks=8.0, kind="all_reduce"))
    usual = {name: one.value for name, one in OVER_LINKS.priors.items()}
    seconds = {}
    for slow in ("", "vllm", "sglang", "trtllm"):
        c = {name: value * (10.0 if name == f"{slow}_factor" else 1.0) for name, value in usual.items()}
        seconds[slow] = float(
            _library_shots(LIBRARIES.index(library), message, GPU, c, early=early).seconds[0]
        )
    assert {slow for slow, taken in seconds.items() if taken != seconds[""]} == {runs}


def test_a_copy_is_counted_by_its_stated_size() -> None:
    assert copy_work(rows_of("memcpy"), GPU).dram_bytes.tolist() == [0.0]
    assert copy_work(rows_of("memcpy", bytes=5.0), GPU).dram_bytes.tolist() == [10.0]
