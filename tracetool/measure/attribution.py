"""Energy of every class of work, from readings that each see many of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tracetool.core.arrays import Bools, Floats, Ints, Texts
from tracetool.core.errors import BadInput
from tracetool.core.interval import Z90
from tracetool.hardware.sensors import Sensor
from tracetool.measure.counter_stretches import counted_stretches
from tracetool.measure.design_matrix import Design, design
from tracetool.measure.filters import sensor_boxes
from tracetool.measure.joint_alignment import Placement
from tracetool.measure.launch_spread import launch_spread
from tracetool.measure.observe import Observation
from tracetool.measure.power_log import PowerLog
from tracetool.measure.prior import prior_of
from tracetool.measure.ridge_solver import Solution, resolved, solve

#: A class is identified when the readings alone know its power to this share of its spread before. [1] A
#: prior: at half, the readings have four times the weight of what was believed before.
_KNOWN = 0.5
#: Fewer windows than this see a class at random. [windows] A prior.
_FEWEST = 2.0
#: Correlation of errors below which they do not join two classes into a group. [1] A prior.
_TOGETHER = 0.1
#: A group counts as identified when its joint energy is known to this share of its members' spread. [1] A
#: prior, half of ``_KNOWN``: a sum is known better than its members.
_GROUP_KNOWN = 0.25
#: Rounds of joining; each joins every pair that cancels best. [1] A prior: 15 halvings are 30,000 classes.
_ROUNDS = 15
#: Share of a column's square no other classes explain, below which it is not identifiable: what separates
#: two kernels that always run in one ratio is then only where windows cut them, and that rests on stamps
#: and on kernels being exactly alike, more than on the readings. [1] A prior.
_APART = 0.01
#: Places of a log and its window that powers are solved for, and cells of the design from which on two do.
#: [1] A prior; the second for speed alone.
_DRAWN, _MANY_CELLS = 15, 2_000_000
#: No GPU draws less, whatever it does. [W] A prior.
_LEAST_W = 1e-3


@dataclass(frozen=True)
class Identified:
    """Classes that the log separates."""

    coverage: Floats  # (k,) whole sensor windows that saw it
    identified: Bools  # (k,)
    reason: Texts  # (k,) "" where known
    group: Ints  # (k,) -1 where alone


def coverage_of(matrix: sparse.csr_matrix, independent: float) -> Floats:
    """Return the sensor windows that saw each class, in whole windows. Shape (k,).

    ``independent`` is the share of a window that is new in each reading: update period over window
    length, at most 1.
    """
    return np.asarray(matrix.sum(axis=0)).ravel() * independent


def identify(
    coverage: Floats,
    *,
    seconds: Floats,
    loose: Floats,
    tight_sd: Floats,
    apart: Floats,
    stretch: float,
    placed_sd: Floats | float = 0.0,
) -> Identified:
    """Return which of k classes the readings identify.

    Parameters
    ----------
    coverage : array, shape (k,)
        Whole windows that saw each class.
    seconds : array, shape (k,)
        Time each class runs. [s]
    loose : array, shape (k, k)
        Covariance of the powers with ties so wide that only readings count. [W^2]
    tight_sd : array, shape (k,)
        Spread of each power before any reading. [W]
    apart : array, shape (k,)
        Share of each class's column of the design that no combination of others explains.
    stretch : float
        Factor on variances.
    placed_sd : array, shape (k,), optional
        What the open place of the log adds to each power's deviation. [W]

    Notes
    -----
    Two classes that always run in one ratio leave a direction in which only the ties hold; there
    their errors cancel: correlation near -1 under loose ties. Such classes form a group whose joint
    energy is known though no member is.
    """
    sd = np.sqrt(np.maximum(np.diag(loose), 0.0) * stretch)
    unseen = coverage < _FEWEST
    mixed = apart < _APART
    vague = np.hypot(sd, placed_sd) > _KNOWN * tight_sd
    identified = ~(unseen | mixed | vague)
    group = np.full(len(sd), -1, dtype=np.int64)
    open_classes = np.flatnonzero(~identified & (coverage > 0))
    if len(open_classes) > 1:
        energy = loose[np.ix_(open_classes, open_classes)] * np.outer(
            seconds[open_classes], seconds[open_classes]
        )
        enough = _GROUP_KNOWN * tight_sd[open_classes] * seconds[open_classes]
        label = join_canceling(energy * stretch, enough, mixed[open_classes])
        joined = np.bincount(label)[label] > 1
        _, group[open_classes[joined]] = np.unique(label[joined], return_inverse=True)
    reason = np.full(len(sd), "", dtype=object)
    reason[vague] = "the readings do not constrain its power"
    reason[(vague | mixed) & (group >= 0)] = "never separates from the other classes of its group"
    reason[unseen] = "fewer than two sensor windows saw it"
    reason[coverage <= 0] = "no sensor window saw it"
    return Identified(coverage, identified, reason, group)


def join_canceling(covariance: Floats, enough: Floats, mixed: Bools | None = None) -> Ints:
    """Join energies whose errors cancel, pair by pair, until each group's sum is known.

    Parameters
    ----------
    covariance : array, shape (n, n)
        Of the energies. [J^2]
    enough : array, shape (n,)
        Deviation below which an energy is known; that of a group is its members' together. [J]
    mixed : array of bool, shape (n,), optional
        Those that no reading separates: they are joined however well the ties or windows' edges seem to
        know them.

    Returns
    -------
    array of int, shape (n,)
        Number of the group that each is in.
    """
    mixed = np.zeros(len(enough), np.bool_) if mixed is None else mixed
    label = np.arange(len(enough))
    for _ in range(_ROUNDS):
        variance = np.maximum(np.diag(covariance), 0.0)
        scale = np.sqrt(np.maximum(variance, 1e-300))
        alike = covariance / np.outer(scale, scale)
        done = (scale < enough) & ~mixed
        alike[done, :] = 0.0
        np.fill_diagonal(alike, 0.0)
        partner = np.argmin(alike, axis=1)
        pull = alike[np.arange(len(partner)), partner]
        positions = np.arange(len(partner))
        chosen = (pull < -_TOGETHER) & ((partner[partner] == positions) | done[partner])
        if not chosen.any():
            return label
        link = sparse.coo_matrix(
            (np.ones(int(chosen.sum())), (positions[chosen], partner[chosen])), alike.shape
        )
        count, into = csgraph.connected_components(link, directed=False)
        step = sparse.coo_matrix((np.ones(len(into)), (into, positions)), (count, len(into))).tocsr()
        covariance = np.asarray(step @ (step @ covariance).T)
        enough = np.asarray(step @ enough)
        mixed = mixed[np.unique(into, return_index=True)[1]] & (np.bincount(into) == 1)
        label = into[label]
    return label


@dataclass(frozen=True)
class ClassEnergy:
    """Energy of k classes of work, then gaps and idle, within the log's span. True watts and joules."""

    seconds: Floats  # (k + 2,) [s]
    launches: Floats  # (k + 2,)
    power_w: Floats  # (k + 2,) NaN where it never ran
    energy_j: Floats
    energy_sd_j: Floats
    prior_share: Floats  # 0 to 1
    identification: Identified
    covariance: Floats  # (k + 2, k + 2) of the energies [J^2]
    noise_w: float
    fitted_w: Floats  # (n,) readings as explained
    unlike: float  # by which launches of one class differ in power [1]
    sensor_j: Floats  # (2, k + 2) what a deviation of the sensor's gain, and offset, makes of each energy [J]

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
        By what share the power of all work is known to have moved, as with a clock that did. [1]
    copies : array of bool, shape (classes,), optional
        Classes that are copies or fills: of one that no window separates no kernel's power is believed.

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
        loose=solved.loose,
        tight_sd=prior.sd_w,
        apart=solved.apart,
        stretch=solved.stretch,
        placed_sd=np.sqrt(np.sum(np.square(moved), axis=0)) if moved else 0.0,
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
    """Return errors common to all energies: of gain, offset and m powers ``moved``. (2 + m, k + 2) [J]"""
    of_gain = (sensor.gain_sd / sensor.gain) * (energy - sensor.pivot_w * seconds)
    of_offset = (sensor.offset_sd_w / sensor.gain) * seconds
    return np.stack([of_gain, of_offset, *(moved_w * seconds / sensor.gain for moved_w in moved)])


def _energy_covariance(solved: Solution, sensor: Sensor, seconds: Floats, shared_j: Floats) -> Floats:
    """Return the covariance of the energies, from the readings and the errors they share. [J^2]"""
    each = np.sqrt(solved.stretch) / sensor.gain * seconds
    covariance = solved.covariance * each[:, None]
    covariance *= each
    covariance += shared_j.T @ shared_j
    return np.asarray(covariance)


def _moved_powers(
    observation: Observation, base_design: Design, solved: Solution, resolve: Callable[[Design], Floats]
) -> list[Floats]:
    """Return the changes of powers for one deviation of offset or window; an offset's split by direction."""
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
    """Return the deviations of the powers solved at places drawn from the posterior."""
    alignment, readings, sensor = observation.alignment, observation.readings, observation.sensor
    powers = []
    for offset, window, drift in placement.drawn(_DRAWN):
        moved = observation.timeline.shifted(
            float(offset - alignment.offset_s), float(drift - alignment.drift), placement.pivot_s
        )
        boxes = sensor_boxes(replace(sensor, window_s=float(window)), readings.jitter_s)
        powers.append(resolve(design(readings, boxes, moved)))
    middle = np.mean(powers, axis=0)
    return [(power - middle) / np.sqrt(len(powers)) for power in powers]
