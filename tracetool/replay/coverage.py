"""Source of each row's predicted time, and the share of the kernels' time from each source."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tracetool.core.arrays import Floats, Texts
from tracetool.core.number_text import counted
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import FROM, Prediction
from tracetool.families import names
from tracetool.families.formats import PRODUCT_PIPE, dtype_of
from tracetool.families.implementations import fitted_libraries, implementations, library_of
from tracetool.families.pricing import split_by_law
from tracetool.families.registry import groups, known_shape
from tracetool.families.transfers.host import crossing
from tracetool.families.transfers.problem import message_of
from tracetool.hardware.gpu import FALLBACK, Gpu
from tracetool.model.counters import from_counters
from tracetool.model.eligible_implementations import members
from tracetool.model.own_kernels import FROM_OWN, left_out
from tracetool.model.time_calibration import TimeCalibration
from tracetool.model.time_files import time_calibration_of
from tracetool.replay.scope_totals import COPIES

_SHAPES, _ANCHORED, _RATE, _NOTHING = FROM


def predicted_from(rows: OperatorColumns) -> Texts:
    """Return the source of each row's predicted time, one of :data:`FROM`. Shape (n,).

    A size inferred from a row's own measured time predicts other clocks, not that time; sizes read off
    the launch are shapes. Counters beside a measured time say how it divides, not how long it is. Shapes
    that the measured time rules out are none where times are anchored on it.
    """
    measured = rows.number("duration_us", 0.0) > 0
    shaped = known_shape(rows)
    # an interval of a size (as a factor) is stated beside those inferred from the duration, and only there
    from_duration = np.isfinite(rows.number("inferred_low"))
    circular = (shaped & from_duration) | (~shaped & measured & from_counters(rows))
    usual = measured & (rows.family.astype(str) != names.UNKNOWN)
    sources = np.where(usual, _RATE, _NOTHING)
    sources = np.where(shaped, _SHAPES, sources)
    return np.where(circular, _ANCHORED, sources).astype(object)


def coverage(rows: OperatorColumns, time_s: Floats) -> dict[str, Any]:
    """Return the share of the kernels' time that is predicted from each of :data:`FROM`. [%]

    Parameters
    ----------
    rows : OperatorColumns
        n rows; copies are left out.
    time_s : array, shape (n,)
        Time of all launches of each: measured where there is a measurement. [s]
    """
    kernels = ~np.isin(rows.family.astype(str), COPIES)
    source, time = predicted_from(rows)[kernels], time_s[kernels]
    total_s = float(time.sum())
    return {
        f"{name.replace(' ', '_')}_pct": 100.0 * float(time[source == name].sum()) / total_s
        if total_s
        else 0.0
        for name in FROM
    }


#: A unit busier than this share of the time matters to the figures. [1]
_MATTERS: Final = 0.01


def prior_notes(gpu: Gpu, rows: OperatorColumns, predicted: Prediction) -> list[str]:
    """Return a note on the numbers of the GPU that are priors and that these rows rest on.

    Integer rates are left out: no roofline of a product or a stream rests on them.
    """
    busy = predicted.timing.busy_s
    total = float(predicted.timing.duration_s.sum()) or 1.0
    used = {unit for unit, seconds in busy.items() if float(np.sum(seconds)) > _MATTERS * total}
    numbers: list[str] = [pipe for pipe in ("fp32", "fp64") if pipe in used]
    if "tensor" in used:
        works = np.asarray(busy["tensor"]).sum(axis=1) > 0
        formats = np.unique(dtype_of(rows, "bf16")[works].astype(str))
        numbers += sorted({_pipe(PRODUCT_PIPE.get(name, "fp32"), gpu) for name in formats})
    if "dram" in used:
        numbers.append("dram_bytes_per_s")
    if used - {"dram", "link"}:
        numbers.append("sm_count")
    priors = [gpu.numbers[name] for name in numbers if name in gpu.assumed]
    names = [name for name in numbers if name in gpu.assumed]
    stated = [
        f"{name} is a prior, {number.value:.4g} ({number.low:.4g} to {number.high:.4g}) {number.unit}"
        for name, number in zip(names, priors, strict=True)
    ]
    return [f"no published number of {gpu.name} supports: {'; '.join(stated)}"] if stated else []


def library_notes(rows: OperatorColumns, gpu: Gpu, calibration: TimeCalibration | None = None) -> list[str]:
    """Return a note on rows whose intervals span several libraries: the table states none."""
    fitted = calibration or time_calibration_of(gpu)
    places = np.flatnonzero((rows.text("stack") == "") & (rows.text("implementation") == ""))
    open_rows, ways = 0, set[str]()
    unstated = rows.take(places)
    for family, of_family in groups(unstated):
        family_rows = unstated.take(of_family)
        for law, inside in split_by_law(family, family_rows, gpu):
            candidates = members(law, gpu, "", "") if law.name in fitted.delivered else ()
            if len(candidates) > 1:
                open_rows += int(known_shape(family_rows.take(inside)).sum())
                ways |= {member.name for member in candidates}
    if not open_rows:
        return []
    open_libraries = f"intervals hold any of {len(ways)} implementations"
    return [f"library not stated for {counted(open_rows, 'row')}: {open_libraries}; --stack narrows them"]


def shared_page_notes(
    rows: OperatorColumns, gpu: Gpu, calibration: TimeCalibration | None = None
) -> list[str]:
    """Return a note on rows timed by a loop whose sequences shared pages: memory brings none so fast."""
    fitted = calibration or time_calibration_of(gpu)
    unstated = rows.take(np.flatnonzero((rows.text("stack") == "") & (rows.text("implementation") == "")))
    notes = []
    for family, of_family in groups(unstated):
        family_rows = unstated.take(of_family)
        for law, inside in split_by_law(family, family_rows, gpu):
            hit = fitted.coefficients.get(law.name, {}).get(_REPEATED, 0.0)
            shaped = int(known_shape(family_rows.take(inside)).sum())
            # a GPU that no loop measured takes the libraries' kernels, which hold no such share
            own = fitted.law_basis.get(law.name, "") == "calibrated" and law.name in fitted.delivered
            if hit > _SHARED and shaped and own:
                notes.append(
                    f"{law.name}, {counted(shaped, 'row')}: the loop that measured {gpu.name} read "
                    f"{100 * hit:.0f} % of caches from L2, as their sequences shared pages; where they have "
                    f"their own, up to {1.0 / (1.0 - hit):.1f} times as long: --stack names it"
                )
    return notes


def crowded_host_notes(
    rows: OperatorColumns, gpu: Gpu, calibration: TimeCalibration | None = None
) -> list[str]:
    """Return a note on long messages of many GPUs through the host: how these share it is the machine's."""
    fitted = calibration or time_calibration_of(gpu)
    message = message_of(rows)
    crowded = (message.bytes >= _LONG_BYTES) & (crossing(message, gpu) > _ALONE)
    notes = []
    for family, of_family in groups(rows):
        for law, inside in split_by_law(family, rows.take(of_family), gpu):
            many = int(crowded[np.asarray(of_family)[inside]].sum())
            # a table of the user's own was measured on the user's machine
            if law.name == _THROUGH_HOST and law.name in fitted.delivered and many:
                notes.append(
                    f"{law.name}, {counted(many, 'row')} of {_ALONE + 1} senders or more: the hosts measured "
                    f"gave each of eight GPUs a tenth of PCIe's rate; others are up to {_FASTER_HOST} times "
                    "as fast, beyond the interval: calibrate with rows of this machine"
                )
    return notes


def priced_stacks(rows: OperatorColumns, gpu: Gpu) -> list[str]:
    """Return the stacks of rows whose time depends on the library, where nothing was fitted for it."""
    stacks, number = rows.distinct("stack")
    unfitted = [library_of(stack) not in {"", *fitted_libraries()} for stack in stacks]
    places = np.flatnonzero(np.array(unfitted)[number])
    unfitted_rows, decided = rows.take(places), np.zeros(len(places), dtype=np.bool_)
    for family, of_family in groups(unfitted_rows):
        for law, inside in split_by_law(family, unfitted_rows.take(of_family), gpu):
            decided[np.asarray(of_family)[inside]] = bool(implementations(law.name))
    return unfitted_rows.take(decided).distinct("stack")[0]


#: The coefficient of a law that holds the share of any cache that is read from L2, and the least of it that
#: makes a difference. [1] A prior.
_REPEATED: Final = "repeat_hit"
_SHARED: Final = 0.1
#: The law of collectives through the host; senders that do not crowd it, and messages that do. [1], [B]
#: By definition of the law; a prior.
_THROUGH_HOST: Final = "collective_host"
_ALONE: Final = 2
_LONG_BYTES: Final = 2.0**20
#: Most times as fast as the hosts measured that others carry long messages of eight GPUs. [1] NVIDIA/nccl,
#: issue 1639: eight of another generation, without links.
_FASTER_HOST: Final = 10
#: Fewer measured kernels than this say little of each other. [kernels] A prior.
_FEW_KERNELS: Final = 10


def own_kernels_facts(
    rows: OperatorColumns, gpu: Gpu, predicted: Prediction
) -> tuple[list[str], dict[str, Any] | None]:
    """Return the errors of a run's own measured kernels predicted by others, as a note and as a record.

    Parameters
    ----------
    rows : OperatorColumns
        n rows with what was measured of them.
    gpu : Gpu
        The GPU they ran on.
    predicted : Prediction
        What was predicted of them: its basis says which rows the measured ones corrected.
    """
    cross_check = left_out(rows, gpu)
    if cross_check is None:
        return [], None
    corrected = sum(basis.endswith(FROM_OWN) for basis in predicted.timing.basis.astype(str).tolist())
    record = {
        "measured": cross_check.kernels,
        "corrected": corrected,
        "leave_one_out_error_pct": cross_check.error_pct,
        "model_error_pct": cross_check.model_error_pct,
    }
    if cross_check.kernels < _FEW_KERNELS and not corrected:
        return [], record
    measured = counted(cross_check.kernels, "measured kernel")
    by_model = f"{cross_check.model_error_pct:.3g} % by the model alone"
    if corrected:
        what = f"own kernels: {counted(corrected, 'kernel')} corrected by {measured} of this run"
    else:
        what = f"own kernels: {measured} of this run"
    error = f"{cross_check.error_pct:.3g} %"
    return [f"{what}; each predicted from the others, they err by {error} in the median ({by_model})"], record


def _pipe(pipe: str, gpu: Gpu) -> str:
    """Return the pipe that does this one's work on the GPU."""
    while pipe not in gpu.flops_per_clock_sm and pipe in FALLBACK:
        pipe = FALLBACK[pipe]
    return pipe
