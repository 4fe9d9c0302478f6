"""A step of training from the rows of a forward pass: backward, recomputation, gradients, optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tracetool.core.dtype import BYTES
from tracetool.core.errors import BadInput
from tracetool.families import names
from tracetool.forecast.operator_rows import Row, collective, elementwise, softmax
from tracetool.forecast.pipeline_output import Stage
from tracetool.forecast.training_experts import MOVED

#: Tensors of fp32 an optimizer's step reads and writes for each weight, gradient and master among them.
_OPTIMIZERS: Final = {
    "adam": (4.0, 3.0),
    "adamw": (4.0, 3.0),
    "momentum": (3.0, 2.0),
    "sgd": (2.0, 1.0),
    "none": (0.0, 0.0),
}
#: Collective of the way back for that of the forward pass.
_REVERSED: Final = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather"}
#: Passes of the way back over a forward pass, for operators whose gradients are no rows of their own: both
#: gradients of each product; latent attention as fused attention, which recomputes its scores (Dao, 2023).
_BACKWARD: Final = {names.MOE: 2.0, "mla": 2.5, "mamba2": 2.0, "gdn": 2.0}
_WHOLE: Final = {"bf16", "fp16", "fp32"}
#: Formats of products alone; everything between them stays in bf16.
_NARROW: Final = {"fp8", "mxfp8", "nvfp4"}
#: Products that stay in 16 bits where others take 8: logits and routers, as recipes of Transformer Engine
#: leave them.
_WIDE: Final = ("lm_head", "router", "predictions")


@dataclass(frozen=True)
class TrainingPlan:
    """Work of one replica in a training step, and its division.

    Parameters
    ----------
    micro_batch : int
        Sequences of one pass.
    seq_len : int
        Tokens of a sequence.
    accumulation : int
        Passes before the optimizer's step: with pipeline stages, the micro batches in flight.
    replicas : int
        Replicas that average their gradients (data parallel).
    zero : int
        What replicas divide among themselves: 0 nothing, 1 the optimizer's state, 2 gradients too, 3 weights
        too (FSDP's full sharding).
    optimizer : str
        ``adamw``, ``adam``, ``momentum`` or ``sgd``; ``none`` leaves the step out.
    recompute : str
        What the way back computes again: ``none``, ``selective`` (attention), ``full`` (every layer).
    dtype : str
        Number format of activations and products: ``bf16``, ``fp16``, ``fp32`` or ``tf32``; ``fp8``,
        ``mxfp8`` and ``nvfp4`` of products, all else in bf16; empty for the model's own.
    gradient_dtype : str
        Number format gradients are exchanged in.

    Raises
    ------
    BadInput
        If a number or word is not one of these; the field is named.
    """

    micro_batch: int = 1
    seq_len: int = 1024
    accumulation: int = 1
    replicas: int = 1
    zero: int = 0
    optimizer: str = "adamw"
    recompute: Literal["none", "selective", "full"] = "none"
    dtype: str = ""
    gradient_dtype: str = "fp32"

    def __post_init__(self) -> None:
        for name in ("micro_batch", "seq_len", "accumulation", "replicas", "zero"):
            value, least = getattr(self, name), 0 if name == "zero" else 1
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= 10**9:
                raise BadInput(f"{name}: {value!r} is not a whole number of at least {least}")
        words = {
            "zero": (0, 1, 2, 3),
            names.OPTIMIZER: tuple(_OPTIMIZERS),
            "recompute": ("none", "selective", "full"),
            "dtype": ("", "bf16", "fp16", "fp32", "tf32", *sorted(_NARROW)),
            "gradient_dtype": ("bf16", "fp16", "fp32"),
        }
        for name, allowed in words.items():
            if getattr(self, name) not in allowed:
                raise BadInput(f"{name}: {getattr(self, name)!r} is none of {', '.join(map(str, allowed))}")

    @property
    def tokens(self) -> int:
        """Tokens of one pass of one replica."""
        return self.micro_batch * self.seq_len


def training_stages(
    rows: Sequence[Row], plan: TrainingPlan, weights: float, vocabulary: float
) -> tuple[Stage, ...]:
    """Return the stages of a training step as one GPU runs them.

    Parameters
    ----------
    rows : sequence of rows
        Rows of a forward pass over one micro batch; those that serve alone are left out.
    plan : TrainingPlan
        The step.
    weights : float
        Weights on one GPU.
    vocabulary : float
        Columns of logits on one GPU; 0 without logits.
    """
    forward = [formatted for row in rows if not _serves(row) for formatted in _formatted(row, plan.dtype)]
    if vocabulary:
        forward.append(softmax("loss.softmax", "fp32", plan.tokens, vocabulary))
    layers = [row for row in forward if str(row["module"]).startswith("layers")]
    recomputed = {
        "none": [],
        "selective": [row for row in layers if row["op"] in {names.ATTENTION, "mla"}],
        "full": layers,
    }[plan.recompute]
    backward = [gradient for row in reversed(forward) for gradient in _gradients(row)]
    runs = float(plan.accumulation)
    stages = [Stage("forward", runs, forward)]
    if recomputed:
        stages.append(Stage("recompute", runs, [dict(row) for row in recomputed]))
    stages.append(Stage("backward", runs, backward))
    stages += _exchange(plan, weights)
    stages.append(Stage(names.OPTIMIZER, 1.0, _step(plan, weights)))
    return tuple(stages)


def _serves(row: Row) -> bool:
    """Whether a row belongs to serving alone: caches, and the choice of a token."""
    module = str(row["module"])
    return module.startswith("sampler.") or module.endswith((".cache", ".quantize"))


def _formatted(row: Row, dtype: str) -> list[Row]:
    """Return a row in the step's number format; tf32 and the narrow ones are of products alone.

    Weights of a quantized model are trained in 16 bits. A product in 8 bits has a row before it that writes
    its input in 8 bits twice: as it is, and turned for the gradient of the weights.
    """
    row_dtype = str(row.get("dtype", ""))
    if not row_dtype or row["op"] == names.COLLECTIVE or (row_dtype == "fp32" and row["op"] == names.SOFTMAX):
        return [dict(row)]
    product = row["op"] in {names.GEMM, names.MOE}
    if not dtype and row_dtype not in _WHOLE:
        dtype = "bf16"
    if not dtype:
        return [dict(row)]
    narrow = dtype in _NARROW
    if not product or (narrow and any(word in str(row["module"]) for word in _WIDE)):
        dtype = "bf16" if narrow else "fp32" if dtype == "tf32" else dtype
    in_dtype = {**row, "dtype": dtype, **({"kv_dtype": dtype} if "kv_dtype" in row else {})}
    if dtype not in _NARROW:
        return [in_dtype]
    cast = elementwise(f"{row['module']}.{_CAST}", "bf16", _inputs(row))
    return [{**cast, "count": row["count"]}, in_dtype]


#: What a pass that writes a tensor in 8 bits is called.
_CAST: Final = "cast"


def _inputs(row: Row) -> float:
    """Return the numbers a product takes in; of experts, those of both products."""
    if row["op"] == names.GEMM:
        return float(row["m"]) * float(row["k"]) * float(row.get("batch", 1.0))
    tokens = float(row["tokens"]) * float(row["top_k"]) / float(row["ep"])
    return tokens * (float(row["hidden"]) + float(row["intermediate"]) / float(row["tp"]))


def _gradients(row: Row) -> list[Row]:
    """Return the rows of the way back for one of the forward pass."""
    rule = _RULES.get(str(row["op"]))
    if rule:
        return rule(row)
    factor = _BACKWARD.get(str(row["op"]), 1.0)
    return [{**row, "count": float(row["count"]) * factor}]


def _product(row: Row) -> list[Row]:
    """Gradients of the input and of the weights: two products as large as the forward one."""
    m, n, k, module = row["m"], row["n"], row["k"], row["module"]
    return [
        {**row, "module": f"{module}.input_gradient", "n": k, "k": n},
        {**row, "module": f"{module}.weight_gradient", "m": n, "n": k, "k": m},
    ]


def _passes(row: Row) -> list[Row]:
    """Return a pass that reads results' gradients and inputs, and writes inputs' gradients."""
    if str(row["module"]).endswith(MOVED):
        return [row]
    reads, writes = float(row.get("reads", 1.0)), float(row.get("writes", 1.0))
    return [{**row, "reads": reads + writes, "writes": reads}]


def _attended(row: Row) -> list[Row]:
    return [{**row, "phase": "backward"}]


def _communicated(row: Row) -> list[Row]:
    kind = str(row["kind"])
    if str(row["module"]).startswith("embed"):
        return []  # gradients of rows stay where the rows are
    return [{**row, "kind": _REVERSED.get(kind, kind)}]


_RULES: Final[dict[str, Callable[[Row], list[Row]]]] = {
    names.GEMM: _product,
    names.ELEMENTWISE: _passes,
    names.NORM: _passes,
    names.ATTENTION: _attended,
    names.COLLECTIVE: _communicated,
}


def _exchange(plan: TrainingPlan, weights: float) -> list[Stage]:
    """Return the stages of the exchange among replicas (Rajbhandari et al., ZeRO, 2020, section 7)."""
    if plan.replicas == 1:
        return []
    gradients = weights * BYTES[plan.gradient_dtype]
    copies = weights * BYTES["fp32" if plan.dtype in {"fp32", "tf32"} else "bf16"]
    if plan.zero == 0:
        row = collective("gradients", "all_reduce", gradients, plan.replicas)
        return [Stage("gradients", 1.0, [row])]
    scattered = collective("gradients", "reduce_scatter", gradients, plan.replicas)
    gathered = collective("weights", "all_gather", copies, plan.replicas)
    if plan.zero < 3:
        return [Stage("gradients", 1.0, [scattered]), Stage("weights", 1.0, [gathered])]
    runs = float(plan.accumulation)
    return [Stage("gradients", runs, [scattered]), Stage("weights", 2.0 * runs, [gathered])]


def _step(plan: TrainingPlan, weights: float) -> list[Row]:
    """Return the optimizer's step: the norm of all gradients, and one pass over lists of tensors."""
    own_weights = weights / (plan.replicas if plan.zero else 1)
    reads, writes = _OPTIMIZERS[plan.optimizer]
    narrow = 0.0 if plan.dtype in {"fp32", "tf32"} else 0.5  # weights of 16 bits beside their masters
    rows = [
        elementwise("optimizer.gradient_norm", "fp32", own_weights, 1.0, 0.0),
        elementwise("optimizer.step", "fp32", own_weights, reads, writes + narrow),
    ]
    if plan.accumulation > 1:
        summed = elementwise("gradients.accumulate", "fp32", weights, 2.0, 1.0)
        summed["count"] = float(plan.accumulation - 1)
        rows.insert(0, summed)
    return rows
