"""Collectives among servers with a network adapter beside each GPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.families.test_collectives import KINDS, MB, collectives, seconds
from tracetool.core.operators import OperatorColumns
from tracetool.families.pricing import split_by_law
from tracetool.families.transfers.fabric import servers_of
from tracetool.families.transfers.problem import message_of
from tracetool.families.transfers.servers import adapter_bytes, link_s
from tracetool.hardware.load import load_gpu
from tracetool.model.timing import row_pieces

GIB = 2.0**30


def apart(rows: OperatorColumns, stride: float) -> OperatorColumns:
    """Return collectives whose ranks are so far apart in number."""
    return OperatorColumns(rows.family, {**rows.columns, "rank_stride": np.full(len(rows), float(stride))})


@pytest.mark.parametrize(
    ("gpu", "low", "high"),
    [
        ("h100-sxm", 340e9, 400e9), ("h200-sxm", 340e9, 400e9), ("a100-sxm", 170e9, 200e9),
        ("gh200", 340e9, 400e9), ("v100-sxm2-16gb", 40e9, 50e9), ("mi250x", 85e9, 100e9),
    ],
)  # fmt: skip
def test_two_servers_add_at_nearly_the_rate_of_all_their_adapters(gpu: str, low: float, high: float) -> None:
    """NCCL reaches 350 to 385 GB/s of bus bandwidth over 8 x 50 GB/s, about half over 8 x 25."""
    bus = 2.0 * 15 / 16 * GIB / seconds(collectives(GIB, 16, implementation="NCCL"), gpu)[0]
    assert low < bus < high


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_a_second_server_costs_a_ring_little(kind: str) -> None:
    one, two, eight = seconds(collectives(GIB, [8, 16, 64], kind, implementation="NCCL"), "h100-sxm")
    assert one < two < eight < 1.3 * one


def test_an_adapter_carries_its_share_of_a_ring_and_all_that_leaves_of_sends() -> None:
    gpu = load_gpu("h100-sxm")
    ring, sends = (message_of(collectives(GIB, 32, kind)) for kind in ("all_reduce", "all_to_all"))
    assert adapter_bytes(ring, gpu)[0] == pytest.approx(2.0 * 31 / 32 * GIB / 8)
    assert adapter_bytes(sends, gpu)[0] == pytest.approx(24 / 32 * GIB)
    to_one = apart(collectives(GIB, 2, "send_recv"), 8)
    assert adapter_bytes(message_of(to_one), gpu)[0] == pytest.approx(GIB)


@pytest.mark.parametrize(
    ("gpu", "ranks", "law"),
    [
        ("h100-sxm", 8, "collective"), ("h100-sxm", 9, "collective_servers"), ("gb200", 72, "collective"),
        ("gb200", 73, "collective_servers"), ("l40s", 16, "collective_host"),
        ("h100-nvl", 4, "collective_host"),
    ],
)  # fmt: skip
def test_only_servers_with_adapters_reach_others_by_them(gpu: str, ranks: int, law: str) -> None:
    assert split_by_law("collective", collectives(MB, ranks), load_gpu(gpu))[0][0].name == law


@pytest.mark.parametrize(
    ("gpu", "ranks", "stride", "servers"),
    [
        ("h100-sxm", 8, 1, 1), ("h100-sxm", 8, 8, 8), ("h100-sxm", 8, 4, 4), ("h100-sxm", 2, 4, 1),
        ("h100-sxm", 2, 64, 2), ("gb200", 8, 8, 1), ("gb200", 18, 8, 2),
    ],
)  # fmt: skip
def test_ranks_apart_in_number_are_of_more_servers(gpu: str, ranks: int, stride: int, servers: int) -> None:
    rows, target = apart(collectives(GIB, ranks), stride), load_gpu(gpu)
    assert servers_of(message_of(rows), target).tolist() == [servers]
    law = "collective" if servers == 1 else "collective_servers"
    assert split_by_law("collective", rows, target)[0][0].name == law


def test_replicas_of_one_gpu_a_server_have_one_adapter_each() -> None:
    """Eight replicas of eight GPUs: each ring has 50 GB/s, the eight of a server together 400."""
    for kind, sent in (("all_reduce", 2.0 * 7 / 8), ("reduce_scatter", 7 / 8)):
        rows = apart(collectives(GIB, 8, kind, implementation="NCCL"), 8)
        bus = sent * GIB / seconds(rows, "h100-sxm")[0]
        assert 40e9 < bus < 50e9
        pieces = row_pieces(rows, load_gpu("h100-sxm")).pieces
        assert pieces.work.link_bytes.tolist() == [0.0]  # none over the links inside a server


#: Times of all-reduces among 72 GB200 of a rack, from 0.5 to 8 GiB. [us]
#: (coreweave/nccl-tests, pull request 43)
RACK_US = (1806.7, 3108.8, 5589.1, 10094.0, 20299.0)


def test_a_rack_adds_short_messages_over_a_tree_of_hosts() -> None:
    """A ring of 72 has 142 steps: a word took 354 us, where eight GPUs take 24."""
    words = seconds(collectives(4096.0, [4, 8, 16, 36, 72], implementation="NCCL"), "gb200")
    assert np.all(np.diff(words) > 0)
    assert words[-1] < 2.0 * words[0]
    eight, sixteen = seconds(collectives(4096.0, [8, 16], "all_gather", implementation="NCCL"), "gb200")
    assert sixteen > 1.4 * eight  # a ring: no tree gathers
    one_host = [
        seconds(collectives(4096.0, 8, implementation="NCCL"), gpu)[0] for gpu in ("b200-sxm", "h100-sxm")
    ]
    assert min(one_host) > words[1] * 0.8


def test_a_rack_adds_long_messages_in_the_time_measured() -> None:
    rows = collectives(GIB * 2.0 ** np.arange(-1, 4), 72, implementation="NCCL")
    assert seconds(rows, "gb200") == pytest.approx(1e-6 * np.array(RACK_US), rel=0.1)


@pytest.mark.parametrize("ranks", [16, 36, 72])
def test_addition_in_a_racks_switch_takes_over_without_a_jump(ranks: int) -> None:
    """Latency a rank was fitted to eight: a message of 2 MiB took 359 us among 72, one of 1 MiB 38."""
    spent = seconds(collectives(MB * 2.0 ** np.arange(8), ranks, implementation="NCCL"), "gb200")
    assert np.all(np.diff(spent) > 0.0)
    assert np.all(spent[1:] < 2.2 * spent[:-1])
    few, many = (seconds(collectives(2.0 * MB, n, implementation="NCCL"), "gb300")[0] for n in (8, 72))
    assert few < many < 3.0 * few


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-sxm", "mi300x", "gb300"])
def test_no_interval_ends_below_the_peak_of_the_adapters(gpu: str, kind: str) -> None:
    target = load_gpu(gpu)
    rows = collectives(2.0 ** np.arange(10, 31, 2), 2 * target.link_ranks, kind)
    pieces, spent = row_pieces(rows, target), seconds(rows, gpu)
    assert np.all(link_s(rows, target, pieces.pieces.work.link_bytes) <= spent)
    assert np.all(np.log(pieces.high / pieces.low) > np.log(3.0))  # nobody measured any
