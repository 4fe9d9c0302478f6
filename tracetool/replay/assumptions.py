"""Inputs of a prediction beside its rows: calibrations of the user's own, and how warm the GPU is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Final, TypedDict

from tracetool.core.errors import BadInput
from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import fitted_libraries, library_of
from tracetool.families.pricing import laws
from tracetool.hardware.coefficient_files import CalibrationFile, read_calibration
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.calibration_scope import fitted_to
from tracetool.model.operands import MEASURED_SWITCHING, SWITCHING
from tracetool.model.power_calibration import PowerCalibration
from tracetool.model.power_files import (
    believed_calibration,
    calibration_from_file,
    power_calibration_of,
    power_promise,
)
from tracetool.model.thermal import HOTTEST_C, Surroundings
from tracetool.model.time_calibration import TimeCalibration
from tracetool.model.time_files import merged, time_calibration_of
from tracetool.replay.operand_content import CONTENT_COLUMN, parse_content, with_operands
from tracetool.replay.table_checks import CONTENT

_COUNT_SECTIONS: Final = frozenset({"power", "monitor"})
_POWER_SECTIONS: Final = _COUNT_SECTIONS | {"base", "voltage"}
#: Sections a calibration may hold that are read elsewhere.
_OTHERS: Final = frozenset({"memory_efficiency"})
#: No coefficient comes near this, whatever its unit.
_LARGEST: Final = 1e9
#: No chip is colder, no air hotter. [C]
_COLDEST_C, _HOTTEST_AIR_C = -40.0, 80.0


class RowOptions(TypedDict):
    """Arguments of :func:`tracetool.model.predict.predict_rows`."""

    power_calibration: PowerCalibration | None
    time_calibration: TimeCalibration | None
    surroundings: Surroundings | None


@dataclass(frozen=True)
class Assumptions:
    """Calibration files to use in place of those delivered, and temperatures.

    Parameters
    ----------
    files : sequence of CalibrationFile
        Written by ``tracetool calibrate``: power, time, or both in one.
    surroundings : Surroundings, optional
        Chip temperature or that of the air; by default as when the coefficients were measured.
    stack : str
        Library that ran the operators of a table that states none, with or without a version; "" where
        it is not known.
    operands : str
        What the operands of products hold where a row does not state it; "" where it is not known.
    """

    files: tuple[CalibrationFile, ...] = ()
    surroundings: Surroundings | None = None
    stack: str = ""
    operands: str = ""

    @classmethod
    def read(
        cls,
        files: Sequence[str | os.PathLike[str]] = (),
        temperature_c: float | None = None,
        ambient_c: float | None = None,
        stack: str | None = None,
        operands: str | None = None,
    ) -> Assumptions:
        """Return the assumptions from files, temperatures and the library.

        Raises
        ------
        BadInput
            If a file is no calibration, a temperature cannot be, both kinds of it are given, or a content is
            not known.
        """
        _check_temperatures(temperature_c, ambient_c)
        stated_temperature = temperature_c is not None or ambient_c is not None
        read = tuple(_checked(read_calibration(path)) for path in files)
        surroundings = Surroundings(temperature_c, ambient_c) if stated_temperature else None
        parse_content(operands or "")
        return cls(read, surroundings, stack or "", operands or "")

    def on(self, rows: OperatorColumns) -> OperatorColumns:
        """Return rows that state the library and the switching of their operands, where they are known."""
        if self.stack:
            rows = OperatorColumns(rows.family, {**rows.columns, "stack": rows.text("stack", self.stack)})
        return with_operands(rows, self.operands)

    def on_measured(self, rows: OperatorColumns) -> OperatorColumns:
        """Return measured rows with their own content, and the one to predict where it is stated."""
        rows = with_operands(rows, "", MEASURED_SWITCHING)
        start = {SWITCHING: rows.columns[MEASURED_SWITCHING]} if MEASURED_SWITCHING in rows.columns else {}
        if not self.operands:
            return OperatorColumns(rows.family, {**rows.columns, **start})
        without_content = {k: v for k, v in rows.columns.items() if k not in {*CONTENT, CONTENT_COLUMN}}
        stated = with_operands(OperatorColumns(rows.family, without_content), self.operands)
        return OperatorColumns(rows.family, {**rows.columns, SWITCHING: stated.number(SWITCHING)})

    def options(self, gpu: Gpu) -> RowOptions:
        """Return the options of a prediction on a GPU."""
        power: PowerCalibration | None = None
        time: TimeCalibration | None = None
        for file in self.files:
            sections = set(file.numbers)
            if sections & _POWER_SECTIONS:
                # What counts cost is replaced whole; a base or voltage alone leaves the delivered costs.
                start = believed_calibration if sections & _COUNT_SECTIONS else power_calibration_of
                power = calibration_from_file(file, power or start(gpu))
            if sections & set(laws()):
                time = _with_laws(gpu, time or time_calibration_of(gpu), file)
        return {"power_calibration": power, "time_calibration": time, "surroundings": self.surroundings}

    def notes(self, gpu: Gpu) -> list[str]:
        """Return notes on these assumptions on a GPU."""
        texts = []
        for file in self.files:
            made_for = file.about.get("gpu")
            if isinstance(made_for, str) and made_for != gpu.name:
                texts.append(f"{file.name} was fitted on {made_for}, not on {gpu.name}: taken as it is")
        power = self.options(gpu)["power_calibration"] or power_calibration_of(gpu)
        if power.basis != "calibrated":
            texts.append(power_promise(power))
        return texts + unfitted_notes([self.stack])


#: Delivered calibrations, and a GPU as warm as when they were measured.
NOTHING_ASSUMED: Final = Assumptions()


def unfitted_notes(stacks: Iterable[str]) -> list[str]:
    """Return a note on each stack that states a library of which no kernels were fitted."""
    libraries = sorted(fitted_libraries())
    texts = []
    for stack in dict.fromkeys(stack for stack in stacks if library_of(stack) not in {"", *libraries}):
        near = get_close_matches(library_of(stack), libraries, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        only = f"only of {', '.join(libraries)}"
        texts.append(f"no kernels of {stack[:40]!r} were fitted ({only}): intervals are wider{meant}")
    return texts


def _with_laws(gpu: Gpu, start: TimeCalibration, file: CalibrationFile) -> TimeCalibration:
    """Return time coefficients with the laws of a file in place of their own."""
    from_file, stated = merged(gpu, file, ()), [name for name in laws() if file.section(name)]
    own_spread = {k: band for k, band in start.spread.items() if k.partition("/")[0] not in stated}
    traces = file.about.get("from_traces") == "yes"
    kept_fits = {k: v for k, v in start.fitted_to.items() if k not in stated}
    return replace(
        start,
        coefficients={**start.coefficients, **{k: from_file.coefficients[k] for k in stated}},
        spread={**own_spread, **{k: b for k, b in from_file.spread.items() if k.partition("/")[0] in stated}},
        law_basis={**start.law_basis, **dict.fromkeys(stated, "calibrated")},
        from_traces=(start.from_traces - set(stated)) | (set(stated) if traces else set()),
        delivered=start.delivered - set(stated),
        fitted_to={**kept_fits, **fitted_to(file)},
    )


def _check_temperatures(temperature_c: float | None, ambient_c: float | None) -> None:
    if temperature_c is not None and ambient_c is not None:
        raise BadInput(
            "--temperature holds the chip's temperature, --ambient lets it settle", "give one of the two"
        )
    for option, value, hottest in (
        ("--temperature", temperature_c, HOTTEST_C + 10.0),
        ("--ambient", ambient_c, _HOTTEST_AIR_C),
    ):
        if value is not None and not (math.isfinite(value) and _COLDEST_C <= value <= hottest):
            raise BadInput(f"{option} {value:g} is not a temperature of a running GPU", "degrees Celsius")


def _checked(file: CalibrationFile) -> CalibrationFile:
    if not set(file.numbers) & (_POWER_SECTIONS | set(laws())):
        raise BadInput.in_file(
            file.name, "holds no coefficients of power or time", "tracetool calibrate writes such a file"
        )
    unknown = sorted(set(file.numbers) - _POWER_SECTIONS - _OTHERS - set(laws()))
    if unknown:
        raise BadInput.in_file(file.name, f"has a section that is not known: {unknown[0]}")
    for section, numbers in file.numbers.items():
        for name, number in numbers.items():
            if number.value < 0 and not name.startswith("spread"):
                raise BadInput.in_file(file.name, f"{section}.{name} is below zero")
            if abs(number.value) > _LARGEST:
                raise BadInput.in_file(file.name, f"{section}.{name} is implausible: {number.value:g}")
    curve = file.section("voltage")
    if curve and (absent := sorted({f.name for f in fields(VoltageCurve)} - {"measured"} - set(curve))):
        raise BadInput.in_file(file.name, f"voltage: missing {absent[0]}")
    return file
