"""Collectives of an Nsight Systems export have the bytes and ranks that NCCL states."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import tracetool as tt
from tests.sources.nccl_payloads import COMM, INIT, OTHER, PEER, RANKS, REDUCED, SIZED, Job, blob

MIB = 1 << 20


def job() -> Job:
    """Calls of their own, in groups, of two kinds, to peers: EXPECTED is what their kernels move."""
    made = Job()
    made.call("ncclCommInitRankConfig", blob(INIT, COMM, RANKS, 3, 3))
    made.call("ncclAllReduce", blob(REDUCED, COMM, 4 * MIB, 0), kernels=1)  # the message
    made.call("ncclAllGather", blob(SIZED, COMM, MIB), kernels=1)  # of one of 8 ranks
    made.group([("ncclAllReduce", blob(REDUCED, COMM, MIB, 0))], kernels=1)  # launched when the group ends
    made.group(
        [("ncclAllGather", blob(SIZED, COMM, s * MIB)) for s in (1, 2)], kernels=1
    )  # one kernel for both
    made.group([("ncclAllReduce", blob(REDUCED, COMM, MIB, 0))] * 2, kernels=2)  # alike: one each
    made.group(
        [("ncclAllReduce", blob(REDUCED, COMM, MIB, 0)), ("ncclAllGather", blob(SIZED, COMM, MIB))], kernels=2
    )  # which is which nobody says
    peers = [(name, blob(PEER, COMM, MIB, p)) for p in range(RANKS) for name in ("ncclSend", "ncclRecv")]
    made.group(peers, kernels=1)  # what this rank sends
    made.call("ncclAllGather", blob(SIZED, OTHER, MIB), kernels=1)  # of how many ranks nobody said
    return made


EXPECTED = [4 * MIB, 8 * MIB, MIB, 24 * MIB, MIB, MIB, None, None, 8 * MIB, None]


@pytest.mark.parametrize("kind", ["BLOB", "TEXT", "parquet"])
def test_a_collective_has_the_bytes_and_ranks_that_nccl_states(tmp_path: Path, kind: str) -> None:
    path = job().parquet(tmp_path) if kind == "parquet" else job().sqlite(tmp_path, kind)
    run = tt.ingest(path, out=tmp_path / "run")
    kernels = run.kernels.filter(stream=20).sort("start_ns")
    assert kernels["bytes"].to_list() == EXPECTED
    groups = kernels["process_group"].to_list()
    assert groups[:6] == [f"NCCL {COMM}"] * 6
    assert groups[6:8] == [None, None]
    signatures = run.signatures.join(kernels.select("signature").unique(), on="signature")
    assert set(signatures.drop_nulls("ranks")["ranks"]) == {RANKS}
    others = run.kernels.filter(stream=13)
    assert others["process_group"].null_count() == others.height
    assert others["bytes"].drop_nulls().to_list() == [MIB]  # the copy's own


def test_collectives_of_known_bytes_are_priced_by_them(tmp_path: Path) -> None:
    run = tt.ingest(job().sqlite(tmp_path), out=tmp_path / "run")
    rows = run.predict(clock=1980).frame.filter(family="collective")
    priced = rows.filter(predicted_from="shapes")
    assert priced["launches"].sum() == sum(value is not None for value in EXPECTED)
    assert priced["link_bytes"].min() > 0.9 * MIB  # of an all-reduce 2 (n - 1) / n go over the links
    assert rows.filter(predicted_from="family rate")["launches"].sum() == EXPECTED.count(None)


@pytest.mark.parametrize("cut", [0, 31, 40])
def test_a_payload_cut_short_states_nothing(tmp_path: Path, cut: int) -> None:
    made = Job()
    made.call("ncclAllReduce", blob(REDUCED, COMM, MIB, 0)[:cut], kernels=1)
    run = tt.ingest(made.sqlite(tmp_path), out=tmp_path / "run")
    assert run.kernels.filter(stream=20)["bytes"].to_list() == [None]


@pytest.mark.parametrize("message", [1 << 41, 1 << 62, (1 << 63) + 1, (1 << 64) - 1])
def test_a_message_larger_than_any_memory_states_nothing(tmp_path: Path, message: int) -> None:
    made = Job()
    made.call("ncclCommInitRankConfig", blob(INIT, COMM, RANKS, 3, 3))
    made.call("ncclAllReduce", blob(REDUCED, COMM, message, 0), kernels=1)
    made.call("ncclAllGather", blob(SIZED, COMM, message), kernels=1)
    made.group([("ncclSend", blob(PEER, COMM, size, 1)) for size in (MIB, message)], kernels=1)
    made.call("ncclAllReduce", blob(REDUCED, COMM, MIB, 0), kernels=1)
    run = tt.ingest(made.sqlite(tmp_path), out=tmp_path / "run")
    assert run.kernels.filter(stream=20).sort("start_ns")["bytes"].to_list() == [None, None, None, MIB]


@pytest.mark.parametrize("ranks", [-1, 0, (1 << 31) - 1])
def test_ranks_that_no_job_has_are_none(tmp_path: Path, ranks: int) -> None:
    made = Job()
    made.call("ncclCommInitRankConfig", blob(INIT, COMM, ranks, 3, 3))
    made.call("ncclAllGather", blob(SIZED, COMM, MIB), kernels=1)
    run = tt.ingest(made.sqlite(tmp_path), out=tmp_path / "run")
    assert run.kernels.filter(stream=20)["bytes"].to_list() == [None]
    assert run.signatures["ranks"].null_count() == run.signatures.height


def test_payloads_whose_entries_have_no_offsets_state_nothing(tmp_path: Path) -> None:
    path = job().sqlite(tmp_path)
    with closing(sqlite3.connect(path)) as changed:
        changed.execute("ALTER TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES DROP COLUMN offset")
        changed.commit()
    run = tt.ingest(path, out=tmp_path / "run")
    assert run.kernels.filter(stream=20)["bytes"].null_count() == len(EXPECTED)
    assert run.signatures["ranks"].null_count() == run.signatures.height
