"""Export a run: chosen by the extension of the file, written aside and then renamed."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Final, TypedDict, cast

import polars as pl

from tracetool.core.errors import BadInput
from tracetool.measure.timeline import ACTIVE_IDLE, IDLE
from tracetool.replay.predict_run import PredictedRun, predict_run
from tracetool.report.export.chrome import write_chrome
from tracetool.report.export.energies import Energies, energies_of
from tracetool.report.export.family_energy import family_sums
from tracetool.report.export.openmetrics import write_openmetrics
from tracetool.report.export.perfetto import write_perfetto
from tracetool.report.export.recorded import activity_frame, build_timeline, host_slices, stated_frame
from tracetool.report.export.timeline import Timeline
from tracetool.report.export.work_energy import work_energies
from tracetool.tables.run import Run
from tracetool.tables.write import aside_file

#: What each extension is written as.
FORMATS: Final = {
    ".pftrace": "perfetto",
    ".pftrace.gz": "perfetto",
    ".json": "chrome",
    ".json.gz": "chrome",
    ".txt": "openmetrics",
    ".prom": "openmetrics",
}
#: Fast rather than small: names and numbers repeat.
_GZIP_LEVEL: Final = 1


class Logs(TypedDict):
    """The GPU and the power logs to take, as for :func:`tracetool.measure.attribute.attribute_run`."""

    gpu: str | None
    power: Sequence[Path]
    tz: str | None
    sensor_file: str | os.PathLike[str] | None


@dataclass(frozen=True)
class Exported:
    """A file that was written."""

    path: Path
    format: str
    slices: int
    counters: int
    notes: tuple[str, ...]
    run: Run = field(repr=False)
    energies: Energies = field(repr=False)

    @cached_property
    def families(self) -> pl.DataFrame:
        """Return the sums by GPU and family; a timeline is written without them."""
        return family_sums(self.run, self.energies)


def export_format(path: str | os.PathLike[str]) -> str:
    """Return the format of a file to write; call it before long work.

    Raises
    ------
    BadInput
        If its extension is not known, its folder is absent, or it is a folder.
    """
    target = Path(path)
    name = next((n for suffix, n in FORMATS.items() if target.name.lower().endswith(suffix)), None)
    if name is None:
        raise BadInput.in_file(target, "no export of this kind", f"known: {' '.join(FORMATS)}")
    if target.is_dir():
        raise BadInput.in_file(target, "is a folder", "name a file")
    if not target.absolute().parent.is_dir():
        raise BadInput.in_file(target, "its folder does not exist", f"make it: mkdir -p {target.parent}")
    return name


def export_run(
    run: Run,
    path: str | os.PathLike[str],
    *,
    gpu: str | None = None,
    clock_mhz: float | None = None,
    power: Sequence[Path] = (),
    tz: str | None = None,
    sensor_file: str | os.PathLike[str] | None = None,
    work: Mapping[str, float | None] | None = None,
) -> Exported:
    """Write a run's timeline with its energy.

    Parameters
    ----------
    run : Run
        The run.
    path : path
        ``.pftrace`` (Perfetto), ``.json`` (Chrome trace events), both also ``.gz``, or ``.txt`` and ``.prom``
        (OpenMetrics).
    gpu, power, tz, sensor_file : optional
        As for :func:`tracetool.measure.attribute.attribute_run`.
    clock_mhz : float, optional
        Also write the replay at this clock, as a second process. [MHz]
    work : mapping of str to float, optional
        For OpenMetrics: units of work of the whole run, as for :func:`tracetool.replay.energy_by.energy_by`.

    Raises
    ------
    BadInput
        If the run holds no activity, its GPU is not known where a clock is given, or the file cannot be
        written.
    """
    name, target = export_format(path), Path(path)
    if name == "openmetrics" and clock_mhz is not None:
        raise BadInput.in_file(
            target, "metrics hold no timeline to replay", "leave --clock out, or -o x.pftrace"
        )
    if name != "openmetrics" and work:
        raise BadInput.in_file(target, "a timeline holds no work", "leave --work out, or -o x.prom")
    timeline: Timeline | None = None
    logs: Logs = {"gpu": gpu, "power": power, "tz": tz, "sensor_file": sensor_file}
    if name == "openmetrics":
        energies = energies_of(run, **logs)
    else:
        energies, timeline = _timed(run, clock_mhz, logs)
    slices = sum(s.frame.height for s in timeline.slices) if timeline else 0
    counters = len(timeline.counters) if timeline else 0
    exported = Exported(target, name, slices, counters, energies.notes, run, energies)
    with aside_file(target) as aside, _opened(aside, packed=target.suffix.lower() == ".gz") as file:
        if timeline is None:
            write_openmetrics(exported.families, _idle(energies), file, work_energies(run, energies, work))
        else:
            (write_perfetto if name == "perfetto" else write_chrome)(timeline, file)
    return exported


def _timed(run: Run, clock_mhz: float | None, logs: Logs) -> tuple[Energies, Timeline]:
    """Return the energies of a run, and its timeline."""
    _ = run.kernels  # read once, not by two threads
    replayed: PredictedRun | None = None
    with ThreadPoolExecutor(1) as beside:  # what needs no energy is put together while that is sought
        stated, host = beside.submit(stated_frame, run), beside.submit(host_slices, run)
        energies = energies_of(run, **logs)
        if clock_mhz is not None:
            replayed = predict_run(run, logs["gpu"], [clock_mhz])
        activities = activity_frame(run, energies, stated.result())
        laid = host.result()
    return energies, build_timeline(run, energies, activities, laid, replayed)


def _idle(energies: Energies) -> pl.DataFrame | None:
    if energies.measured is None:
        return None
    states = pl.col("class").is_in([ACTIVE_IDLE, IDLE]) & pl.col("signature").is_null()
    return energies.measured.energy.filter(states & pl.col("energy_j").is_not_null())


@contextmanager
def _opened(path: Path, *, packed: bool) -> Iterator[BinaryIO]:
    with path.open("wb") as file:
        if not packed:
            yield file
            return
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as gz:
            yield cast("BinaryIO", gz)
