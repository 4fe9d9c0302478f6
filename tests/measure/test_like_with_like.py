"""A comparison says when a kernel ran after other work on one side than on the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl

from tracetool.compare.diff import context_changes


def _side(order: list[int], basis: str = "measured") -> Any:
    """A run of kernels of 1 ms back to back: 0 heavy, 1 light, -1 an idle time of 20 ms."""
    now, rows = 0, []
    for kind in order:
        if kind < 0:
            now += 20_000_000
            continue
        rows.append((kind, 0, now, 1_000_000))
        now += 1_001_000
    kernels = pl.DataFrame(
        rows, schema=["signature", "device", "start_ns", "duration_ns"], orient="row"
    ).with_columns(pl.col("signature").cast(pl.Int64))
    signatures = pl.DataFrame({"signature": [0, 1], "name": ["heavy", "light"]})
    classes = pl.DataFrame({"name": ["heavy", "light"], "time_s": [1.0, 1.0], "energy_j": [700.0, 300.0]})
    run = SimpleNamespace(kernels=kernels, signatures=signatures)
    return SimpleNamespace(
        run=run, basis=basis, signatures=pl.Series([0, 1]), classes=SimpleNamespace(classes=classes)
    )


AFTER_HEAVY = [*[0] * 20, 1] * 10
APART = [*[0] * 20, -1, 1, -1] * 10


def test_a_kernel_moved_from_behind_heavy_ones_is_named() -> None:
    said = context_changes([_side(AFTER_HEAVY)], [_side(APART)])
    assert len(said) == 1
    assert said[0].startswith("light ran after-heavy (100% of its time) in base, isolated")


def test_the_same_order_on_both_sides_says_nothing() -> None:
    assert context_changes([_side(APART)], [_side(APART)]) == []


def test_modeled_energies_hold_no_history() -> None:
    assert context_changes([_side(AFTER_HEAVY, "anchored")], [_side(APART, "anchored")]) == []
