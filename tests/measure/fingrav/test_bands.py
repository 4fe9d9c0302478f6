"""Bands of a trend hold the true curve nine times in ten, of one run as of many."""

from __future__ import annotations

import numpy as np
import pytest

from tracetool.measure.fingrav.basis import polynomial
from tracetool.measure.fingrav.campaign_tables import fit_clock
from tracetool.measure.fingrav.executions import in_runs
from tracetool.measure.fingrav.profile import fine_profile
from tracetool.measure.fingrav.stitch import Samples
from tracetool.measure.fingrav.trend import fit_trend

from ..invented_gpu import campaign, gpu_log

#: Invented campaigns of each kind. [1]
_TRIALS = 200
#: Scatter of a sample, and of what a whole run lies off. [W]
_SAMPLE_W, _RUN_W = 15.0, 5.0


def _held(runs: int, samples: int, run_w: float, alike: float = 0.0) -> tuple[float, float, float]:
    """Return how often the band and the mean's interval hold the truth [1], and the latter's width. [W]"""
    random = np.random.default_rng(runs)
    basis = polynomial()
    grid = basis.at(np.linspace(0.0, 1.0, 11))
    truth = np.array([340.0, 60.0, 8.0, 0.0, 0.0])
    whole_w = float(basis.integral(np.array([1.0]))[0] @ truth)
    curve, mean, width = [], [], []
    for trial in range(_TRIALS):
        phase = (np.arange(samples) + random.uniform(size=(runs, 1))) / samples
        noise = random.standard_normal((runs, samples))
        for at in range(1, samples):
            noise[:, at] = alike * noise[:, at - 1] + np.sqrt(1.0 - alike**2) * noise[:, at]
        power = basis.at(phase.ravel()) @ truth + _SAMPLE_W * noise.ravel()
        run = np.repeat(np.arange(runs), samples)
        power += run_w * random.standard_normal(runs)[run]
        trend = fit_trend(basis.at(phase.ravel()), power, run, basis, seed=trial)
        _, low, high = trend.at(np.linspace(0.0, 1.0, 11))
        curve.append(np.mean((low <= grid @ truth) & (grid @ truth <= high)))
        _, mean_low, mean_high = trend.mean()
        mean.append(mean_low <= whole_w <= mean_high)
        width.append(mean_high - mean_low)
    return float(np.mean(curve)), float(np.mean(mean)), float(np.median(width))


@pytest.mark.parametrize(
    ("runs", "samples", "run_w"),
    [
        (1, 40, 0.0),
        (1, 9, 0.0),
        (2, 40, 0.0),
        (2, 40, _RUN_W),
        (6, 40, 0.0),
        (6, 40, _RUN_W),
        (30, 5, _RUN_W),
    ],
)
def test_a_band_holds_the_curve_nine_times_in_ten(runs: int, samples: int, run_w: float) -> None:
    """Of 200 times 180 do, give or take 4: within three deviations, and what few runs leave."""
    curve, mean, _ = _held(runs, samples, run_w)
    assert 0.85 <= curve <= 0.95
    assert 0.83 <= mean <= 0.96


def test_one_run_whose_samples_resemble_each_other_has_a_wider_band() -> None:
    curve, _, width = _held(1, 200, 0.0, alike=0.5)
    assert curve > 0.82
    assert width > 1.3 * _held(1, 200, 0.0)[2]


def test_means_hold_the_truth_though_no_sample_shows_how_an_execution_begins_and_ends() -> None:
    """Kernels of 100 us that fill and drain in a few, clocks that are sure to 2 us: edges are left out."""
    held = []
    for seed in range(4):
        made = campaign(seed=seed, runs=120)
        log = gpu_log(made.steps, seed=seed + 7)
        clock = fit_clock(log.sync_host_s, log.sync_gpu_s, log.sync_delay_s)
        samples = Samples(clock.host(log.gpu_s), log.power_w, 0.0, 1e-3, float(clock.error(log.gpu_s).max()))
        profile = fine_profile(in_runs(made.start_s, made.end_s), samples, seed=seed)
        settled_w = made.ssp_w * (1.0 - 0.12 * np.exp(-36.0 / 8.0))
        for component, share in (("total", 1.0), ("xcd", 0.62), ("iod", 0.2), ("hbm", 0.12)):
            curve = profile.curve("ssp", component)
            held.append(curve.mean_low_w <= share * settled_w <= curve.mean_high_w)
            assert curve.mean_high_w - curve.mean_low_w < 0.03 * curve.mean_w
    assert np.mean(held) > 0.8
