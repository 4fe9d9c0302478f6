"""Images and videos of a diffusion pipeline: its stages priced, run one after the other by a framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.errors import BadInput
from tracetool.forecast.case import Case, Division
from tracetool.forecast.engine import Eager, eager_of
from tracetool.forecast.figures import Figure, Forecast, Widths, parts_of
from tracetool.forecast.host import eager_host
from tracetool.forecast.memory import (
    GIB,
    MEMORY_ERROR,
    RUNTIME_BYTES,
    Footprint,
    activation_bytes,
    largest_batch,
)
from tracetool.forecast.model import Model
from tracetool.forecast.pipeline_output import Canvas, SequenceRanks, Stage
from tracetool.forecast.pricing import PassRows, PricedPass
from tracetool.forecast.steps import HostTime, Step
from tracetool.hardware.gpu import Gpu

#: What one batch makes where nothing is stated.
_DEFAULTS: Final = Canvas()
#: Stage that one GPU of an image pipeline runs while the others wait.
_DECODER: Final = "vae"


@dataclass(frozen=True)
class GenerationPlan:
    """A batch of images or films, ready to be priced."""

    case: Case
    gpu: Gpu
    canvas: Canvas
    ranks: SequenceRanks
    replicas: int
    stages: tuple[Stage, ...]
    passes: tuple[PassRows, ...]
    hosts: tuple[HostTime, ...]
    eager: Eager
    footprint: Footprint
    largest: float | None

    def adjusted(self, priced: PricedPass) -> PricedPass:
        """Return a priced stage as it runs among others."""
        longer = np.array([self.eager.slowed(str(family)) for family in priced.family])[:, None]
        # what takes longer here does more than its operators list: it costs as much more
        return priced.scaled(longer, longer * self.eager.power)

    def forecast(self, steps: Sequence[Step]) -> Forecast:
        """Return the figures of a batch, given its stages as they run."""
        runs = [stage.runs for stage in self.stages]
        time = sum(n * s.time_s for n, s in zip(runs, steps, strict=True))
        joules = sum(
            n * self._stage_j(stage, s) for n, stage, s in zip(runs, self.stages, steps, strict=True)
        )
        weighted_steps = [(n * s.time_s, s) for n, s in zip(runs, steps, strict=True)]
        widths = Widths.of(weighted_steps, self.eager.time_sd, self.eager.power_sd)
        gpus = self.ranks.gpus * self.replicas
        cap_w = self.case.get("power_cap_w", self.gpu.power_limit_w)
        memory = self.footprint.total / GIB
        figures = {
            "step_ms": widths.timed(time * 1e3),
            "power_w": widths.powered(joules / time * self.replicas, cap_w * gpus),
            "energy_per_item_j": widths.spent(joules / self.canvas.batch),
            "memory_gib": Figure.of(memory, MEMORY_ERROR, MEMORY_ERROR),
        }
        busy = sum(n * s.kernel_s for n, s in zip(runs, steps, strict=True)) or 1.0
        covered = sum(n * s.kernel_s * s.covered for n, s in zip(runs, steps, strict=True)) / busy
        facts = {
            f"{stage.name}_ms": n * s.time_s * 1e3
            for n, stage, s in zip(runs, self.stages, steps, strict=True)
        }
        operators = [p for n, s in zip(runs, steps, strict=True) for p in parts_of(s, n)]
        clock = min(s.clock_mhz for s in steps)
        return Forecast(figures, covered, clock, gpus, self.largest, tuple(operators), facts)

    def _stage_j(self, stage: Stage, step: Step) -> float:
        """Return the energy of all GPUs of a batch in one run of a stage. [J]"""
        gpus = self.ranks.gpus
        if stage.name != _DECODER or self.canvas.frames > 1:
            return gpus * step.energy_j
        return step.energy_j + (gpus - 1) * step.idle_w * step.time_s


def plan_generation(
    case: Case, model: Model, gpu: Gpu, division: Division, clock_mhz: float
) -> GenerationPlan:
    """Return the stages of a batch of a diffusion pipeline.

    Raises
    ------
    BadInput
        If the model is no pipeline, or the canvas or the division does not fit.
    """
    canvas = Canvas(
        *(int(case.get(name, value)) for name, value in (
            ("bs", _DEFAULTS.batch), ("height", _DEFAULTS.height), ("width", _DEFAULTS.width),
            ("frames", _DEFAULTS.frames), ("steps", _DEFAULTS.steps),
        ))
    )  # fmt: skip
    shared = int(case.get("sp", 1))
    ranks, stages = _divided(model, canvas, shared)
    replicas = max(division.gpus // shared, 1)
    stack = case.stack or "torch"
    passes = tuple(PassRows(s.rows, gpu, stack, clock_mhz, case.mem_clock_mhz) for s in stages)
    eager = eager_of(stack, gpu.architecture)
    hosts = tuple(eager_host(case, stage.rows, eager.launches) for stage in stages)
    weights = model.weight_bytes(division.parallel)
    activations = max(activation_bytes(stage.rows) for stage in stages)
    footprint = Footprint(weights, 0.0, activations)
    if footprint.weights + RUNTIME_BYTES > gpu.memory_bytes:
        raise BadInput(
            f"gpu: {weights / GIB:.0f} GiB of weights do not fit the {gpu.memory_bytes / GIB:.0f} GiB of a "
            f"{gpu.name}",
            "each GPU holds the pipeline whole",
        )
    each = activations / canvas.batch
    of_one = largest_batch(gpu.memory_bytes, weights + RUNTIME_BYTES, each, share=1.0)
    most = None if of_one is None else of_one * replicas
    return GenerationPlan(case, gpu, canvas, ranks, replicas, stages, passes, hosts, eager, footprint, most)


def _divided(model: Model, canvas: Canvas, gpus: int) -> tuple[SequenceRanks, tuple[Stage, ...]]:
    """Return the division with most GPUs that exchange heads; a ring passes keys where none divides."""
    fault: BadInput | None = None
    for ring in (n for n in range(1, gpus + 1) if gpus % n == 0):
        ranks = SequenceRanks(gpus // ring, ring)
        try:
            return ranks, model.pipeline(canvas, ranks)
        except BadInput as error:
            fault = fault or error
    assert fault is not None
    raise fault
