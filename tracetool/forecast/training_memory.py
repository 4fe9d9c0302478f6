"""Memory of a step of training on one GPU: weights, gradients, the optimizer's state, activations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from tracetool.core.dtype import BYTES
from tracetool.families import names
from tracetool.forecast.case import Division
from tracetool.forecast.experts import Experts
from tracetool.forecast.memory import GIB, RUNTIME_BYTES
from tracetool.forecast.model import Model, Parallel, TrainingPlan
from tracetool.forecast.operator_rows import Row
from tracetool.forecast.parts import Linear, Part

#: Bytes of state an optimizer keeps for each weight: moments in fp32 (Rajbhandari et al., ZeRO, 2020,
#: section 3.1), beside a master weight of 4 where weights have 16 bits.
_STATE: Final = {"adam": 8.0, "adamw": 8.0, "momentum": 4.0, "sgd": 0.0, "none": 0.0}


@dataclass(frozen=True)
class TrainingFootprint:
    """Memory of one GPU. [B]"""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    runtime: float = RUNTIME_BYTES

    @property
    def total(self) -> float:
        """All of it. [B]"""
        return float(sum(getattr(self, field.name) for field in fields(self)))

    def facts(self) -> dict[str, float]:
        """Return the parts of the footprint. [GiB]"""
        return {f"{field.name}_gib": getattr(self, field.name) / GIB for field in fields(self)}


def training_footprint(
    model: Model, plan: TrainingPlan, division: Division, forward: Sequence[Row], micro: int
) -> TrainingFootprint:
    """Return the memory of the GPU that uses most.

    Parameters
    ----------
    model, plan, division
        The step.
    forward : sequence of rows
        Rows of the forward pass of one micro batch on one GPU.
    micro : int
        Sequences of a micro batch on one GPU.

    Notes
    -----
    One micro batch for each pipeline stage is in flight (1F1B). ZeRO divides over the replicas the state of
    the optimizer, then gradients, then weights. GPUs that share a layer divide its tokens outside of products
    and attention (sequence parallel), and keep of what they gather for a product their own tokens alone, to
    gather the others again on the way back: all activations are divided (Korthikanti et al., 2022, section
    4.2.2).
    """
    parallel = division.parallel
    wide = plan.dtype in {"fp32", "tf32"}
    dense, experts = weights_of(model, parallel)
    weights = dense + experts
    divided = (dense / plan.replicas + experts / replicas_of_experts(division)) / weights
    shares = [divided if plan.zero >= stage else 1.0 for stage in (3, 2, 1)]
    optimizer = _STATE[plan.optimizer] + (0.0 if wide or plan.optimizer == "none" else 4.0)
    in_flight = min(parallel.pp, plan.accumulation)
    tokens = micro * plan.seq_len / parallel.cp
    between = tokens * model.hidden * BYTES["fp32" if wide else "bf16"] / parallel.tp
    saved_bytes = _saved(forward, plan, between, model.layers, _shards(model, parallel))
    return TrainingFootprint(
        weights * (4.0 if wide else 2.0) * shares[0],
        weights * BYTES[plan.gradient_dtype] * shares[1],
        weights * optimizer * shares[2],
        saved_bytes * in_flight,
    )


def weights_of(model: Model, parallel: Parallel) -> tuple[float, float]:
    """Return the number of weights on the GPU with most of them: all others, and those of experts."""

    def count(part: Part) -> float:
        undivided = part.weight_bytes(Parallel())
        return part.weight_bytes(parallel) * part.parameters / undivided if undivided else 0.0

    before, after = (sum(count(part) for part in end) for end in (model.embedding, model.head))
    dense = max(before, after) if parallel.pp > 1 else before + after
    experts = 0.0
    share = math.ceil(model.layers / parallel.pp) / model.layers
    for group in model.groups:
        for part in group.parts:
            weights = group.sets * share * count(part)
            if isinstance(part, Experts):
                experts += weights
            else:
                dense += weights
    return dense, experts


def replicas_of_experts(division: Division) -> int:
    """Return how many replicas have the same experts."""
    return max(division.replicas * division.parallel.cp, 1)


def _shards(model: Model, parallel: Parallel) -> dict[str, float]:
    """Return the share a GPU keeps of the input of each product that its GPUs gather whole. [1]

    Products whose inputs they divide by columns are not among them.
    """
    places = [("", model.embedding), ("", model.head), *((f"{g.name}.", g.parts) for g in model.groups)]
    return {
        f"{place}{part.name}": 1.0 / parallel.tp
        for place, parts in places
        for part in parts
        if isinstance(part, Linear) and part.split != "inputs"
    }


def _saved(
    rows: Sequence[Row], plan: TrainingPlan, between: float, layers: int, shards: Mapping[str, float]
) -> float:
    """Return the activations of a micro batch that the way back reads. [B]

    Every product and norm keeps its input, attention its queries, keys and values, a softmax its result,
    and an activation function its inputs (Korthikanti et al., 2022, section 4). Recomputing layers
    keeps what lies between two of them (``between``) and one whole layer. Of the inputs of some modules
    only a share is kept (``shards``).
    """
    ends = layered = 0.0
    for row in rows:
        size = _saved_by_launch(row) * float(row["count"]) * shards.get(str(row["module"]), 1.0)
        if str(row["module"]).startswith("layers"):
            layered += 0.0 if plan.recompute == "selective" and row["op"] == names.SOFTMAX else size
        else:
            ends += size
    if plan.recompute == "full":
        layered = layered / max(layers, 1) + between * layers
    return ends + layered


def _saved_by_launch(row: Row) -> float:
    """Return the bytes that one launch saves for the backward pass. [B]"""
    op, width = row["op"], BYTES.get(str(row.get("dtype", "bf16")), 2.0)
    if op == names.GEMM:
        return width * float(row["m"]) * float(row["k"]) * float(row.get("batch", 1.0))
    if op in {names.NORM, names.SOFTMAX}:
        return width * float(row["rows"]) * float(row["cols"])
    if op == names.ATTENTION:
        heads = float(row["heads"]) + 2.0 * float(row.get("kv_heads", row["heads"]))
        return width * float(row["batch"]) * float(row["q_len"]) * heads * float(row["head_dim"])
    if op == names.MOE:
        tokens = float(row["tokens"]) * float(row["top_k"]) / float(row["ep"])
        return 2.0 * tokens * (float(row["hidden"]) + 3.0 * float(row["intermediate"]) / float(row["tp"]))
    if op == names.ELEMENTWISE and str(row["module"]).endswith(("act", "product")):
        return width * float(row["elements"]) * float(row.get("reads", 1.0))
    return 0.0
