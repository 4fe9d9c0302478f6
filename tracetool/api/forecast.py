"""Forecast: a model's time, power and energy from its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.errors import BadInput, CheckFailed
from tracetool.core.paths import PathLike
from tracetool.core.stated_share import stated_share
from tracetool.forecast.tables import Forecasts, forecast_model, forecast_table
from tracetool.hardware.load import load_gpu
from tracetool.tables.tariff import NO_TARIFF, Tariff

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class ForecastResult(Result):
    """Forecasts of one case or many.

    Attributes
    ----------
    frame : DataFrame, shape (cases, columns)
        The columns of the cases, then time, power, energy and memory with 90 % intervals (schema
        ``forecast``); ``error`` says why a case has none.
    parts : DataFrame, shape (operators, columns)
        Of one case: where its time and energy go, largest energy first.
    best : DataFrame, shape (goals, columns)
        Of several cases of one model: the best of each goal.
    notes : tuple of str
        What the figures rest on.
    """

    source: Forecasts = field(repr=False)
    tariff: Tariff = NO_TARIFF

    @property
    def _rows(self) -> pl.DataFrame:
        return self.tariff.priced_units(self.source.frame)

    @property
    def parts(self) -> pl.DataFrame:
        """The operators of one case; empty for a table of cases."""
        return self.source.parts

    @property
    def best(self) -> pl.DataFrame:
        """The best case of each goal; empty unless several of one model were asked about."""
        return pl.DataFrame() if self.source.grid is None else self.source.grid.best

    @property
    def compared(self) -> pl.DataFrame:
        """The operators against the kernels of a trace; empty unless one was given."""
        return pl.DataFrame() if self.source.compared is None else self.source.compared.frame

    @property
    def checked(self) -> pl.DataFrame:
        """Weights and products of the model beside what torch counts; empty unless asked for."""
        return pl.DataFrame() if self.source.checked is None else self.source.checked.frame

    def raise_if_other(self) -> None:
        """Raise where torch counts other weights or products by more than 2 %.

        Raises
        ------
        CheckFailed
            With the quantity that differs most.
        """
        if (checked := self.source.checked) is None:
            return
        quantity, difference = checked.worst
        if abs(difference) > checked.tolerance:
            raise CheckFailed(f"check: {quantity} {100 * difference:+.1f} % of what {checked.library} counts")

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what the figures rest on."""
        checked = self.source.checked
        return self.source.notes + (() if checked is None else checked.notes)

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = {**self.tariff.factors(), "totals": self._rows.to_dicts()}
        if self.source.single:
            document |= {"facts": dict(self.source.facts), "operators": self.parts.to_dicts()}
        if self.source.grid is not None:
            document |= {"varied": list(self.source.grid.varied), "best": self.best.to_dicts()}
        if (compared := self.source.compared) is not None:
            document["compared"] = {
                "steps": compared.steps,
                **compared.facts,
                "operators": compared.frame.to_dicts(),
            }
        if (checked := self.source.checked) is not None:
            document["checked"] = {"library": checked.library, "quantities": checked.frame.to_dicts()}
        return {**document, "notes": list(self.notes)}

    def _view(self) -> View:
        from tracetool.report.forecast_page import forecast_blocks
        from tracetool.report.view import View
        from tracetool.tables.schema import load_schema

        if self.source.compared is not None:
            return View("Forecast against a trace", self.compared)
        blocks = forecast_blocks(self.source, self._rows)
        return View("Forecast", self._rows, load_schema("forecast"), blocks)

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the figures, where the energy goes and what they rest on."""
        from tracetool.report.terminal.cost import print_unit_prices
        from tracetool.report.terminal.forecast import print_forecast

        print_forecast(self.source, written)
        print_unit_prices(self.tariff, self._rows)


@public
def forecast(
    source: PathLike | pl.DataFrame | Mapping[str, Any],
    *,
    slowdown: float | str = 0.05,
    compare: PathLike | None = None,
    check: bool = False,
    tariff: Tariff = NO_TARIFF,
    **case: Any,
) -> ForecastResult:
    """Forecast a model's time, power and energy from its configuration, as ``tracetool forecast``.

    Parameters
    ----------
    source : path, mapping or DataFrame
        A model (its ``config.json``, a name, or the configuration itself), or a table of cases: one row
        each, columns as the keywords (``docs/forecast.md``).
    slowdown : float or str
        Slowdown that goals among several cases allow, a fraction or a text in per cent: 0.03 is
        ``"3%"``. [1]
    compare : path, optional
        A run: the operators of one case are set against its kernels (``compared``), on its GPU by default.
    check : bool
        Count the model's weights and products on torch's meta device too (``checked``); needs torch and
        transformers, or diffusers.
    tariff : Tariff, optional
        Adds what a million output tokens, or an image, video or sample, cost in money and CO2.
    **case
        What is asked of a model: ``gpu``, ``mode`` (``prefill``, ``decode``, ``serve``, ``train``), ``isl``
        and ``osl`` (tokens of a prompt and of its answer), ``bs`` (requests that run at once; sequences of a
        micro batch), ``gbs`` and ``seq`` (sequences of a step of training and tokens of each), ``tp``,
        ``pp``, ``dp``, ``ep``, ``cp``, ``gpus``, ``stack``, ``dtype`` and ``kv_dtype`` (number formats of
        weights, and of the keys and values a request keeps), ``clock`` and ``mem_clock`` [MHz],
        ``power_cap`` [W], ``max_num_batched_tokens``, ``host_us`` [us], the columns of a table too
        (``clock_mhz``, ``mem_clock_mhz``, ``power_cap_w``, ``token_budget``),
        ``set`` (numbers of the GPU that are changed, as ``{"sm_count": 160}``).
        None for what is not given. Several values (a list, or a text such as ``"1,8,64"`` or
        ``"900:1980:90"``) ask for every combination: ``best`` then names those of least energy.

    Raises
    ------
    BadInput
        If the model or a value cannot be used, or every case of a table fails.
    MissingPart
        If ``check`` needs a package that is not installed.

    Examples
    --------
    >>> import tracetool as tt
    >>> config = {
    ...     "model_type": "llama",
    ...     "hidden_size": 4096,
    ...     "intermediate_size": 14336,
    ...     "num_hidden_layers": 32,
    ...     "num_attention_heads": 32,
    ...     "num_key_value_heads": 8,
    ...     "vocab_size": 128256,
    ...     "torch_dtype": "bfloat16",
    ... }
    >>> slow = tt.forecast(config, gpu="h100-sxm", mode="decode", bs=1, isl=1000).frame
    >>> fast = tt.forecast(config, gpu="h200-sxm", mode="decode", bs=1, isl=1000).frame
    >>> slow["itl_ms"].item() > fast["itl_ms"].item()
    True
    >>> grid = tt.forecast(config, gpu="h100-sxm", isl=400, osl=400, bs=[1, 8, 64])
    >>> grid.best["goal"][0], grid.best["bs"][0]
    ('least energy', 64.0)
    """
    from tracetool.forecast.tables import is_table

    case = _by_column(case)
    allowed = stated_share(slowdown, "--slowdown")
    if check and compare is not None:
        raise BadInput("check: not together with compare", "ask for one of them")
    if is_table(source):
        if check:
            raise BadInput("check: a model is checked, not a table of cases", "give its config.json")
        return ForecastResult(forecast_table(source, case), tariff)
    if compare is not None:
        return ForecastResult(_against(compare, {**case, "model": source}), tariff)
    forecasted = forecast_model({**case, "model": source}, allowed)
    if check:
        from tracetool.forecast.torch_check import check_model

        model: Any = source
        forecasted = replace(forecasted, checked=check_model(model))
    return ForecastResult(forecasted, tariff)


#: Keywords that other functions and the command line have, and the columns of a table for them.
_KEYWORDS: Final = {
    "clock": "clock_mhz", "mem_clock": "mem_clock_mhz", "power_cap": "power_cap_w",
    "max_num_batched_tokens": "token_budget",
}  # fmt: skip


def _by_column(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked for by the names that columns of a table have."""
    for word, column in _KEYWORDS.items():
        if case.get(word) is not None and case.get(column) is not None:
            raise BadInput(f"{word} and {column} are the same", "give one of them")
    return {
        _KEYWORDS.get(name, name): value
        for name, value in case.items()
        if value is not None or name not in _KEYWORDS
    }


def _against(path: PathLike, values: dict[str, Any]) -> Forecasts:
    from tracetool.forecast.trace_comparison import compare as compare_with
    from tracetool.replay.recording_conditions import recorded_gpu
    from tracetool.replay.run_rows import run_rows
    from tracetool.replay.unnamed_gpu import check_maker
    from tracetool.tables.run import Run

    run = Run.open(path)
    recorded_on = recorded_gpu(run)
    if values.get("gpu") is None and recorded_on is not None:
        values["gpu"] = recorded_on.name
    forecasted = forecast_model(values, 0.0)
    if not forecasted.single:
        raise BadInput("compare: one case is set against a trace", "give each option one value")
    gpu = recorded_on or load_gpu(str(values["gpu"]))
    if recorded_on is None:
        check_maker(run, gpu)
    return replace(forecasted, compared=compare_with(forecasted.pieces, run, *run_rows(run, gpu)))
