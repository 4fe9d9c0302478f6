"""Forecast: many cases at once, their operator rows priced in one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from tracetool.core.errors import BadInput
from tracetool.families import names
from tracetool.families.implementations import fitted_libraries, library_of
from tracetool.families.transfers.fabric import has_adapters
from tracetool.forecast.case import SERVED, SINGLE, Case, Division, divide, read_case
from tracetool.forecast.config import read_model
from tracetool.forecast.figures import Forecast
from tracetool.forecast.generation import plan_generation
from tracetool.forecast.host import host_notes
from tracetool.forecast.language import plan_language
from tracetool.forecast.model import Model
from tracetool.forecast.operator_model import plan_operators
from tracetool.forecast.power_cap import CappedPasses, not_kept
from tracetool.forecast.pricing import PassRows, PricedPass, operator_table, price
from tracetool.forecast.request_checks import as_asked, cautions
from tracetool.forecast.steps import HostTime, Step, step_power_w
from tracetool.forecast.training_passes import EAGER, EXCHANGES
from tracetool.forecast.training_step import divide_training, plan_training
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.modified_gpu import changes_of, with_numbers
from tracetool.hardware.names import variant_notes
from tracetool.model.hypothetical import TIME_SPREAD, is_hypothetical
from tracetool.model.power_files import power_calibration_of
from tracetool.replay.clocks import checked_cap, checked_clocks, checked_memory
from tracetool.replay.unmeasured_notes import unmeasured_notes

#: What a forecast on changed hardware rests on.
LESS_SURE: Final = (
    "its kernels are taken as those of the GPU as it is built, "
    f"their times as {100 * math.expm1(TIME_SPREAD):.0f} % less sure"
)


class Plan(Protocol):
    """A case whose passes are to be priced, and what becomes of them."""

    @property
    def passes(self) -> Sequence[PassRows]:
        """Passes of one GPU."""

    @property
    def hosts(self) -> Sequence[HostTime]:
        """The host's time of each pass."""

    def adjusted(self, priced: PricedPass) -> PricedPass:
        """Return a priced pass as it runs in this engine."""

    def forecast(self, steps: Sequence[Step]) -> Forecast:
        """Return the figures."""


_Planner = Callable[[Case, Model, Gpu, Division, float], Plan]
_PLANS: Mapping[str, _Planner] = {
    "prefill": plan_language,
    "decode": plan_language,
    "serve": plan_language,
    "generate": plan_generation,
    "train": plan_training,
    SINGLE: plan_operators,
}


@dataclass(frozen=True)
class Outcome:
    """A case and its forecast, or why there is none."""

    values: Mapping[str, Any]
    case: Case | None
    forecast: Forecast | None
    error: str = ""


#: Share of a step's time from which sums over GPUs no link joins are worth a note. [1] By definition of it.
_NOTED_SHARE: Final = 0.25


@dataclass(frozen=True)
class _Planned:
    place: int
    case: Case
    gpu: Gpu
    plan: Plan
    cap_w: float
    notes: tuple[str, ...]


def forecast_cases(rows: Sequence[Mapping[str, Any]], folder: Path | None = None) -> list[Outcome]:
    """Return the forecast of each case; a case that cannot be is an outcome with its error.

    Parameters
    ----------
    rows : sequence of mapping
        Values of the cases, by the columns of :data:`tracetool.forecast.case.COLUMNS`.
    folder : Path, optional
        Where paths of models start, beside the working folder.
    """
    outcomes = [Outcome(values, None, None) for values in rows]
    models: dict[str, Model | BadInput] = {}
    planned: list[_Planned] = []
    for place, values in enumerate(rows):
        try:
            planned.append(_plan(place, values, folder, models))
        except BadInput as error:
            outcomes[place] = Outcome(values, None, None, error.line())
    for one, outcome in zip(planned, _forecasts(planned), strict=True):
        if isinstance(outcome, BadInput):
            outcomes[one.place] = Outcome(rows[one.place], one.case, None, outcome.line())
        else:
            noted = replace(outcome, notes=(*one.notes, *outcome.notes, *_beyond_peer_links(one, outcome)))
            outcomes[one.place] = Outcome(rows[one.place], one.case, noted)
    return outcomes


def _beyond_peer_links(one: _Planned, forecast: Forecast) -> tuple[str, ...]:
    """Return a note where a step is largely an exchange beyond peer links: what is assumed of it."""
    gpu = one.gpu
    sums = [part for part in forecast.parts if part.row["op"] == names.COLLECTIVE]
    spans = [float(part.row["ranks"]) * float(part.row.get("rank_stride", 1.0)) for part in sums]
    exposed = _exposed(forecast)
    between = (part for part, span in zip(sums, spans, strict=True) if span > gpu.link_ranks)
    waited_s = sum(part.time_s * (exposed if part.name in EXCHANGES else 1.0) for part in between)
    step = forecast.figures.get("step_ms") if one.case.mode == "train" else None
    whole_s = step.value * 1e-3 if step else sum(part.time_s for part in forecast.parts)
    share = waited_s / (whole_s or 1.0)
    if share < _NOTED_SHARE:
        return ()
    most = max(spans)
    share_text = f"{100 * share:.0f} % of the time is exchange"
    if has_adapters(gpu):
        adapter = f"a network adapter of {8e-9 * gpu.nic_bytes_per_s:g} Gb/s beside each GPU"
        domains = f"{math.ceil(most / gpu.link_ranks)} groups of up to {gpu.link_ranks} {gpu.name}"
        return (f"{share_text} among {domains} that peer links join: {adapter} is assumed, not measured",)
    joined = f"no peer link joins {most:g} {gpu.name}; hosts differ in it by a factor of two"
    divided = one.case.get("tp", 1) > 1
    less = "--pp in place of --tp exchanges less" if divided else "larger --bs and --zero 1 exchange less"
    return (f"{share_text} through the host: {joined}, and {less}",)


def _exposed(forecast: Forecast) -> float:
    """Return the share of the exchange among replicas that nothing runs beside: all of it but in training."""
    exchange_s = sum(part.time_s for part in forecast.parts if part.name in EXCHANGES)
    exposed_ms = forecast.facts.get("exposed_exchange_ms")
    return 1.0 if exposed_ms is None or not exchange_s else exposed_ms * 1e-3 / exchange_s


def _plan(
    place: int, values: Mapping[str, Any], folder: Path | None, models: dict[str, Model | BadInput]
) -> _Planned:
    case = read_case(dict(values))
    gpu = with_numbers(str(case.gpu), case.set) if case.set else load_gpu(str(case.gpu))
    gpu.require_model()
    clocks, notes = checked_clocks(None if case.clock_mhz is None else [case.clock_mhz], gpu)
    notes = notes if case.clock_mhz is not None else []  # that it is the boost clock is in the title
    notes = [
        *variant_notes(str(case.gpu)),
        *_changed(case, gpu),
        *_library(case),
        *host_notes(case),
        *notes,
        *checked_cap(case.power_cap_w, gpu),
        *checked_memory(case.mem_clock_mhz, gpu),
    ]
    model = _model(case, folder, models)
    case, unread = as_asked(case, model, stated=bool(values.get("mode")))
    notes += [*unread, *cautions(case, model, gpu)]
    division = divide_training(case) if case.mode == "train" else divide(case)
    plan = _planner(case)(case, model, gpu, division, float(clocks[0]))
    notes += _version(case, gpu, plan)
    cap = power_calibration_of(gpu).cap_share * case.get("power_cap_w", gpu.power_limit_w)
    return _Planned(place, case, gpu, plan, cap, tuple(notes))


#: Frameworks whose own coefficients stand in ``serving.toml`` and ``training.toml``.
_FRAMEWORKS: Final = EAGER | {"vllm", "megatron", "diffusers", "xdit"}


def _library(case: Case) -> tuple[str, ...]:
    """Return the note on a library that was not measured."""
    library = library_of(case.stack or "vllm")
    if library in _FRAMEWORKS | fitted_libraries():
        return ()
    return (
        f"stack: nothing was measured of {str(case.stack)[:40]!r}: kernels of any library, vLLM's engine",
    )


def _version(case: Case, gpu: Gpu, plan: Plan) -> list[str]:
    """Return the notes on the version of a stated library: one not measured, or none stated."""
    if not case.stack:
        return []
    passes = [(one.rows, one.stack) for one in plan.passes if one.pricer is None and one.rows]
    return unmeasured_notes(operator_table(passes).rows, gpu) if passes else []


def _changed(case: Case, gpu: Gpu) -> list[str]:
    """Return the note on the changed numbers of a GPU and the wider intervals."""
    if not case.set or not is_hypothetical(gpu):
        return []
    built = load_gpu(gpu.name)
    texts = [f"{c.name} {c.value:g} instead of {c.sheet:g} {c.unit}" for c in changes_of(built, case.set)]
    return [f"{gpu.name} with {'; '.join(texts)} was never measured: {LESS_SURE}"]


def _planner(case: Case) -> _Planner:
    planner = _PLANS.get(case.mode or "")
    if planner is None:
        raise BadInput(f"mode: {case.mode} is not supported yet", f"known: {', '.join(_PLANS)}")
    return planner


def _model(case: Case, folder: Path | None, models: dict[str, Model | BadInput]) -> Model:
    """Return the model of a case in the formats asked for, each read once."""
    source = case.model
    if isinstance(source, str) and folder is not None and (folder / source).exists():
        source = folder / source
    served = case.mode in SERVED
    formats = (case.dtype or "", case.kv_dtype or "") if served else ("", "")
    key = repr((source, formats))
    if key not in models:
        try:
            models[key] = read_model(source, *formats)
        except BadInput as error:
            models[key] = error
    model = models[key]
    if isinstance(model, BadInput):
        raise model
    return model


def _forecasts(planned: Sequence[_Planned]) -> list[Forecast | BadInput]:
    """Return each plan's forecast; one whose rows cannot be priced spoils no other's."""
    try:
        return list(_priced(planned))
    except BadInput as error:
        if len(planned) == 1:
            return [error]
        middle = len(planned) // 2
        return [*_forecasts(planned[:middle]), *_forecasts(planned[middle:])]


def _priced(planned: Sequence[_Planned]) -> list[Forecast]:
    passes = [one for p in planned for one in p.plan.passes]
    hosts = [host for p in planned for host in p.plan.hosts]
    owners = [p for p in planned for _ in p.plan.passes]
    ends = np.cumsum([len(p.plan.passes) for p in planned]).tolist()
    places = [range(end - len(p.plan.passes), end) for p, end in zip(planned, ends, strict=True)]
    priced = [owner.plan.adjusted(one) for one, owner in zip(price(passes), owners, strict=True)]

    def at_lower_clocks(chosen: Sequence[int]) -> None:
        for i, one in zip(chosen, price([passes[i] for i in chosen], ladder=True), strict=True):
            priced[i] = owners[i].plan.adjusted(one)

    def capped(place: int) -> CappedPasses:
        p, own = planned[place], [priced[i] for i in places[place]]
        return CappedPasses(own, p.plan.hosts, p.cap_w, p.plan.forecast)

    # only passes that the governor slows are priced at lower clocks too
    over = [i for i, owner in enumerate(owners) if step_power_w(priced[i], hosts[i])[0] > owner.cap_w]
    at_lower_clocks(over)
    forecasts = [capped(place).at(p.cap_w) for place, p in enumerate(planned)]
    exceed = [place for place, made in enumerate(forecasts) if capped(place).is_over(made)]
    at_lower_clocks([i for place in exceed for i in places[place] if len(priced[i].clocks_mhz) == 1])
    for place in exceed:
        limit_w = planned[place].case.get("power_cap_w", planned[place].gpu.power_limit_w)
        held = capped(place).forecast()
        forecasts[place] = replace(held, notes=(*held.notes, *not_kept(held, limit_w)))
    return forecasts
