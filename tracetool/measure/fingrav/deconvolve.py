"""A kernel's power profile from a sampler that averages over more than one execution."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.measure.fingrav.averaged import Windows
from tracetool.measure.fingrav.basis import Basis
from tracetool.measure.fingrav.deconvolution_model import Model, State

#: Rounds that place the windows, weigh the samples and look again; with the windows' place known.
_ROUNDS, _FEW_ROUNDS = 9, 3
#: Rounds with closer time constants, the samples' noise known.
_CLOSER_ROUNDS = 2
#: Share of one time constant of settling from which closer ones are tried about it, since samples tell it
#: better than those are apart; and how often at most: they are within 1 % of each other then. [1] Settings.
_ONE_ALONE, _CLOSER_AT_MOST = 0.5, 3
#: Correlation of noise from which the components' sum is the total again.
_SAME = 0.9
_DRAWS = 200
#: Mean error of a profile aimed at, relative to its power.
GOAL = 0.03
#: Windows placed worse than this part of an execution do not resolve its profile.
_PLACED = 0.15
#: Weight from which a prior counts; phases looked at; multiples of the runs whose error is predicted.
_LIKELY, _GRID, _FACTORS = 1e-3, np.linspace(0.0, 1.0, 41), np.geomspace(0.1, 100.0, 61)


@dataclass(frozen=True)
class Deconvolution:
    """Profile deconvolved from averaged samples; rows of ``draws`` are equally likely."""

    windows: Windows  # with the time constants of ``settling_w``
    basis: Basis
    departure_w: Floats  # (k,) of the profile from its mean [W]
    mean_w: float  # settled power [W]
    settling_w: Floats  # (c,) by constant, above it at steady execution
    draws: Floats  # (b, k + 1 + c) of all three
    place_s: float  # windows end this much later than stamped [s]
    width_s: float  # [s]
    error: float  # expected mean error of the profile, relative to its mean [1]
    resolved_share: float  # share of the profile's variance that samples, not assumption, settle; 0 to 1
    runs_factor: float  # times as many runs bring ``error`` to 3 %


def deconvolve(
    windows: Windows,
    power_w: Floats,
    parts_w: Floats | None = None,
    *,
    at: tuple[float, float] | None = None,
    seed: int = 0,
) -> Deconvolution:
    r"""Return a kernel's power profile from samples that are means over windows.

    Parameters
    ----------
    windows : Windows
        Samples used, and the executions they saw.
    power_w : array, shape (n,)
        Those samples. [W]
    parts_w : array, shape (n,), optional
        Sum of the components logged beside them: with noise of its own it shows the common profile again. [W]
    at : (place, width), optional
        Where windows end after their stamps, and how long they are, if that is known. [s]
    seed : int
        Of the draws.

    Notes
    -----
    A sample is :math:`y_n = \sum_j s_{nj} P_j + \sum_j \rho_j \int_{u'_{nj}}^{u_{nj}} d(u)\,du + \epsilon_n`:
    shares of the window times mean powers, and what the cut executions' profile :math:`d` departs from its
    mean, for whole ones add nothing. Two readings that differ by one cut thus show the power at it. The
    profile has a Gaussian prior, quicker at both ends, where a kernel fills and drains the machine; its
    height, quickness and the settling's time constant are averaged over by their evidence; where one constant
    has most of it closer ones are tried about it, for one that is 2 % off moves the power of steady execution
    by 0.1 %. Place and width of the windows are unknowns too, for every edge of a run marks the samples about
    it; noise is a constant and a share of power: samples that are mostly idle show a run's edges best.
    """
    placed, rounds = at or (0.0, windows.samples.window_s), _ROUNDS if at is None else _FEW_ROUNDS
    model = Model.of(windows, power_w, parts_w)
    state, placed = _solved(model, model.start(), placed, rounds, free=at is None)
    if parts_w is not None and state.alike > _SAME:
        return deconvolve(windows, power_w, at=at, seed=seed)  # the components show nothing of their own
    for _ in range(_CLOSER_AT_MOST):
        share = model.share_of_constants(state)
        if share.max() < _ONE_ALONE:
            break
        model = Model.of(model.windows.about(int(share.argmax())), power_w, parts_w)
        noise = {name: getattr(state, name) for name in ("noise_w", "parts_noise_w", "alike")}
        begin = replace(model.start(), **noise)
        state, placed = _solved(model, begin, placed, _CLOSER_ROUNDS, free=at is None)
    return _with_draws(model, state, *placed, np.random.default_rng(seed))


def _solved(
    model: Model, state: State, placed: tuple[float, float], rounds: int, *, free: bool
) -> tuple[State, tuple[float, float]]:
    """Return the unknowns after some rounds, and the windows' place and width: those given unless free. [s]

    The rounds end early where the noise of the components' sum is the total's.
    """
    place, width = placed
    step = 0.1 * model.windows.samples.window_s
    for turn in range(rounds):
        if free and turn:
            place += float(np.clip(state.mean[-2], -step, step))
            width += float(np.clip(state.mean[-1], -step, step))
        everything = turn in (0, 2, rounds - 1)
        state = model.solve(state, place, width, free=free, everything=everything)
        if turn == 2 and state.alike > _SAME:
            break
    return state, (place, width)


def _with_draws(
    model: Model, state: State, place: float, width: float, random: np.random.Generator
) -> Deconvolution:
    """Return the profile with draws of it, each prior weighted by its evidence."""
    k, q, _ = model.sizes
    full_integral = model.basis.integral(np.array([1.0]))[0]
    shape = model.basis.at(_GRID) - full_integral
    nth = random.choice(len(model.priors), _DRAWS, p=state.weight / state.weight.sum())
    draws = np.tile(model.prior_mean(place, width), (_DRAWS, 1))
    likely = np.flatnonzero(state.weight > _LIKELY)
    share = state.weight[likely] / state.weight[likely].sum()
    within, before = np.zeros((len(_FACTORS), len(_GRID))), np.zeros(len(_GRID))
    middle = np.zeros((len(likely), len(_GRID)))
    for row, i in enumerate(likely):
        prior = model.priors[i]
        _, chosen, away, spread = model.posterior(prior, state.gram, state.side)
        own_draws = np.flatnonzero(nth == i)
        draws[np.ix_(own_draws, chosen)] += (
            away + random.standard_normal((len(own_draws), len(spread))) @ spread
        )
        columns = model.shape_columns(chosen)
        middle[row] = shape @ away[columns].sum(axis=0)
        before += share[row] * (model.level_w @ model.level_w) * ((shape @ prior.half) ** 2).sum(axis=1)
        information, combinations = model.information(prior, state.gram)
        remaining = 1.0 / (1.0 + np.outer(_FACTORS, information))
        within += share[row] * (remaining @ (combinations[:, columns].sum(axis=1) @ shape.T) ** 2)
    between = share @ (middle - share @ middle) ** 2
    many = draws[:, :-2].reshape(_DRAWS, model.blocks, -1).sum(axis=1)
    mean = state.mean[:-2].reshape(model.blocks, -1).sum(axis=0)
    variance = within + between / np.maximum(_FACTORS, 1.0)[:, None]
    errors = np.sqrt(2.0 / np.pi * variance).mean(axis=1) / abs(mean[k])
    now = int(np.argmin(np.abs(_FACTORS - 1.0)))
    enough = np.flatnonzero(errors <= GOAL)
    length = float(np.median(model.windows.executions.duration_s))
    lost = float(draws[:, -2].std()) > _PLACED * length
    resolved_share = 0.0 if lost else float(max(0.0, 1.0 - variance[now].sum() / before.sum()))
    return Deconvolution(
        model.windows,
        model.basis,
        mean[:k] - full_integral @ mean[:k],
        float(mean[k]),
        mean[k + q :],
        np.hstack([many[:, :k] - (many[:, :k] @ full_integral)[:, None], many[:, [k]], many[:, k + q :]]),
        place,
        width,
        float(errors[now]),
        resolved_share,
        float(_FACTORS[enough[0]]) if len(enough) and not lost else np.inf,
    )
