"""A step of training: its stages priced, composed with pipeline bubbles and exchanges that overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import tomli

from tracetool.core.errors import BadInput
from tracetool.families import names
from tracetool.families.implementations import library_of
from tracetool.forecast.case import Case, Division
from tracetool.forecast.figures import Figure, Forecast, Widths, parts_of
from tracetool.forecast.host import eager_host
from tracetool.forecast.memory import GIB, MEMORY_ERROR, largest_batch
from tracetool.forecast.model import Model, Parallel, TrainingPlan
from tracetool.forecast.pipeline_output import Stage
from tracetool.forecast.pricing import PassRows, PricedPass, Row
from tracetool.forecast.saturation import METHOD, saturated
from tracetool.forecast.steps import HostTime, Step
from tracetool.forecast.training_experts import EXCHANGED, exchanges_tokens
from tracetool.forecast.training_memory import TrainingFootprint, training_footprint
from tracetool.forecast.training_passes import EAGER, EXCHANGES, framework_stages, layered
from tracetool.hardware.gpu import Gpu

#: Tokens of a sequence where none is given. [tokens]
_DEFAULT_SEQ: Final = 4096.0
_TRAINED: Final = ("language", "encoder")


@dataclass(frozen=True)
class Coefficients:
    """Overhead of a training framework beside the kernels of a step; see ``training.toml``."""

    slower: float
    power: float
    overlap: float
    hidden: float
    time_sd: float
    power_sd: float
    experts_sd: float


@cache
def coefficients(stack: str) -> Coefficients:
    """Return the coefficients of a framework: those of PyTorch operator by operator, or of fused layers."""
    document = tomli.loads(Path(__file__).with_name("training.toml").read_text("utf-8"))
    entry = document["eager" if library_of(stack) in EAGER else "fused"]
    return Coefficients(
        *(
            float(entry[name]["value"])
            for name in ("slower", "power", "overlap", "hidden", "time_sd", "power_sd", "experts_sd")
        )
    )


@dataclass(frozen=True)
class StepPlan:
    """A step of training, ready to be priced."""

    case: Case
    gpu: Gpu
    plan: TrainingPlan  # of a replica
    division: Division
    sequences: int  # of one step, over all replicas
    stages: tuple[Stage, ...]
    passes: tuple[PassRows, ...]
    hosts: tuple[HostTime, ...]
    framework: Coefficients
    footprint: TrainingFootprint
    largest: float | None

    def adjusted(self, priced: PricedPass) -> PricedPass:
        """Return a priced stage as it runs among others."""
        if self.case.method == METHOD:  # efficiencies are of whole steps
            return priced
        longer = np.array([self._slower(row) for row in priced.rows], np.float64)
        return priced.scaled(longer[:, None], self.framework.power)

    def _slower(self, row: Row) -> float:
        """Return the exposed time of a row relative to that of its law."""
        if row["op"] != names.COLLECTIVE:
            return self.framework.slower
        module = str(row["module"])
        if not module.startswith("layers") or (module.endswith(EXCHANGED) and not self._overlaps_experts):
            return 1.0
        return 1.0 - self.framework.hidden

    @property
    def _overlaps_experts(self) -> bool:
        """Whether tokens are exchanged beside the products of another micro batch.

        It takes interleaved stages, which hold two at once, and is worth it where tokens leave the server.
        """
        return self.case.get("vpp", 1) > 1 and self.division.parallel.ep > self.gpu.link_ranks

    def forecast(self, steps: Sequence[Step]) -> Forecast:
        """Return the figures of a step, given its stages as they run."""
        by_name = {stage.name: (stage.runs, step) for stage, step in zip(self.stages, steps, strict=True)}
        time, joules, facts = self._step(by_name)
        experts = any(exchanges_tokens(stage.rows) for stage in self.stages)
        widths = Widths.of(
            [(runs * step.time_s, step) for runs, step in by_name.values()],
            math.hypot(self.framework.time_sd, self.framework.experts_sd if experts else 0.0),
            self.framework.power_sd,
        )
        gpus = self.division.gpus
        power = joules / time * gpus
        cap_w = self.case.get("power_cap_w", self.gpu.power_limit_w)
        memory = self.footprint.total / GIB
        figures = {
            "step_ms": widths.timed(time * 1e3),
            "tokens_per_s": widths.rated(self.sequences * self.plan.seq_len / time),
            "power_w": widths.powered(power, cap_w * gpus),
            "energy_per_token_j": widths.spent(power * time / (self.sequences * self.plan.seq_len)),
            "energy_per_item_j": widths.spent(power * time / self.sequences),
            "memory_gib": Figure.of(memory, MEMORY_ERROR, MEMORY_ERROR),
        }
        busy = sum(runs * step.kernel_s for runs, step in by_name.values()) or 1.0
        covered = sum(runs * step.kernel_s * step.covered for runs, step in by_name.values()) / busy
        parts = tuple(part for runs, step in by_name.values() for part in parts_of(step, runs))
        clock = min(step.clock_mhz for step in steps)
        notes = _beyond(self.footprint, self.gpu, self.plan.zero)
        facts |= self.footprint.facts()
        return Forecast(figures, covered, clock, gpus, self.largest, parts, facts, notes)

    def _step(self, by_name: dict[str, tuple[float, Step]]) -> tuple[float, float, dict[str, float]]:
        r"""Return the time of a step, the energy of one GPU in it, and where the time goes.

        Notes
        -----
        With :math:`m` micro batches over :math:`p` stages of :math:`v` interleaved parts (Narayanan et al.,
        2021, section 2.2), and :math:`o` the share of the passes exchanges may overlap

        .. math:: T = \left(m + \frac{p - 1}{v}\right) t_m + \max(t_x - o\,t_m, 0) + t_o
        """
        passes = [by_name[name] for name in ("forward", "recompute", "backward") if name in by_name]
        micro = sum(step.time_s for _, step in passes)
        runs = float(self.plan.accumulation)
        stages, virtual_stages = self.division.parallel.pp, self.case.get("vpp", 1)
        bubble = (stages - 1) / virtual_stages * micro
        hidden_under = micro * (runs if self.plan.zero == 3 else 1.0)
        exchange = sum(n * s.time_s for name, (n, s) in by_name.items() if name in EXCHANGES)
        exposed = max(exchange - self.framework.overlap * hidden_under, 0.0)
        optimizer = by_name[names.OPTIMIZER][1] if names.OPTIMIZER in by_name else None
        closing = optimizer.time_s if optimizer else 0.0
        idle = passes[0][1].idle_w
        joules = sum(n * self._stage_j(s) for n, s in passes) + (bubble + exposed - exchange) * idle
        joules += sum(n * s.energy_j for name, (n, s) in by_name.items() if name in EXCHANGES)
        joules += optimizer.energy_j if optimizer else 0.0
        facts = {f"{name}_ms": n * s.time_s * 1e3 for name, (n, s) in by_name.items()}
        facts |= {"bubble_ms": bubble * 1e3, "exposed_exchange_ms": exposed * 1e3}
        return runs * micro + bubble + exposed + closing, joules, facts

    def _stage_j(self, step: Step) -> float:
        """Return the mean energy of the GPUs of a pipeline in one pass: one stage has the logits. [J]"""
        share = 1.0 - 1.0 / self.division.parallel.pp
        ends = np.array([not layered(row) for row in step.priced.rows], np.bool_)
        saved = float(step.row_j[ends].sum()) - step.idle_w * float(step.row_s[ends].sum())
        return step.energy_j - share * saved


def divide_training(case: Case) -> Division:
    """Return how the GPUs of a case divide a step: experts are divided over ``ep`` GPUs of ``tp x dp``.

    ``gpus`` beyond ``tp x pp x cp`` are replicas, as ``dp`` states them.

    Raises
    ------
    BadInput
        If the GPUs cannot be divided so.

    Examples
    --------
    >>> divide_training(Case(tp=2, pp=8, gpus=256, ep=32)).parallel.dp
    16
    """
    tp, pp, cp, ep = (int(case.get(name, 1)) for name in ("tp", "pp", "cp", "ep"))
    each = tp * pp * cp
    dp = int(case.get("dp", max((case.gpus or each) // each, 1)))
    stated = case.dp or 1  # replicas nobody stated are what is left
    if case.gpus is not None and case.gpus % (each * stated):
        raise BadInput(
            f"gpus: {case.gpus} is not a multiple of {_product(case)}", "leave it out, or give a multiple"
        )
    if case.gpus is not None:
        dp = case.gpus // each
    if ep > tp and (ep % tp or (dp * cp * tp) % ep):
        raise BadInput(
            f"ep: {ep} does not divide the {tp * dp * cp} GPUs of tp x dp x cp, or is no multiple of tp",
            "give an ep that is a multiple of tp and divides them",
        )
    group = min(max(ep // tp, 1), dp)
    parallel = Parallel(tp=tp, pp=pp, dp=group, ep=ep if group > 1 or ep <= tp else tp, cp=cp)
    return Division(parallel, dp // group if dp % group == 0 else 1)


def _product(case: Case) -> str:
    """Return the stated sizes that GPUs are divided by, as their product: ``tp x pp = 8``."""
    sizes = {name: int(case.get(name, 1)) for name in ("tp", "pp", "cp", "dp")}
    named = [name for name, size in sizes.items() if size > 1]
    return f"{' x '.join(named)} = {math.prod(sizes.values())}"


def plan_training(case: Case, model: Model, gpu: Gpu, division: Division, clock_mhz: float) -> StepPlan:
    """Return the stages of a step of training.

    Raises
    ------
    BadInput
        If a number does not fit the others; the field is named.
    """
    if model.kind not in _TRAINED:
        raise BadInput(
            f"mode: train forecasts no {model.kind} models", f"it forecasts {' and '.join(_TRAINED)}"
        )
    parallel, stack = division.parallel, case.stack or "megatron"
    replicas = parallel.dp * division.replicas
    micro, sequences = (
        _whole_number(case, "bs", 1.0),
        _whole_number(case, "gbs", case.get("bs", 1.0) * replicas),
    )
    if sequences % (micro * replicas):
        raise BadInput(
            f"gbs: {sequences} is not a multiple of bs x replicas = {micro * replicas}",
            "sequences of a step are divided over replicas and micro batches",
        )
    if case.optimizer == "none" and case.zero is None:
        case = replace(case, zero=0)
    plan = TrainingPlan(
        micro_batch=micro * parallel.dp,
        seq_len=_whole_number(case, "seq", _DEFAULT_SEQ),
        accumulation=sequences // (micro * replicas),
        replicas=division.replicas * parallel.cp * parallel.dp,
        zero=int(case.get("zero", 1)),
        optimizer=case.optimizer or "adamw",
        recompute=case.recompute or "none",  # type: ignore[arg-type]
        dtype=case.dtype or "",
        gradient_dtype="fp32" if case.dtype in {"fp32", "tf32"} else "bf16",
    )
    stages = framework_stages(case, model, plan, division, stack, gpu.link_ranks)
    method = saturated if case.method == METHOD else None
    passes = tuple(
        PassRows(s.rows, gpu, _library(stack), clock_mhz, case.mem_clock_mhz, method) for s in stages
    )
    hosts = tuple(_host(case, stage) for stage in stages)
    footprint = training_footprint(model, plan, division, stages[0].rows, micro)
    fixed = footprint.total - footprint.activations
    most = largest_batch(gpu.memory_bytes, fixed, footprint.activations / micro, share=1.0)
    return StepPlan(
        case, gpu, plan, division, sequences, stages, passes, hosts, coefficients(stack), footprint, most
    )


def _beyond(footprint: TrainingFootprint, gpu: Gpu, zero: int) -> tuple[str, ...]:
    """Return a note where a step does not fit a GPU's memory, with what would make it fit.

    No error: what published runs recompute or keep elsewhere is rarely stated, and some would be refused.
    """
    if footprint.total <= gpu.memory_bytes:
        return ()
    lasting_bytes = footprint.total - footprint.activations
    if lasting_bytes <= gpu.memory_bytes:
        fix = (
            f"{footprint.activations / GIB:.0f} are activations: a smaller --bs, --recompute full, more --tp"
        )
    else:
        more = "more --tp or --pp" + ("" if zero == _WEIGHTS_TOO else ", or --dp with --zero 3")
        fix = f"{lasting_bytes / GIB:.0f} are weights, gradients and the optimizer's state: {more}"
    excess = (
        f"{footprint.total / GIB:.0f} GiB do not fit the {gpu.memory_bytes / GIB:.0f} GiB of a {gpu.name}"
    )
    return (f"{excess}; {fix}",)


def _host(case: Case, stage: Stage) -> HostTime:
    """Return the host's time of a stage: it waits for the counts of tokens that each layer's experts get.

    So on the way forth no launch is issued ahead of the layer that runs; the way back knows the counts.
    """
    host = eager_host(case, stage.rows)
    if stage.name != "forward" or not exchanges_tokens(stage.rows):
        return host
    return HostTime(before_s=host.beside_s)


#: Stage of ZeRO that divides weights too. [1] By definition (Rajbhandari et al., 2020, section 5).
_WEIGHTS_TOO: Final = 3


def _library(stack: str) -> str:
    return "torch" if library_of(stack) in EAGER else ""


def _whole_number(case: Case, name: str, default: float) -> int:
    value = case.get(name, default)
    if value != int(value):
        raise BadInput(f"{name}: {value:g} is not a whole number")
    return int(value)
