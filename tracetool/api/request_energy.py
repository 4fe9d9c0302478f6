"""Energy of a served load by phase: joules a token and a request, from its request log and a power log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tracetool.api.public import public
from tracetool.api.result import Result
from tracetool.core.errors import BadInput
from tracetool.core.paths import PathLike, paths_of
from tracetool.tables.schema import load_schema

if TYPE_CHECKING:
    from tracetool.report.view import View


@dataclass(frozen=True)
class RequestEnergy(Result):
    """Energy of a served load: ``phases`` has a row each for prefill, decode and all of it."""

    phases: pl.DataFrame = field(repr=False)
    notes: tuple[str, ...] = ()

    def _document(self) -> dict[str, Any]:
        return {"phases": self.phases.to_dicts(), "notes": list(self.notes)}

    def _view(self) -> View:
        from tracetool.report.view import View

        return View("Energy of requests by phase", self.phases, load_schema("request_energy"))

    def show(self, written: Sequence[PathLike] = ()) -> None:
        """Print the phases and what they rest on."""
        from tracetool.report.terminal.served_load import print_requests

        print_requests(self.phases, self.notes, written)


@public
def request_energy(
    requests: PathLike,
    *,
    power: PathLike | Sequence[PathLike] = (),
    tz: str | None = None,
    gpu: str | None = None,
) -> RequestEnergy:
    """Return the energy of a served load by phase, as ``tracetool attribute REQUESTS.jsonl --power LOG``.

    Parameters
    ----------
    requests : path
        AIPerf's ``profile_export.jsonl`` or a request table of InferenceX; requests of the warm-up
        take part and are counted like others.
    power : path or sequence of path
        Power logs of the GPUs that served; all their GPUs are added.
    tz : str, optional
        Zone of logs in local time.
    gpu : str, optional
        The GPU, whose file states the sensor.

    Raises
    ------
    BadInput
        If a file cannot be used, or log and requests do not overlap.
    """
    from tracetool.measure.served_load import served_energy

    if not Path(requests).is_file():
        raise BadInput.in_file(requests, "no such file", "give the request log that the load's client wrote")

    return RequestEnergy(*served_energy(requests, paths_of(power), tz, gpu))
