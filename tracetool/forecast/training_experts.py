"""Experts in training: tokens are sent to them and sorted, and each expert has products of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tracetool.families import names
from tracetool.forecast.experts import Experts
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


def trained_experts(
    rows: Sequence[Row], parallel: Parallel, linked: int, *, fused: bool, part: Experts | None = None
) -> list[Row]:
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
    part : Experts, optional
        The experts of the model: whether they have biases, and limits before their activation function.

    Notes
    -----
    A token with :math:`k` experts chosen evenly reaches :math:`r = s\,(1 - (1 - 1/s)^k)` of :math:`s`
    servers. DeepEP's dispatcher sends it once to each, Megatron's all-to-all once to each expert: taken is
    the mean of :math:`r` and :math:`k`. Loads are equal, as a loss holds them. Tokens are laid out by GPU
    before they are sent and by expert once they have come, and the same backwards. What Megatron's fused
    kernels leave out it runs operator by operator: limits before the activation function are passes of their
    own over both halves, which are then joined (NVIDIA/Megatron-LM, megatron/core/fusions/
    fused_bias_geglu.py, ``weighted_bias_quick_geglu_impl``); biases of the results are weighted, added and
    joined expert by expert (megatron/core/transformer/moe/experts.py, ``TEGroupedMLP._apply_bias``).
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
            changed += _products(even, part) if fused else [even]
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


def _products(row: Row, part: Experts | None) -> list[Row]:
    """Return moves and products of the experts on one GPU, from the row that represents them."""
    module, dtype = str(row["module"]), str(row["dtype"])
    hidden, columns = float(row["hidden"]), float(row["intermediate"]) / float(row["tp"])
    pairs = float(row["tokens"]) * float(row["top_k"]) / float(row["ep"])
    experts = max(float(row["experts"]) / float(row["ep"]), 1.0)
    each = pairs / experts
    biased, clamped = (part.bias, part.clamped) if part else (False, False)
    steps = [elementwise(f"{module}.permute", _MOVES, pairs * hidden)]
    if experts > 1.0 and float(row["ep"]) > 1.0:
        steps.append(elementwise(f"{module}.sort", _MOVES, pairs * hidden))
    steps += [
        gemm(f"{module}.gate_up_proj", dtype, each, 2.0 * columns, hidden, experts),
        *([elementwise(f"{module}.clamp", _MOVES, pairs * 2.0 * columns)] * 2 if clamped else []),
        elementwise(f"{module}.act", _MOVES, pairs * columns, 2.0, 1.0, "silu+mul"),
        gemm(f"{module}.down_proj", dtype, each, hidden, columns, experts),
    ]
    if biased:
        of_each = elementwise(f"{module}.bias", _MOVES, each * hidden)
        steps += [
            {**of_each, "count": 2.0 * experts},
            elementwise(f"{module}.biased", _MOVES, pairs * hidden),
        ]
    if experts > 1.0 and float(row["ep"]) > 1.0:
        steps.append(elementwise(f"{module}.unsort", _MOVES, pairs * hidden))
    steps.append(elementwise(f"{module}.unpermute", _MOVES, pairs * hidden))
    return [{**step, "count": float(row["count"]) * float(step["count"])} for step in steps]
