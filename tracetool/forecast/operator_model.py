"""A model given as its operators: an operator table, or an exported graph; and the forecast of one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from tracetool.core.errors import BadInput
from tracetool.forecast import onnx_graph, torch_graph
from tracetool.forecast.case import SINGLE, Case, Division
from tracetool.forecast.exported import rows_of
from tracetool.forecast.figures import Figure, Forecast, Widths, parts_of
from tracetool.forecast.host import eager_host
from tracetool.forecast.memory import GIB, MEMORY_ERROR, RUNTIME_BYTES, activation_bytes
from tracetool.forecast.model import Model
from tracetool.forecast.pricing import PassRows, PricedPass, Row
from tracetool.forecast.steps import HostTime, Step, makespan_s
from tracetool.hardware.gpu import Gpu
from tracetool.replay.host import host_costs
from tracetool.replay.operator_tables import load_table, read_table

TABLES: Final = (".parquet", ".csv", ".jsonl", ".ndjson")
_ONNX, _TORCH = ".onnx", ".pt2"
GRAPHS: Final = (_ONNX, _TORCH)
OPERATORS: Final = "operators"
#: Tokens of a sequence that open dimensions of a graph stand for where none are stated. [tokens]
_DEFAULT_LENGTH: Final = 128.0
#: What passes of one kind err by in common, of time and of power. [ln] A table's own: its rows' intervals.
_COMMON_SD: Final = 0.0


@dataclass(frozen=True)
class OperatorModel(Model):
    """A model of which only the operators of a pass are known.

    Parameters
    ----------
    build : callable
        Returns the rows of a pass of so many sequences and tokens of each.
    weights : float or None
        Bytes of its weights, None where they are not stated. [B]
    """

    build: Callable[[int, int], list[Row]] | None = field(default=None, repr=False)
    weights: float | None = None


def read_operators(path: Path) -> OperatorModel:
    """Return the model of an operator table (``.parquet .csv .jsonl``) or a graph (``.onnx``, ``.pt2``).

    Raises
    ------
    BadInput
        If the file cannot be read or is no such table.
    MissingPart
        If the package that reads the graph is not installed.
    """
    suffix = path.suffix.lower()
    if suffix == _ONNX:
        graph = onnx_graph.read_onnx(path)
        weights: float | None = onnx_graph.weight_bytes(graph)

        def build(batch: int, length: int) -> list[Row]:
            return list(rows_of(onnx_graph.calls_of(path, graph, batch, length)))

    elif suffix == _TORCH:
        program = torch_graph.read_torch(path)
        weights = torch_graph.weight_bytes(program)

        def build(batch: int, length: int) -> list[Row]:
            return list(rows_of(torch_graph.calls_of(program, batch, length)))

    else:
        weights = None
        frame = load_table(path)
        if read_table(frame).kind != OPERATORS:
            raise BadInput.in_file(path, "is no operator table", "one row per operator, column op")
        rows = [{k: v for k, v in row.items() if v is not None} for row in frame.iter_rows(named=True)]

        def build(batch: int, length: int) -> list[Row]:  # noqa: ARG001  # a table states its sizes
            return [{"count": 1.0, **row} for row in rows]

    model = Model.of(path.name, OPERATORS, OPERATORS, (), hidden=0)
    fields = {name: getattr(model, name) for name in Model.__dataclass_fields__}
    return OperatorModel(**fields, build=build, weights=weights)


@dataclass(frozen=True)
class OperatorPlan:
    """A pass of operators, ready to be priced."""

    case: Case
    gpu: Gpu
    batch: float
    weights: float | None
    passes: tuple[PassRows, ...]
    hosts: tuple[HostTime, ...]

    def adjusted(self, priced: PricedPass) -> PricedPass:
        """Return the pass as it is: a table's rows are the kernels that ran."""
        return priced

    def forecast(self, steps: Sequence[Step]) -> Forecast:
        """Return the figures of a pass."""
        step = steps[0]
        widths = self._with_host(Widths.of([(step.time_s, step)], _COMMON_SD, _COMMON_SD), step)
        cap_w = self.case.get("power_cap_w", self.gpu.power_limit_w)
        figures = {
            "step_ms": widths.timed(step.time_s * 1e3),
            "power_w": widths.powered(step.power_w, cap_w),
            "energy_per_item_j": widths.spent(step.energy_j / self.batch),
        }
        if self.weights is not None:
            memory_gib = (self.weights + activation_bytes(self.passes[0].rows) + RUNTIME_BYTES) / GIB
            figures["memory_gib"] = Figure.of(memory_gib, MEMORY_ERROR, MEMORY_ERROR)
        return Forecast(figures, step.covered, step.clock_mhz, 1, None, tuple(parts_of(step, 1.0)))

    def _with_host(self, widths: Widths, step: Step) -> Widths:
        """Return widths with those of a host that was not stated, where the step waits for it."""
        if self.case.host_us is not None or self.case.host is not None:
            return widths
        costs, issue = host_costs("eager"), self.hosts[0].beside_s

        def away(factor: float) -> float:
            span = makespan_s(np.array(step.kernel_s), HostTime(beside_s=factor * issue))
            return abs(float(span) / step.time_s - 1.0)

        sides = (away(costs.low), away(costs.high))
        idle = step.idle_w / max(step.power_w, step.idle_w)
        time = tuple(
            float(np.hypot(model_width, host)) for model_width, host in zip(widths.time, sides, strict=True)
        )
        energy = tuple(
            float(np.hypot(model_width, idle * host))
            for model_width, host in zip(widths.energy, sides, strict=True)
        )
        return replace(widths, time=(time[0], time[1]), energy=(energy[0], energy[1]))


def plan_operators(case: Case, model: Model, gpu: Gpu, division: Division, clock_mhz: float) -> OperatorPlan:
    """Return one pass of a model given as its operators.

    Raises
    ------
    BadInput
        If the model is not given as operators, is asked to be divided, or holds none.
    """
    if not isinstance(model, OperatorModel) or model.build is None:
        raise BadInput(
            "mode: pass is for operators and exported graphs",
            "leave out --mode, or ask for another",
        )
    if division.gpus > 1:
        raise BadInput("gpus: operators of a table or graph are of one GPU", "leave out tp, pp, dp, ep")
    batch = max(round(case.get("bs", 1.0)), 1)
    rows = model.build(batch, max(round(case.get("isl", case.get("seq", _DEFAULT_LENGTH))), 1))
    if not rows:
        raise BadInput(f"model: {model.name} holds no operators")
    stack = case.stack or ""
    if case.launch not in (None, "eager", "graph"):
        raise BadInput(f"launch: {case.launch!r} is not known", "known: eager, graph")
    host = eager_host(case, rows)
    if case.launch == "graph" and case.host_us is None:
        host = HostTime(beside_s=host_costs("graph").start_s)
    passes = (PassRows(rows, gpu, stack, clock_mhz, case.mem_clock_mhz),)
    return OperatorPlan(case, gpu, float(batch), model.weights, passes, (host,))


def as_pass(case: Case) -> Case:
    """Return a case of operators as one pass, whatever mode is the usual one.

    Raises
    ------
    BadInput
        If another mode was asked for.
    """
    if case.mode not in ("serve", SINGLE):
        raise BadInput(f"mode: {case.mode} needs a configuration", "operators are forecast as one pass")
    return replace(case, mode=SINGLE)
