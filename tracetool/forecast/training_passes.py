"""The rows of a step of training as frameworks run them: operator by operator, or in fused layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tracetool.core.errors import BadInput
from tracetool.families import names
from tracetool.families.implementations import library_of
from tracetool.forecast.case import Case, Division
from tracetool.forecast.experts import Experts
from tracetool.forecast.model import Forward, Model, Prompt, TrainingPlan
from tracetool.forecast.operator_rows import Row
from tracetool.forecast.pipeline_output import Stage
from tracetool.forecast.stage_sends import trained_sends
from tracetool.forecast.training_experts import trained_experts
from tracetool.forecast.training_memory import replicas_of_experts, weights_of
from tracetool.forecast.training_operators import training_stages

#: Libraries that run a model operator by operator, as its authors wrote it in PyTorch.
EAGER: Final = frozenset({"torch", "transformers", "huggingface"})
ATTENTION: Final = ("flash", "eager")
_SIXTEEN_BITS: Final = frozenset({"bf16", "fp16"})
#: Stages that replicas exchange in.
EXCHANGES: Final = ("gradients", "weights")


def framework_stages(
    case: Case, model: Model, plan: TrainingPlan, division: Division, stack: str, linked: int
) -> tuple[Stage, ...]:
    """Return the stages as the framework runs them: operator by operator where the model is known so.

    ``linked`` GPUs are joined by links directly.
    """
    if case.attention not in (None, *ATTENTION):
        raise BadInput(f"attention: {case.attention!r} is not known", f"known: {', '.join(ATTENTION)}")
    parallel = division.parallel
    dense, experts = weights_of(model, parallel)
    fused = library_of(stack) not in EAGER or model.eager is None or parallel.gpus > 1
    tokens = float(plan.seq_len)
    forward = Forward(0, 0, plan.micro_batch, tokens, tokens, plan.tokens / parallel.cp)
    operators = model.operators(forward, parallel, trained_sends(division.replicas))
    shared_norms = [_with_shared_norm(row, parallel.tp) for row in operators]
    experts_of = (part for group in model.groups for part in group.parts if isinstance(part, Experts))
    grouped = library_of(stack) not in EAGER
    rows = trained_experts(shared_norms, parallel, linked, fused=grouped, part=next(experts_of, None))
    heads = [r for r in rows if not layered(r) and r["op"] == names.GEMM and not _sampled(r)]
    if not fused:
        prompt = Prompt(plan.micro_batch, plan.seq_len, fused=case.attention != "eager")
        rows = [*_eager_rows(model, prompt), *heads]
    replicas = division.replicas * parallel.dp * parallel.cp
    local = replace(plan, micro_batch=plan.micro_batch // parallel.dp, replicas=replicas)
    columns = next((float(r["n"]) for r in reversed(heads) if float(r["n"]) > model.hidden), 0.0)
    stages = training_stages(rows, local, dense + experts, columns)
    shared = (_shared(stage, local, division, dense, experts, fused=fused) for stage in stages)
    return tuple(_multiplied(stage) if fused else stage for stage in shared if stage.rows)


def _multiplied(stage: Stage) -> Stage:
    """Return a stage whose products in 16 bits are cuBLAS's: every framework of fused layers calls it.

    The law of one GPU alone, which prices rows of no library, was fitted to loops too short for the power
    cap to hold as if it had held them: at a capped clock it finds an H100's tensor cores 92 to 96 % busy,
    where cuBLAS is measured to keep them 78 % busy.
    """
    return replace(stage, rows=[_by_cublas(row) for row in stage.rows])


def _by_cublas(row: Row) -> Row:
    if row["op"] != names.GEMM or row["dtype"] not in _SIXTEEN_BITS:
        return row
    return {**row, "implementation": "cublas"}


def _sampled(row: Row) -> bool:
    return str(row["module"]).startswith("sampler")


def _shared(
    stage: Stage,
    plan: TrainingPlan,
    division: Division,
    dense: float,
    experts: float,
    *,
    fused: bool,
) -> Stage:
    """Return a stage whose experts concern only the replicas with the same ones.

    GPUs that share a layer are neighbors, replicas so far apart (ranks of Megatron-LM, ``tp-cp-ep-dp-pp``).
    """
    parallel = division.parallel
    all_weights, share = dense + experts, replicas_of_experts(division)
    if stage.name in EXCHANGES:
        (row,) = stage.rows
        groups = ((dense, plan.replicas, parallel.tp), (experts, share, parallel.tp * parallel.dp))
        exchanges = [
            {
                **row,
                "bytes": float(row["bytes"]) * weights / all_weights,
                "ranks": float(ranks),
                "rank_stride": float(apart),
            }
            for weights, ranks, apart in groups
            if weights and ranks > 1
        ]
        return replace(stage, rows=exchanges)
    if stage.name != names.OPTIMIZER:
        return stage
    own_share = (dense / plan.replicas + experts / share) * plan.replicas / all_weights if plan.zero else 1.0
    rows = [{**r, "elements": float(r["elements"]) * own_share} for r in stage.rows if r["module"] != _SUMS]
    if plan.optimizer == "none":
        rows = []
    if not fused:  # libraries of fused layers add gradients up inside the product that makes them
        rows += [r for r in stage.rows if r["module"] == _SUMS]
    return replace(stage, rows=rows)


#: Pass that adds the gradients of a micro batch to those before.
_SUMS: Final = "gradients.accumulate"


def _with_shared_norm(row: Row, tp: int) -> Row:
    """Return a row of a forward pass; training frameworks share norms among the GPUs of a layer.

    That after the last layer too (sequence parallel, Korthikanti et al., 2022, section 4.2.2).
    """
    if row["op"] != names.NORM or tp == 1:
        return row
    return {**row, "rows": max(float(row["rows"]) / tp, 1.0)}


def _eager_rows(model: Model, prompt: Prompt) -> list[Row]:
    """Return the rows of a batch operator by operator, equal ones together."""
    counts: dict[tuple[tuple[str, float | str], ...], float] = {}
    for row in model.eager_operators(prompt):
        named = {**row, "module": f"layers.*.{row['module']}"}
        key = tuple((k, v) for k, v in named.items() if k != "count")
        counts[key] = counts.get(key, 0.0) + float(row["count"])
    return [{**dict(key), "count": count} for key, count in counts.items()]


def layered(row: Mapping[str, object]) -> bool:
    """Return whether a row belongs to the layers, not to what runs before or after them."""
    return str(row["module"]).startswith("layers")
