"""Energy of every class of work, from readings that each average over many classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.hardware.sensors import Sensor
from tracetool.measure.counter_stretches import counted_stretches
from tracetool.measure.design_matrix import Design, design
from tracetool.measure.filters import sensor_boxes
from tracetool.measure.identifiability import Identified, coverage_of, identify
from tracetool.measure.joint_alignment import Placement
from tracetool.measure.launch_spread import launch_spread
from tracetool.measure.observe import Observation
from tracetool.measure.power_log import PowerLog
from tracetool.measure.prior import prior_of
from tracetool.measure.ridge_solver import Solution, resolved, solve

#: Draws from the joint posterior of offset, window and drift that powers are solved for. [1] A prior.
_DRAWS = 15
#: Non-zero cells of the design from which on one deviation either way replaces the draws. [1] For speed.
_MANY_CELLS = 2_000_000
#: No GPU draws less, whatever it does. [W] A prior.
_LEAST_W = 1e-3


@dataclass(frozen=True)
class ClassEnergy:
    """Energy of k classes of work, then of gaps and idle time, within the log's span.

    Powers and energies are true ones: the sensor's gain and offset are undone.
    """

    seconds: Floats  # (k + 2,) [s]
    launches: Floats  # (k + 2,)
    power_w: Floats  # (k + 2,) NaN where it never ran
    energy_j: Floats
    energy_sd_j: Floats
    prior_share: Floats  # (k + 2,) share of each power's variance left by the readings, 0 to 1
    identification: Identified
    covariance: Floats  # (k + 2, k + 2) of the energies [J^2]
    noise_w: float
    fitted_w: Floats  # (n,) readings as the solution explains them [W]
    launch_spread: float  # relative standard deviation of power between launches of one class [1]
    sensor_j: Floats  # (2, k + 2) of each energy per deviation of the sensor's gain, offset [J]

    def group_energy(self) -> tuple[Floats, Floats]:
        """Return the joint energy of each class's group and its standard deviation; NaN where alone. [J]"""
        energy, deviation = np.full(len(self.seconds), np.nan), np.full(len(self.seconds), np.nan)
        for number in np.unique(self.identification.group[self.identification.group >= 0]):
            members = self.identification.group == number
            energy[members] = self.energy_j[members].sum()
            deviation[members] = np.sqrt(max(self.covariance[np.ix_(members, members)].sum(), 0.0))
        return energy, deviation

    def interval(self) -> tuple[Floats, Floats]:
        """Return both ends of each energy's 90 % interval. [J]"""
        return np.maximum(self.energy_j - Z90 * self.energy_sd_j, 0.0), self.energy_j + Z90 * self.energy_sd_j


def attribute_classes(
    observation: Observation,
    *,
    expected_w: Floats | None = None,
    limit_w: float = np.nan,
    counter: PowerLog | None = None,
    unsteady: float = 0.0,
    copies: Bools | None = None,
) -> ClassEnergy:
    """Return the energy of each class of the observation's timeline.

    Parameters
    ----------
    observation : Observation
        The log and the timeline, aligned.
    expected_w : array, shape (classes,), optional
        A prior: power of each class, NaN where unknown. Measured stays independent of predicted
        unless it is given. [W]
    limit_w : float, optional
        The GPU's power limit. [W]
    counter : PowerLog, optional
        A log whose energy counter was found usable: its total is kept.
    unsteady : float
        Share by which the power of all work is known to have varied, e.g. with a throttled clock. [1]
    copies : array of bool, shape (classes,), optional
        Classes that are copies or fills, which have a prior of their own.

    Raises
    ------
    BadInput
        If no reading is above a milliwatt.
    """
    sensor, readings = observation.sensor, observation.readings
    _check_power(observation)
    design_of_log = design(readings, observation.boxes, observation.timeline)
    prior = prior_of(readings.power_w, design_of_log, expected_w, limit_w, copies)
    totals = counted_stretches(observation, counter)
    solved = solve(design_of_log.matrix, readings.power_w, prior, unsteady=unsteady, totals=totals)

    def resolve(elsewhere: Design) -> Floats:
        return resolved(elsewhere.matrix, readings.power_w, prior, solved, totals=totals)

    moved = _moved_powers(observation, design_of_log, solved, resolve)
    seconds = design_of_log.seconds
    power = (solved.power_w - sensor.offset_w) / sensor.gain
    energy = power * seconds
    shared_j = _shared_errors(sensor, seconds, energy, moved)
    covariance = _energy_covariance(solved, sensor, seconds, shared_j)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    length = sensor.window_s if sensor.kind == "boxcar" else 2.0 * sensor.lag_s
    independent = min(1.0, readings.update_s / max(length, 1e-9))
    identified = identify(
        coverage_of(design_of_log.matrix, independent),
        seconds=seconds,
        readings_covariance=solved.readings_covariance,
        prior_sd_w=prior.sd_w,
        own_information=solved.own_information,
        variance_inflation=solved.variance_inflation,
        alignment_sd_w=np.sqrt(np.sum(np.square(moved), axis=0)) if moved else 0.0,
    )
    ran = np.where(seconds > 0, 0.0, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip(np.diag(solved.covariance) / prior.sd_w**2, 0.0, 1.0)
    return ClassEnergy(
        seconds,
        design_of_log.launches.astype(np.float64),
        power + ran,
        energy,
        deviation,
        share,
        identified,
        covariance,
        solved.noise_w,
        solved.fitted_w,
        launch_spread(design_of_log, solved, readings.power_w, length),
        shared_j[:2],
    )


def _check_power(observation: Observation) -> None:
    """Raise BadInput if no reading is above a milliwatt."""
    highest_w = float(observation.readings.power_w.max())
    if not highest_w > _LEAST_W:
        raise BadInput(
            f"{observation.field} never rises above {max(highest_w, 0.0):g} W",
            "choose another field, or log again",
        )


def _shared_errors(sensor: Sensor, seconds: Floats, energy: Floats, moved: Sequence[Floats]) -> Floats:
    """Return errors common to all energies: of gain, offset and m changes of powers. (2 + m, k + 2) [J]"""
    of_gain = (sensor.gain_sd / sensor.gain) * (energy - sensor.pivot_w * seconds)
    of_offset = (sensor.offset_sd_w / sensor.gain) * seconds
    return np.stack([of_gain, of_offset, *(moved_w * seconds / sensor.gain for moved_w in moved)])


def _energy_covariance(solved: Solution, sensor: Sensor, seconds: Floats, shared_j: Floats) -> Floats:
    """Return the covariance of the energies, from the readings and the errors they share. [J^2]"""
    each = np.sqrt(solved.variance_inflation) / sensor.gain * seconds
    covariance = solved.covariance * each[:, None]
    covariance *= each
    covariance += shared_j.T @ shared_j
    return np.asarray(covariance)


def _moved_powers(
    observation: Observation, base_design: Design, solved: Solution, resolve: Callable[[Design], Floats]
) -> list[Floats]:
    """Return the changes of the powers for one standard deviation of clock offset and of window length. [W]

    Several arrays of shape (k + 2,); a deviation of the offset is split into one for each direction.
    """
    readings, timeline = observation.readings, observation.timeline
    step, wider_s = observation.alignment.offset_sd_s, observation.window_sd_s
    if not len(timeline.start_s):
        return []

    def answer(moved_design: Design) -> Floats:
        miss = np.asarray((moved_design.matrix - base_design.matrix) @ solved.power_w)
        pull = np.asarray(base_design.matrix.T @ (solved.weight * miss)) / solved.noise_w**2
        return np.asarray(solved.covariance @ pull)

    if observation.placement is not None and base_design.matrix.nnz < _MANY_CELLS:
        return _placed_powers(observation, observation.placement, resolve)
    answers = []
    if step > 0:
        for sign in (-1.0, 1.0):
            shifted = timeline.shifted(sign * step)
            answers.append(np.sqrt(0.5) * answer(design(readings, observation.boxes, shifted)))
    if wider_s > 0:
        sensor = replace(observation.sensor, window_s=observation.sensor.window_s + wider_s)
        answers.append(answer(design(readings, sensor_boxes(sensor, readings.jitter_s), timeline)))
    return answers


def _placed_powers(
    observation: Observation, placement: Placement, resolve: Callable[[Design], Floats]
) -> list[Floats]:
    """Return the deviations of the powers over draws of the alignment from its posterior. [W]"""
    alignment, readings, sensor = observation.alignment, observation.readings, observation.sensor
    powers = []
    for offset, window, drift in placement.drawn(_DRAWS):
        moved = observation.timeline.shifted(
            float(offset - alignment.offset_s), float(drift - alignment.drift), placement.pivot_s
        )
        boxes = sensor_boxes(replace(sensor, window_s=float(window)), readings.jitter_s)
        powers.append(resolve(design(readings, boxes, moved)))
    middle = np.mean(powers, axis=0)
    return [(power - middle) / np.sqrt(len(powers)) for power in powers]
