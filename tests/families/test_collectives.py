"""Collectives: counts by hand, limits of libraries, and what holds at every size and number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.pricing import laws, split_by_law
from tracetool.families.transfers.custom import limits_of, shots
from tracetool.families.transfers.fabric import peer_links
from tracetool.families.transfers.implementation import LIBRARIES, NCCL, OTHER, SGLANG, implementations_of
from tracetool.families.transfers.nccl import LL, NVLS, SENDS, SENDS_LL, SIMPLE, protocols
from tracetool.families.transfers.problem import message_of
from tracetool.hardware.load import load_gpu
from tracetool.model.timing import row_pieces, time_rows

GPUS = ("a100-sxm", "h100-sxm", "b200-sxm", "l40s")
NAMES = ("NCCL", "vLLM_custom_graph", "vLLM_custom_eager", "SGLang_CustomAllReduce_graph", "TRTLLM")
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
KB, MB, GIB = 1024, 1024**2, 1024.0**3


def collectives(size: Any, ranks: Any = 8, kind: str = "all_reduce", **texts: str) -> OperatorColumns:
    """Return rows of one kind, whatever else they state."""
    sizes, numbers = np.broadcast_arrays(np.asarray(size, float), np.asarray(ranks, float))
    n = sizes.size
    columns = {"bytes": sizes.ravel(), "ranks": numbers.ravel()}
    columns |= {k: np.full(n, v, dtype=object) for k, v in {"kind": kind, **texts}.items()}
    return OperatorColumns(np.full(n, "collective", dtype=object), columns)


def seconds(rows: OperatorColumns, gpu: str) -> Floats:
    return time_rows(rows, load_gpu(gpu), np.array([1500.0])).duration_s[:, 0]


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", NAMES)
@given(kind=st.sampled_from(KINDS), ranks=st.sampled_from([2, 4, 8]), power=st.floats(9, 29))
def test_long_messages_take_no_less_than_their_links(
    gpu: str, name: str, kind: str, ranks: int, power: float
) -> None:
    rows = collectives(2.0**power, ranks, kind, implementation=name)
    target = load_gpu(gpu)
    pieces = row_pieces(rows, target).pieces
    rate = target.link_bytes_per_s if ranks <= target.link_ranks else target.pcie_bytes_per_s
    assert seconds(rows, gpu)[0] >= pieces.work.link_bytes[0] / rate


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_eight_times_the_message_takes_longer(gpu: str, name: str, kind: str) -> None:
    for ranks in (2, 4, 8):
        spent = seconds(collectives(8.0 ** np.arange(3, 11), ranks, kind, implementation=name), gpu)
        assert np.all(np.diff(spent) > 0), ranks


@pytest.mark.parametrize("gpu", ["a100-sxm", "l40s"])
def test_more_ranks_never_make_a_byte_cheaper_where_no_switch_adds(gpu: str) -> None:
    spent = seconds(collectives(512.0 * MB, [2, 4, 8]), gpu)
    assert np.all(np.diff(spent) > 0)


def test_in_switch_reduction_moves_each_byte_once() -> None:
    rows = collectives(256.0 * MB, 8)
    added, ring = (row_pieces(rows, load_gpu(g)).pieces.work.link_bytes[0] for g in ("h100-sxm", "a100-sxm"))
    assert added == 256 * MB
    assert ring == pytest.approx(2 * 7 / 8 * 256 * MB)


@pytest.mark.parametrize(
    ("size", "ranks", "reads"),
    [(64 * KB, 8, 7.0), (256 * KB, 4, 3.0), (4 * MB, 4, 2 * 3 / 4), (4 * MB, 2, 1.0), (4 * MB, 8, 2 * 7 / 8)],
)
def test_shots_read_what_the_algorithm_says(size: int, ranks: int, reads: float) -> None:
    """One shot reads every peer's message; two shots, from vLLM's limits on, each part twice."""
    rows = collectives(float(size), ranks, implementation="vLLM_custom_graph")
    assert row_pieces(rows, load_gpu("a100-sxm")).pieces.work.link_bytes[0] == pytest.approx(reads * size)


@pytest.mark.parametrize(("stack", "factor"), [("sglang 0.5.10", 2 * 3 / 4), ("vllm 0.14.0", 2 * 3 / 4)])
def test_beyond_its_limit_a_library_leaves_the_message_to_nccl(stack: str, factor: float) -> None:
    rows = collectives(64.0 * MB, 4, stack=stack)
    own = seconds(rows, "a100-sxm")
    assert own == pytest.approx(seconds(collectives(64.0 * MB, 4, implementation="NCCL"), "a100-sxm"))
    work = row_pieces(rows, load_gpu("a100-sxm")).pieces.work
    assert work.link_bytes[0] == pytest.approx(factor * 64 * MB)


def test_nccl_leaves_the_low_latency_protocol_where_its_tuning_model_does() -> None:
    """All-gather of 4 A100: 6.6 + 3 x 0.6 us, 93 GB/s and 8.4 + 3 x 3.4 us, 243 GB/s meet at 2 MB."""
    message = message_of(collectives([1.0 * MB, 4.0 * MB], 4, "all_gather"))
    assert protocols(message, peer_links(message.ranks, load_gpu("a100-sxm"))).tolist() == [LL, SIMPLE]
    message = message_of(collectives([64.0 * KB, 1.0 * MB], 4, "all_to_all"))
    assert protocols(message, peer_links(message.ranks, load_gpu("h100-sxm"))).tolist() == [SENDS_LL, SENDS]
    message = message_of(collectives(64.0 * MB, [2, 8]))
    assert protocols(message, peer_links(message.ranks, load_gpu("h100-sxm"))).tolist() == [SIMPLE, NVLS]


@pytest.mark.parametrize(
    ("stack", "one", "two"),
    [("vllm 0.24.0", 2, 3), ("sglang 0.5.14", 1, 2), ("sglang 0.5.10", 2, 3), ("trtllm 1.3.0", 1, 2)],
)
def test_ranks_wait_for_one_another_as_often_as_the_source_says(stack: str, one: int, two: int) -> None:
    library, version = stack.split(" ")
    early = version == "0.5.10"
    limits = limits_of(library, "hopper", early=early)
    assert (limits["exchanges"], limits["two_exchanges"]) == (one, two)
    kernels, gpu = "vllm" if early else library, load_gpu("h100-sxm")
    message, law = message_of(collectives([8.0 * KB, 1.0 * MB], 8)), laws()["collective"]
    start = f"{kernels}_"
    given = {k.removeprefix(start): c.value for k, c in law.priors.items() if k.startswith(start)}
    links = peer_links(message.ranks, gpu)
    limits = {**limits, "own_8": 1e9, "two_shots_8": 100.0 * KB}
    base, more = (
        shots(
            message,
            links,
            limits,
            {**given, "start": given["start"] + d, "two_start": given["two_start"] + d},
        )
        for d in (0.0, 1.0)
    )
    waits = (more.seconds - base.seconds) / (links.wait_s * given["factor"])
    assert waits == pytest.approx([one, two])


def test_a_row_states_its_library() -> None:
    names = ["NCCL", "vLLM_custom_eager", "TRTLLM", "", "", "", "MSCCL++"]
    stacks = ["", "", "", "sglang 0.5.10", "torch 2.9", "", "vllm 0.24.0"]
    rows = collectives(np.full(len(names), 1e6))
    columns = {"implementation": np.array(names, dtype=object), "stack": np.array(stacks, dtype=object)}
    by = implementations_of(OperatorColumns(rows.family, {**rows.columns, **columns}))
    expected = [NCCL, LIBRARIES.index("vllm"), LIBRARIES.index("trtllm"), SGLANG, NCCL, NCCL, OTHER]
    assert by.library.tolist() == expected
    assert by.eager.tolist() == [False, True, False, False, False, False, False]
    assert by.stated.tolist() == [True, True, True, True, True, False, True]
    assert by.early.tolist() == [False, False, False, True, False, False, False]


def test_launches_from_python_take_the_host_at_least() -> None:
    graph, eager = (
        seconds(collectives(1024.0, 8, implementation=f"vLLM_custom_{how}"), "h100-sxm")[0]
        for how in ("graph", "eager")
    )
    assert graph < 10e-6 < eager


def test_a_row_that_states_no_library_has_the_widest_interval() -> None:
    def width(rows: OperatorColumns) -> float:
        pieces = row_pieces(rows, load_gpu("h100-sxm"))
        return float(np.log(pieces.high / pieces.low)[0])

    stated = max(width(collectives(64e3, 8, implementation=name)) for name in ("NCCL", "TRTLLM"))
    assert width(collectives(64e3, 8)) > 3 * stated
    assert width(collectives(64e3, 8, implementation="MSCCL++")) > stated
    # every library leaves these to NCCL
    assert width(collectives(GIB, 8)) < 1.5 * width(collectives(GIB, 8, implementation="NCCL"))
    gathered = [
        width(collectives(64e3, 8, "all_gather", **names)) for names in ({}, {"implementation": "NCCL"})
    ]
    assert gathered[0] == pytest.approx(gathered[1], abs=0.02)


def test_cards_on_a_bridge_reach_more_than_two_through_the_host() -> None:
    gpu = load_gpu("h100-nvl")
    laws = {
        int(ranks): split_by_law("collective", collectives(1e6, ranks), gpu)[0][0].name for ranks in (2, 4)
    }
    assert laws == {2: "collective", 4: "collective_host"}
    rows = collectives(256.0 * MB, [2, 4])
    spent = seconds(rows, "h100-nvl")
    assert spent[1] > 4 * spent[0]


def test_of_each_bridged_group_one_sends_a_ring_through_the_host() -> None:
    """Three A100 of PCIe, two of them on a bridge: 20 GB/s on the bus (NVIDIA/nccl-tests, issue 178)."""
    assert 4 / 3 * GIB / seconds(collectives(GIB, 3), "a100-pcie-80gb")[0] == pytest.approx(20e9, rel=0.1)
    pairs, cards = (seconds(collectives(GIB, [2, 4, 8]), gpu) for gpu in ("a40", "l40s"))
    # of so many senders each keeps the same share; a ring of twice the ranks carries a little more
    assert pairs[1:] / cards[:-1] == pytest.approx([1.5, 7 / 6], rel=0.01)
    # to every peer by itself, all send at once
    pairs, cards = (seconds(collectives(GIB, 8, "all_to_all"), gpu) for gpu in ("a40", "l40s"))
    assert pairs == pytest.approx(cards, rel=0.01)


@pytest.mark.parametrize(("ranks", "links"), [(2, 1), (3, 2), (4, 3)])
def test_four_mi100_are_linked_each_to_each(ranks: int, links: int) -> None:
    card = load_gpu("mi100")
    assert card.link_rate(np.array([float(ranks)]))[0] == pytest.approx(links * 46e9)
    laws = [split_by_law("collective", collectives(GIB, n), card)[0][0].name for n in (ranks, 8)]
    assert laws == ["collective", "collective_host"]


@pytest.mark.data
@pytest.mark.parametrize("path", ["h100-sxm_nccl-2.29.2_collective", "b200-sxm_vllm-0.24.0_allreduce"])
def test_measured_collectives_lie_in_their_intervals(data: Path, path: str) -> None:
    frame = pl.read_parquet(data / "stacks" / f"{path}.parquet")
    from tracetool.replay.operator_tables import as_columns

    rows = as_columns(frame.drop("measured_us"), pl.Series(["collective"] * frame.height))
    gpu, measured = load_gpu(frame["gpu"][0]), frame["measured_us"].to_numpy() * 1e-6
    timing = time_rows(rows, gpu, np.array([gpu.clock_boost_mhz]))
    predicted = timing.duration_s[:, 0]
    assert np.median(np.abs(predicted / measured - 1.0)) < 0.10
    held = (predicted * timing.low[:, 0] <= measured) & (measured <= predicted * timing.high[:, 0])
    assert 0.80 < held.mean() <= 0.99


@pytest.mark.data
@pytest.mark.parametrize("gpu", ["a100-sxm", "b200-sxm", "h100-sxm", "h200-sxm", "l40s"])
def test_rows_that_state_no_library_lie_in_their_intervals_at_any_size(data: Path, gpu: str) -> None:
    from tracetool.replay.operator_tables import as_columns

    tables = [
        *(data / "stacks").glob(f"{gpu}_*_collective.parquet"),
        *(data / "stacks").glob(f"{gpu}_*_allreduce.parquet"),
    ]
    columns = ["op", "kind", "dtype", "ranks", "bytes", "measured_us"]
    frame = pl.concat([pl.read_parquet(table, columns=columns) for table in tables], how="vertical_relaxed")
    rows = as_columns(frame.drop("measured_us"), pl.Series(["collective"] * frame.height))
    target, measured = load_gpu(gpu), frame["measured_us"].to_numpy() * 1e-6
    timing = time_rows(rows, target, np.array([target.clock_boost_mhz]))
    predicted, size = timing.duration_s[:, 0], frame["bytes"].to_numpy()
    held = (predicted * timing.low[:, 0] <= measured) & (measured <= predicted * timing.high[:, 0])
    assert 0.86 < held.mean() < 0.96
    for least, most in ((0, 65536), (65536, 2**24), (2**24, 2**40)):
        assert held[(size > least) & (size <= most)].mean() > 0.82


@pytest.mark.parametrize("gpu", ["mi300x", "h100-sxm"])
def test_a_send_goes_to_one_peer_over_the_links_to_it(gpu: str) -> None:
    """Among eight MI300X it went over seven links at once, six times as fast as one carries it."""
    two, eight = seconds(collectives(1024 * MB, [2, 8], "send_recv", implementation="NCCL"), gpu)
    assert eight == pytest.approx(two)
    link = load_gpu(gpu).link_rate(np.array([2.0]))[0]
    assert 0.6 < 1024 * MB / eight / link < 1.0
