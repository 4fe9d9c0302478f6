"""The linear model behind deconvolution: samples as sums over power profile, mean powers, window place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from tracetool.core.arrays import Floats, Ints
from tracetool.measure.fingrav.averaged import Windows
from tracetool.measure.fingrav.basis import Basis, end_spline

#: A stated width of the window holds to this share.
WIDTH_SD = 0.02
#: Spread before any sample, relative to the kernel's power: warm-up and odd executions, settling.
_OTHER_SD, _SETTLING_SD = 0.3, 0.2
#: Departures of a profile from its mean that are tried, and over what part of it they change.
_AMPLITUDES, _LENGTHS = (0.03, 0.06, 0.12, 0.24), (0.12, 0.2, 0.35)
#: Degrees of freedom of the samples' noise.
_FREEDOM = 6.0
#: Weight below which a prior is passed over between two looks at all of them.
_UNLIKELY = 1e-4


def noise_of(miss_w: Floats, power_w: Floats) -> Floats:
    """Return the standard deviation of samples: a constant and a share of power; odd ones are noisier. [W]"""
    level = np.maximum(np.abs(power_w), 1e-3)
    high = float(np.quantile(level, 0.9))
    best, chosen = -np.inf, np.ones(len(level))
    for share in (0.0, 0.5, 0.7, 0.85, 0.93, 1.0):
        form = np.maximum(np.hypot(1.0 - share, share * level / high), 1e-3)
        scale = max(1.4826 * float(np.median(np.abs(miss_w) / form)), 1e-5 * high)
        each = scale * form
        tail = np.log1p((miss_w / each) ** 2 / _FREEDOM)
        value = float(-np.log(each).sum() - 0.5 * (_FREEDOM + 1) * tail.sum())
        if value > best:
            best, chosen = value, each
    weight = (_FREEDOM + 1) / (_FREEDOM + (miss_w / chosen) ** 2)
    return np.asarray(chosen / np.sqrt(np.minimum(weight, 1.0)))


@dataclass(frozen=True)
class State:
    """Unknowns as far as known, for every kind of prior tried."""

    mean: Floats  # (p,) all constants of settling side by side
    noise_w: Floats  # (n,) of the samples
    parts_noise_w: Floats  # (n,) of the components' sum
    alike: float  # correlation of both noises
    gram: Floats  # (p, p)
    side: Floats  # (p,)
    weight: Floats  # (h,) of each prior


@dataclass(frozen=True)
class Prior:
    """One guess of how a profile departs from its mean and how fast power settles."""

    constant: int  # of settling, its place among those tried
    half: Floats  # (k, k) Cholesky factor of the profile's covariance


@dataclass(frozen=True)
class Model:
    """A campaign's samples as a linear model of its powers, under every prior tried.

    Unknowns stand in blocks: profile, mean powers, settling by constant. Without components there is one
    block; with them one for their sum and one for what the total holds besides. Last come place and width.
    """

    windows: Windows
    power_w: Floats  # (n,)
    parts_w: Floats | None  # (n,) sum of the components
    basis: Basis
    priors: tuple[Prior, ...]
    level_w: Floats  # (blocks,) typical power of the components' sum and the rest, or of all

    @classmethod
    def of(cls, windows: Windows, power_w: Floats, parts_w: Floats | None) -> Model:
        """Return the model with its priors: departures of any height and length, any constant of settling."""
        basis, positions = end_spline()
        high = float(np.quantile(power_w, 0.9))
        level = [high]
        if parts_w is not None:
            typical_w = float(np.quantile(parts_w, 0.9))
            level = [typical_w, max(abs(high - typical_w), 0.01 * high)]
        halves = []
        for length in _LENGTHS:
            apart = np.sqrt(5.0) * np.abs(positions[:, None] - positions[None, :]) / length
            kernel = (1.0 + apart + apart**2 / 3.0) * np.exp(-apart)
            halves.append(np.linalg.cholesky(kernel + 1e-8 * np.eye(len(positions))))
        constants = range(len(windows.constants))
        priors = tuple(Prior(c, h * a) for c in constants for h in halves for a in _AMPLITUDES)
        return cls(windows, power_w, parts_w, basis, priors, np.array(level))

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.level_w)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Unknowns of one block: profile, levels, settling by constant."""
        return self.basis.size, self.windows.sse + 3, len(self.windows.constants)

    def start(self) -> State:
        """Return the state before any sample."""
        k, q, c = self.sizes
        size = self.blocks * (k + q + c) + 2
        n = len(self.power_w)
        noise = np.full(n, 0.02 * float(np.quantile(self.power_w, 0.9)))
        mean = self.prior_mean(0.0, self.windows.samples.window_s)
        none = np.ones(len(self.priors)) / len(self.priors)
        return State(mean, noise, noise.copy(), 0.0, np.zeros((size, size)), np.zeros(size), none)

    def prior_mean(self, place: float, width: float) -> Floats:
        """Return the unknowns before any sample, windows placed so. Shape (p,)."""
        k, q, c = self.sizes
        levels = np.append(np.ones(q - 1), 0.3)
        each = [np.concatenate([np.zeros(k), level * levels, np.zeros(c)]) for level in self.level_w]
        return np.concatenate([*each, [-place, self.windows.samples.window_s - width]])

    def _prior_sd(self) -> Floats:
        k, q, c = self.sizes
        levels = np.concatenate([[1.0], np.full(q - 2, _OTHER_SD), [1.0]])
        each = [
            level * np.concatenate([np.zeros(k), levels, np.full(c, _SETTLING_SD)]) for level in self.level_w
        ]
        samples = self.windows.samples
        return np.concatenate([*each, [max(samples.error_s, 1e-9), WIDTH_SD * samples.window_s]])

    def _scale(self, mean: Floats) -> Floats:
        """Power of each execution over the settled one. Shape (e,)."""
        k, q, c = self.sizes
        one = mean[: self.blocks * (k + q + c)].reshape(self.blocks, -1).sum(axis=0)
        levels, settling = one[k : k + q], one[k + q :]
        executions, sse = self.windows.executions, self.windows.sse
        places = np.arange(int(executions.position.max()) + 1)
        table = 1.0 + self.windows.settling(places) @ settling / levels[0]
        table[:sse] = levels[1 : 1 + sse] / levels[0]
        odd = ~self.windows.inside & (executions.position >= sse)
        return np.asarray(np.where(odd, levels[-2] / levels[0], table[executions.position]))

    def solve(self, state: State, place: float, width: float, *, free: bool, everything: bool) -> State:
        """Return the unknowns with windows placed so, their place and width free to move or not."""
        k, q, c = self.sizes
        each = k + q + c
        scale = self._scale(state.mean)

        def columns_at(place_s: float, width_s: float) -> Floats:
            return self.windows.columns(place_s, width_s, self.basis, scale)

        columns = columns_at(place, width)
        blocks = state.mean[:-2].reshape(self.blocks, each)
        fitted_before = state.gram.any()
        slopes = np.zeros((len(columns), 2, self.blocks))
        if free and fitted_before:
            step = self.windows.probe_s()
            up = columns_at(place + step, width) - columns_at(place - step, width)
            wide = columns_at(place, width + step) - columns_at(place, width - step)
            slopes = np.stack([up, wide], axis=1) @ blocks.T / (2.0 * step)
        prior = self.prior_mean(place, width)
        total = np.hstack([*[columns] * self.blocks, slopes.sum(axis=2)])
        rows = total / state.noise_w[:, None]
        target = (self.power_w - total @ prior) / state.noise_w
        parts_columns = np.zeros((0, total.shape[1]))
        if self.parts_w is not None:
            parts_columns = np.hstack([columns, np.zeros_like(columns), slopes[:, :, 0]])
            scaled_parts = parts_columns / state.parts_noise_w[:, None]
            parts_target = (self.parts_w - parts_columns @ prior) / state.parts_noise_w
            clear = np.sqrt(1.0 - state.alike**2)
            rows = np.vstack([(rows - state.alike * scaled_parts) / clear, scaled_parts])
            target = np.concatenate([(target - state.alike * parts_target) / clear, parts_target])
        gram, side = rows.T @ rows, rows.T @ target
        # What explained next to nothing last time is looked at again only when all are.
        tried = np.flatnonzero(state.weight > (0.0 if everything else _UNLIKELY))
        posteriors = [self.posterior(self.priors[i], gram, side) for i in tried]
        evidence = np.array([f[0] for f in posteriors])
        weight = np.zeros(len(self.priors))
        weight[tried] = np.exp(evidence - evidence.max())
        weight /= weight.sum()
        mean = prior.copy()
        for i, (_, chosen, away, _) in zip(tried, posteriors, strict=True):
            mean[chosen] += weight[i] * away
        weight = np.maximum(weight, 1e-300)
        miss = self.power_w - total @ mean
        noise = noise_of(miss, total[:, :-2] @ mean[:-2])
        parts_noise, alike = state.parts_noise_w, 0.0
        if self.parts_w is not None:
            parts_miss = self.parts_w - parts_columns @ mean
            parts_noise = noise_of(parts_miss, parts_columns[:, :-2] @ mean[:-2])
            clipped = np.clip(miss / noise, -3.0, 3.0), np.clip(parts_miss / parts_noise, -3.0, 3.0)
            alike = float(np.clip(np.corrcoef(*clipped)[0, 1], -0.98, 0.98))
        return State(mean, noise, parts_noise, alike, gram, side, weight)

    def share_of_constants(self, state: State) -> Floats:
        """Return the share of the evidence that each time constant of settling has. Shape (c,)."""
        each = np.bincount([prior.constant for prior in self.priors], state.weight)
        return np.asarray(each / each.sum())

    def shape_columns(self, chosen: Ints) -> Ints:
        """Return the indices of each block's profile among the chosen unknowns. Shape (blocks, k)."""
        each = (len(chosen) - 2) // self.blocks
        return np.asarray(each * np.arange(self.blocks)[:, None] + np.arange(self.basis.size))

    def _chosen(self, prior: Prior) -> Ints:
        """Unknowns a prior keeps: one constant of settling."""
        k, q, c = self.sizes
        each = k + q + c
        block = np.append(np.arange(k + q), k + q + prior.constant)
        size = self.blocks * each
        indices = [*(block + b * each for b in range(self.blocks)), np.array([size, size + 1])]
        return np.concatenate(indices).astype(np.int64)

    def _half(self, prior: Prior, chosen: Ints) -> Floats:
        """Cholesky factor of the unknowns' prior covariance."""
        k = self.basis.size
        half = np.diag(self._prior_sd()[chosen])
        each = (len(chosen) - 2) // self.blocks
        for b, level in enumerate(self.level_w):
            half[b * each : b * each + k, b * each : b * each + k] = level * prior.half
        return half

    def information(self, prior: Prior, gram: Floats) -> tuple[Floats, Floats]:
        r"""Return the samples' information on combinations of unknowns, and a root of the prior covariance.

        With :math:`f` times the samples the covariance is :math:`R^T (1 + f\lambda)^{-1} R`, combination by
        combination: all multiples by one decomposition.
        """
        chosen = self._chosen(prior)
        half = self._half(prior, chosen)
        information, combined = linalg.eigh(half.T @ gram[np.ix_(chosen, chosen)] @ half, check_finite=False)
        return np.maximum(information, 0.0), combined.T @ half.T

    def posterior(self, prior: Prior, gram: Floats, side: Floats) -> tuple[float, Ints, Floats, Floats]:
        """Return log evidence, chosen unknowns, their shift from the prior and their covariance's root."""
        chosen = self._chosen(prior)
        half = self._half(prior, chosen)
        inner = half.T @ gram[np.ix_(chosen, chosen)] @ half
        inner[np.diag_indices_from(inner)] += 1.0
        root = linalg.cholesky(inner, lower=True, check_finite=False)
        whitened = linalg.solve_triangular(root, half.T @ side[chosen], lower=True, check_finite=False)
        spread = linalg.solve_triangular(root, half.T, lower=True, check_finite=False)
        value = float(0.5 * whitened @ whitened - np.log(np.diag(root)).sum())
        return value, chosen, spread.T @ whitened, spread
