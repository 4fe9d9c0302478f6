"""Energy of a GPU job, kernel by kernel: measured, and predicted at other clocks.

``import tracetool as tt``: each command is a function here, with the same options and the same document.

Examples
--------
>>> import tracetool as tt
>>> tt.gpus().frame.filter(name="h100-sxm")["sm_count"].item()
132
"""

from __future__ import annotations

from tracetool.core.version import __version__

#: As in ``typing``, which takes longer to load than Python takes to start.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from tracetool.api.attribute import Attribution, attribute
    from tracetool.api.baseline import add_baseline, list_baselines, prune_baselines
    from tracetool.api.calibrate import Calibration, calibrate
    from tracetool.api.check import check
    from tracetool.api.check_power import PowerCheck, check_power
    from tracetool.api.classify import Classification, Explanation, classify, explain
    from tracetool.api.diagnose import Diagnosis, diagnose
    from tracetool.api.diagnose_pair import PairDiagnosis, diagnose_pair
    from tracetool.api.diagnose_table import RunTableDiagnosis, diagnose_table
    from tracetool.api.diff import AccuracyDiff, RunsDiff, diff
    from tracetool.api.doctor import Doctor, doctor
    from tracetool.api.energy_by import GroupedEnergy, energy_by
    from tracetool.api.export import Export, export
    from tracetool.api.families import families
    from tracetool.api.forecast import ForecastResult, forecast
    from tracetool.api.formats import formats
    from tracetool.api.gpus import GpuSheet, gpu, gpus
    from tracetool.api.ingest import ingest
    from tracetool.api.predict import Prediction, predict
    from tracetool.api.profile import Profile, profile
    from tracetool.api.profile_kernels import KernelProfiles, profile_kernels
    from tracetool.api.record import Recording, finish_recording, record
    from tracetool.api.report import Report, report
    from tracetool.api.request_energy import RequestEnergy, request_energy
    from tracetool.api.result import Picture, Result
    from tracetool.api.roofline import AchievedRates, roofline
    from tracetool.api.run import Run
    from tracetool.api.run import open_run as open  # noqa: A004 - reads as what it is: tt.open(path)
    from tracetool.api.schema import schema
    from tracetool.api.sensor import CheckedSensor, IdentifiedSensors, check_sensor, identify_sensor
    from tracetool.api.summary import Summary, summary
    from tracetool.api.sweep import Sweep, sweep
    from tracetool.core.errors import BadInput, CheckFailed, MissingPart, TracetoolError
    from tracetool.fleet.fleet import fleet_ask, fleet_ingest, fleet_run
    from tracetool.fleet.results import FleetJobs, FleetTable
    from tracetool.tables.tariff import Tariff
else:
    # `tracetool.record` is a package and `tt.record` a function. A package is bound as an attribute when it
    # is first imported: imported here and let go of, it never takes the place of the function.
    from tracetool import calibrate, families, forecast, record, report

    del calibrate, families, forecast, record, report

#: Where each public name lives, loaded when it is first used: `import tracetool` stays bare.
_HOMES = {
    "api.attribute": ("Attribution", "attribute"),
    "api.baseline": ("add_baseline", "list_baselines", "prune_baselines"),
    "api.calibrate": ("Calibration", "calibrate"),
    "api.check": ("check",),
    "api.check_power": ("PowerCheck", "check_power"),
    "api.classify": ("Classification", "Explanation", "classify", "explain"),
    "api.diagnose": ("Diagnosis", "diagnose"),
    "api.diagnose_pair": ("PairDiagnosis", "diagnose_pair"),
    "api.diagnose_table": ("RunTableDiagnosis", "diagnose_table"),
    "api.diff": ("AccuracyDiff", "RunsDiff", "diff"),
    "api.doctor": ("Doctor", "doctor"),
    "api.energy_by": ("GroupedEnergy", "energy_by"),
    "api.export": ("Export", "export"),
    "api.families": ("families",),
    "api.forecast": ("ForecastResult", "forecast"),
    "api.formats": ("formats",),
    "api.gpus": ("GpuSheet", "gpu", "gpus"),
    "api.ingest": ("ingest",),
    "api.predict": ("Prediction", "predict"),
    "api.profile": ("Profile", "profile"),
    "api.profile_kernels": ("KernelProfiles", "profile_kernels"),
    "api.record": ("Recording", "finish_recording", "record"),
    "api.report": ("Report", "report"),
    "api.request_energy": ("RequestEnergy", "request_energy"),
    "api.result": ("Picture", "Result"),
    "api.roofline": ("AchievedRates", "roofline"),
    "api.run": ("Run", "open"),
    "api.schema": ("schema",),
    "api.sensor": ("CheckedSensor", "IdentifiedSensors", "check_sensor", "identify_sensor"),
    "api.summary": ("Summary", "summary"),
    "api.sweep": ("Sweep", "sweep"),
    "core.errors": ("BadInput", "CheckFailed", "MissingPart", "TracetoolError"),
    "fleet.fleet": ("fleet_ask", "fleet_ingest", "fleet_run"),
    "fleet.results": ("FleetJobs", "FleetTable"),
    "tables.tariff": ("Tariff",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*sorted(_HOME_OF), "__version__"]  # noqa: PLE0604 - they are names


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'tracetool' has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - keeps `import tracetool` bare

    value = getattr(importlib.import_module(f"tracetool.{home}"), "open_run" if name == "open" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
