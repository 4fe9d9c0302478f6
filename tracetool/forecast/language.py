"""Prefill, decode and serving of a language model: the passes to price, and the figures they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tracetool.core.errors import BadInput
from tracetool.families.implementations import library_of
from tracetool.forecast.case import DEFAULT_BUDGET, DEFAULT_ISL, DEFAULT_OSL, Case, Division
from tracetool.forecast.engine import Engine, check_sampling, engine_of
from tracetool.forecast.figures import Figure, Forecast, Widths, parts_of
from tracetool.forecast.host import eager_host, stated_host
from tracetool.forecast.memory import GIB, Footprint
from tracetool.forecast.model import Model, Prompt
from tracetool.forecast.passes import Forward
from tracetool.forecast.pricing import PassRows, PricedPass, Row
from tracetool.forecast.replica_memory import Held, context_room, free_bytes, held_by
from tracetool.forecast.replicas import with_waiting, without_request
from tracetool.forecast.serving import (
    Traffic,
    decode_pass,
    median_tokens,
    mixed_pass,
    prompt_bound,
    prompt_pass,
)
from tracetool.forecast.steps import HostTime, Step
from tracetool.forecast.token_sampling import Logits
from tracetool.forecast.training_passes import EAGER
from tracetool.forecast.vocabulary_sorts import with_sorts
from tracetool.hardware.gpu import Gpu

#: Default of running requests where none is given.
_DEFAULT_BATCH: Final = 1.0


@dataclass(frozen=True)
class LanguagePlan:
    """A case of a language model, ready to be priced."""

    case: Case
    model: Model
    gpu: Gpu
    division: Division
    traffic: Traffic  # of one replica and pipeline stage
    engine: Engine
    passes: tuple[PassRows, ...]
    hosts: tuple[HostTime, ...]
    held: Held

    def forecast(self, steps: Sequence[Step]) -> Forecast:
        """Return the figures, given the passes as they run."""
        composed = {"prefill": self._prefill, "decode": self._decode, "serve": self._serve}
        parallel, forwards = self.division.parallel, _forwards(self.case, self.traffic)
        waited = [with_waiting(*one, parallel) for one in zip(steps, forwards, strict=True)]
        return composed[self.case.mode or "serve"](waited)

    def _prefill(self, steps: Sequence[Step]) -> Forecast:
        step, rounds = steps[0], self.traffic.rounds
        widths = self._widths([(1.0, step)])
        time = step.time_s * rounds * self.division.parallel.pp
        per_prompt = self._mean_w(step.power_w, step) * self.division.gpus * time / self._running
        figures = {
            "ttft_ms": widths.timed(time * 1e3),
            "tokens_per_s": widths.rated(self._running / time),
            "power_w": self._power(self._mean_w(step.power_w, step), widths),
            "energy_per_token_j": widths.spent(per_prompt),
            "energy_per_item_j": widths.spent(per_prompt),
        }
        facts = {"prompt_tokens_per_s": self._running * self.traffic.prompt / time, "steps": rounds}
        return self._stated(figures, steps, (rounds,), facts)

    def _decode(self, steps: Sequence[Step]) -> Forecast:
        step = steps[0]
        widths = self._widths([(1.0, step)])
        time = step.time_s * self.division.parallel.pp
        power = self._mean_w(step.power_w, step)
        figures = {
            "itl_ms": widths.timed(time * 1e3),
            "tokens_per_s": widths.rated(self._running / time),
            "power_w": self._power(power, widths),
            "energy_per_token_j": widths.spent(power * self.division.gpus * time / self._running),
        }
        return self._stated(figures, steps, (1.0,), {})

    def _serve(self, steps: Sequence[Step]) -> Forecast:
        decode, mixed = steps
        traffic, stages = self.traffic, self.division.parallel.pp
        share = traffic.prompt_tokens / traffic.mixed_tokens
        mean = decode.time_s + (mixed.time_s - decode.time_s) * share
        joules = decode.energy_j + (mixed.energy_j - decode.energy_j) * share

        def lasting(tokens: float) -> float:
            return decode.time_s + (mixed.time_s - decode.time_s) * tokens / traffic.mixed_tokens

        widths = self._widths(
            [(max(1.0 - share, 0.0) * decode.time_s, decode), (share * mixed.time_s, mixed)]
        )
        power = self._mean_w(joules / mean, decode)
        tokens = self._running * traffic.delivered
        per_token = power * self.division.gpus * mean * stages / tokens
        own_prompt_tokens = min(traffic.prompt, traffic.room_each)
        # a request that is alone finds no step under way, and no other prompt in its own
        others = 1.0 - 1.0 / traffic.running
        waiting = mean / 2.0 * min(traffic.running - 1.0, 1.0)
        taken_in = min(others * traffic.prompt_tokens + own_prompt_tokens, traffic.room)
        first = waiting + lasting(taken_in) * traffic.pieces
        figures = {
            "ttft_ms": widths.timed(first * stages * 1e3),
            "itl_ms": widths.timed(lasting(median_tokens(traffic)) * stages * 1e3),
            "tokens_per_s": widths.rated(tokens / (mean * stages)),
            "power_w": self._power(power, widths),
            "energy_per_token_j": widths.spent(per_token),
            "energy_per_item_j": widths.spent(per_token * traffic.output),
        }
        if traffic.output <= 1.0:  # no token follows another
            del figures["itl_ms"]
        facts = {
            "mean_step_ms": mean * stages * 1e3,
            "decode_step_ms": decode.time_s * stages * 1e3,
            "mixed_step_ms": mixed.time_s * stages * 1e3,
            "mixed_share": traffic.mixed_share,
            "prompt_tokens_per_step": traffic.prompt_tokens,
        }
        return self._stated(figures, steps, (1.0 - share, share), facts)

    def adjusted(self, priced: PricedPass) -> PricedPass:
        """Return a priced pass as it runs in the engine: power in a run, experts no library tuned."""
        slower = np.array([self.engine.slowed(row) for row in priced.rows])[:, None]
        basis = [
            f"nearest measured: {basis}" if self.engine.stands_in(row) else basis
            for row, basis in zip(priced.rows, priced.basis.tolist(), strict=True)
        ]
        scaled = replace(priced.scaled(slower, self.engine.power), basis=np.array(basis, object))
        return with_sorts(scaled, self.model, self.engine)

    @property
    def _running(self) -> float:
        """Running requests of all replicas and pipeline stages."""
        return self.case.get("bs", _DEFAULT_BATCH)

    def _mean_w(self, busy_w: float, step: Step) -> float:
        """Return the mean power of a GPU whose replica and stage has a request to run, or waits for one. [W]

        Requests are divided over replicas and, within one, over stages: fewer requests leave some idle.
        """
        share = min(self._running / (self.division.replicas * self.division.parallel.pp), 1.0)
        return share * busy_w + (1.0 - share) * step.idle_w

    def _widths(self, parts: Sequence[tuple[float, Step]]) -> Widths:
        return Widths.of(parts, self.engine.time_sd, self.engine.power_sd)

    def _power(self, watts: float, widths: Widths) -> Figure:
        gpus = self.division.gpus
        return widths.powered(watts * gpus, self.case.get("power_cap_w", self.gpu.power_limit_w) * gpus)

    def _stated(
        self,
        figures: dict[str, Figure],
        steps: Sequence[Step],
        weights: Sequence[float],
        facts: dict[str, float],
    ) -> Forecast:
        figures["memory_gib"] = self.held.memory
        busy = sum(w * s.kernel_s for w, s in zip(weights, steps, strict=True)) or 1.0
        covered = sum(w * s.kernel_s * s.covered for w, s in zip(weights, steps, strict=True)) / busy
        parts = [part for w, s in zip(weights, steps, strict=True) for part in parts_of(s, w)]
        return Forecast(
            figures,
            covered,
            max(s.clock_mhz for s in steps),
            self.division.gpus,
            self.held.largest,
            tuple(parts),
            {**facts, **_footprint_facts(self.held.footprint)},
            (
                *self.held.notes,
                *without_request(self.traffic.running, self.division.parallel),
                *(prompt_bound(self.traffic) if self.case.mode == "serve" else ()),
            ),
        )


def _footprint_facts(footprint: Footprint) -> dict[str, float]:
    names = ("weights", "cache", "activations", "runtime")
    return {f"{name}_gib": getattr(footprint, name) / GIB for name in names}


def plan_language(case: Case, model: Model, gpu: Gpu, division: Division, clock_mhz: float) -> LanguagePlan:
    """Return the passes of a case of a language model.

    Raises
    ------
    BadInput
        If the model does not fit, or cannot be divided so; the field is named.
    """
    pp = division.parallel.pp
    running = max(case.get("bs", _DEFAULT_BATCH) / division.replicas, 1.0)
    output = 1.0 if case.mode == "prefill" else case.get("osl", DEFAULT_OSL)
    traffic = Traffic(
        running=max(running / pp, 1.0),
        prompt=case.get("isl", DEFAULT_ISL),
        output=output,
        budget=case.get("token_budget", DEFAULT_BUDGET),
        replicas=division.parallel.dp,
    )
    if _eager(case, model, division):  # a library without a scheduler takes in a batch whole
        traffic = replace(traffic, budget=traffic.running * traffic.prompt)
    room = context_room(model, division, running, free_bytes(model, gpu, division))
    traffic = replace(traffic, most_context=room)
    stack = case.stack or "vllm"
    engine, sampled = engine_of(stack, gpu.name, division.parallel.gpus), check_sampling(case.sampling)
    forwards = _forwards(case, traffic)
    rows: list[list[Row]]
    if _eager(case, model, division):
        rows = [list(model.eager_operators(_prompt(case, traffic)))]
        hosts = tuple(eager_host(case, one) for one in rows)
    else:
        rows = [_rows(model, forward, division, engine, sampled=sampled) for forward in forwards]
        hosts = tuple(
            stated_host(case, pass_rows) or _host(case, engine, traffic, forward, pass_rows, sampled=sampled)
            for forward, pass_rows in zip(forwards, rows, strict=True)
        )
    passes = tuple(PassRows(r, gpu, stack, clock_mhz, case.mem_clock_mhz) for r in rows)
    memory_held = held_by(model, gpu, division, traffic, rows, case.get("bs", _DEFAULT_BATCH))
    return LanguagePlan(case, model, gpu, division, traffic, engine, passes, hosts, memory_held)


def _forwards(case: Case, traffic: Traffic) -> tuple[Forward, ...]:
    if case.mode == "decode":
        return (decode_pass(traffic),)
    if case.mode == "serve":
        return decode_pass(traffic, traffic.decoding), mixed_pass(traffic)
    return (prompt_pass(traffic),)


def _rows(model: Model, forward: Forward, division: Division, engine: Engine, *, sampled: bool) -> list[Row]:
    rows = [engine.placed(row) for row in model.operators(forward, division.parallel)]
    if sampled:
        return rows
    samplers = {part.name for part in model.head if isinstance(part, Logits)}
    return [row for row in rows if str(row["module"]).partition(".")[0] not in samplers]


def _eager(case: Case, model: Model, division: Division) -> bool:
    """Return whether prompts run operator by operator, as the authors of a model wrote it in PyTorch."""
    eager = case.mode == "prefill" and library_of(case.stack or "") in EAGER
    return eager and model.eager is not None and division.parallel.gpus == 1


def _prompt(case: Case, traffic: Traffic) -> Prompt:
    return Prompt(max(round(traffic.running), 1), max(round(traffic.prompt), 1), case.attention != "eager")


def _host(
    case: Case, engine: Engine, traffic: Traffic, forward: Forward, rows: Sequence[Row], *, sampled: bool
) -> HostTime:
    """Return the host's time of a step; without graphs of launches it also issues every operator.

    Raises
    ------
    BadInput
        If the way of launching is not known.
    """
    if case.launch not in (None, *LAUNCHES):
        raise BadInput(f"launch: {case.launch!r} is not known", f"known: {', '.join(LAUNCHES)}")
    output_tokens = traffic.output / 2.0 if forward.decode_requests else 0.0
    host = engine.host(output_tokens, sampled=sampled)
    if case.launch != "eager":
        return host
    return replace(host, beside_s=host.beside_s + eager_host(case, rows).beside_s)


#: How an engine launches the kernels of a step: all as one graph, or one by one.
LAUNCHES: Final = ("graph", "eager")
