"""Experts in training: tokens are sent to them and sorted, and each expert has products of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tracetool.families import names
from tracetool.forecast.operator_rows import Row, collective, elementwise, gemm
from tracetool.forecast.passes import Parallel

#: What rows that only move tokens end in: their way back is the same move the other way round.
MOVED: Final = (".permute", ".sort", ".unsort", ".unpermute")
#: What rows that exchange tokens among the GPUs of the experts end in.
EXCHANGED: Final = (".dispatch", ".combine")
#: Share of a token's copies for further experts of a server that are sent to it beside the first. [1] A
#: prior: none with DeepEP's dispatcher, all with Megatron's all-to-all; runs do not state which they used.
_COPIES_SENT: Final = 0.5
#: Number format of tokens between products.
_MOVES: Final = "bf16"


def trained_experts(rows: Sequence[Row], parallel: Parallel, linked: int, *, fused: bool) -> list[Row]:
    r"""Return rows of a forward pass whose experts are those of training.

    Parameters
    ----------
    rows : sequence of rows
        Rows of a pass as one GPU runs it.
    parallel : Parallel
        The division.
    linked : int
        GPUs that links join directly: those of a server, or of a rack.
    fused : bool
        Whether experts are products one beside another between passes that sort their tokens, as Megatron
        runs them; otherwise one operator stands for them.

    Notes
    -----
    A token with :math:`k` experts chosen evenly reaches :math:`r = s\,(1 - (1 - 1/s)^k)` of :math:`s`
    servers. DeepEP's dispatcher sends it once to each, Megatron's all-to-all once to each expert: taken is
    the mean of :math:`r` and :math:`k`. Loads are equal, as a loss holds them. Tokens are laid out by GPU
    before they are sent and by expert once they have come, and the same backwards.
    """
    chosen = next((float(row["top_k"]) for row in rows if row["op"] == names.MOE), 0.0)
    if not chosen:
        return list(rows)
    changed: list[Row] = []
    for row in rows:
        if row["op"] == names.COLLECTIVE and str(row["module"]).endswith(EXCHANGED):
            changed.append(_exchanged(row, parallel, linked, chosen))
        elif row["op"] == names.MOE:
            even: Row = {**row, "distribution": "balanced"}
            changed += _products(even) if fused else [even]
        else:
            changed.append(row)
    return changed


def exchanges_tokens(rows: Sequence[Row]) -> bool:
    """Return whether GPUs exchange tokens for their experts in these rows."""
    return any(str(row["module"]).endswith(EXCHANGED) for row in rows)


def _exchanged(row: Row, parallel: Parallel, linked: int, chosen: float) -> Row:
    """Return an exchange between experts that sends each token to its experts alone, not to all GPUs."""
    servers, ranks = max(parallel.ep / max(linked, 1), 1.0), float(row["ranks"])
    reached = chosen if servers <= 1.0 else servers * (1.0 - (1.0 - 1.0 / servers) ** chosen)
    once = min(reached, ranks)
    sent_copies = once + _COPIES_SENT * (chosen - reached)
    message = float(row["bytes"]) / ranks * sent_copies / parallel.tp
    sent = collective(str(row["module"]), "all_to_all", message, float(parallel.ep))
    return {**sent, "count": row["count"]}


def _products(row: Row) -> list[Row]:
    """Return moves and products of the experts on one GPU, from the row that represents them."""
    module, dtype = str(row["module"]), str(row["dtype"])
    hidden, columns = float(row["hidden"]), float(row["intermediate"]) / float(row["tp"])
    pairs = float(row["tokens"]) * float(row["top_k"]) / float(row["ep"])
    experts = max(float(row["experts"]) / float(row["ep"]), 1.0)
    each = pairs / experts
    steps = [elementwise(f"{module}.permute", _MOVES, pairs * hidden)]
    if experts > 1.0 and float(row["ep"]) > 1.0:
        steps.append(elementwise(f"{module}.sort", _MOVES, pairs * hidden))
    steps += [
        gemm(f"{module}.gate_up_proj", dtype, each, 2.0 * columns, hidden, experts),
        elementwise(f"{module}.act", _MOVES, pairs * columns, 2.0, 1.0, "silu+mul"),
        gemm(f"{module}.down_proj", dtype, each, hidden, columns, experts),
    ]
    if experts > 1.0 and float(row["ep"]) > 1.0:
        steps.append(elementwise(f"{module}.unsort", _MOVES, pairs * hidden))
    steps.append(elementwise(f"{module}.unpermute", _MOVES, pairs * hidden))
    return [{**step, "count": row["count"]} for step in steps]
