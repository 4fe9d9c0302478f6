"""A light kernel among heavier and lighter ones, on a GPU that remembers what ran before."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.cli.app import run as command
from tracetool.measure.fingrav.interleaving import Activities, ContextPower, interleaving
from tracetool.measure.fingrav.stitch import Samples

from ..invented_gpu import Steps

HEAVY_W, OWN_W, LIGHT_W, IDLE_W = 700.0, 420.0, 200.0, 120.0
LENGTH_S, MEMORY_S = 200e-6, 4e-3


def _campaign(seed: int, gain: float, rows: int = 400) -> tuple[Activities, Steps]:
    """Rows of the kernel after heavy ones, after light ones and after an idle time of 20 ms."""
    random = np.random.default_rng(seed)
    now, start, end, label, edges, watts = 0.05, [], [], [], [0.0], []
    for _ in range(rows):
        kind = int(random.integers(0, 3))
        before = (HEAVY_W, LIGHT_W, OWN_W)[kind]
        for j in range(60):
            other = j < 30 and kind < 2
            length = LENGTH_S * (1 + 0.01 * random.standard_normal())
            since = (max(j - 30, 0) + 0.5) * LENGTH_S if kind < 2 else 1.0
            level = before if other else OWN_W + gain * (before - OWN_W) * np.exp(-since / MEMORY_S)
            if kind < 2 or j >= 30:
                edges += [now, now + length]
                watts += [IDLE_W, level]
                start.append(now)
                end.append(now + length)
                label.append((1 + kind) if other else 0)
                now += length + 2e-6
        now += 0.02 + random.uniform(0.0, 0.002)
    made = Activities(np.array(start), np.array(end), np.array(label), ("own", "heavy", "light"))
    return made, Steps(np.array([*edges, now]), np.array([*watts, IDLE_W]))


def _samples(steps: Steps, seed: int, window_s: float) -> Samples:
    random = np.random.default_rng(seed)
    at = np.arange(0.05, steps.edges_s[-1], 1e-3) + random.uniform(-2e-5, 2e-5)
    power = steps.now(at) if window_s <= 0 else steps.mean(at, window_s)
    return Samples(at, {"total": power * (1 + 0.01 * random.standard_normal(len(at)))}, window_s, 1e-3)


def _of(contexts: tuple[ContextPower, ...], name: str) -> ContextPower:
    return next(c for c in contexts if c.context == name)


@pytest.mark.parametrize("window_s", [0.0, 1e-3])
def test_a_light_kernel_inherits_and_the_history_term_says_how_much(window_s: float) -> None:
    held = []
    for seed in range(3):
        made, steps = _campaign(seed, 0.45)
        found = interleaving(made, _samples(steps, seed, window_s))
        assert found is not None
        heavy, light = _of(found.contexts, "after-heavy"), _of(found.contexts, "after-light")
        alone = _of(found.contexts, "isolated")
        assert heavy.low_w > alone.high_w > alone.low_w > light.high_w
        assert alone.mean_w == pytest.approx(OWN_W, rel=0.02)
        history = found.history
        assert history is not None
        assert history.identifiable
        assert history.gain == pytest.approx(0.45, abs=0.03)
        assert history.memory_s == pytest.approx(MEMORY_S, rel=0.3)
        assert history.power_w == pytest.approx(OWN_W, rel=0.02)
        held.append(history.gain_low < 0.45 < history.gain_high)
    assert sum(held) >= 2


def test_a_kernel_that_forgets_shows_no_history() -> None:
    made, steps = _campaign(4, 0.0)
    found = interleaving(made, _samples(steps, 4, 0.0))
    assert found is not None
    assert found.history is not None
    assert found.history.gain_low < 0.0 < found.history.gain_high or abs(found.history.gain) < 0.02
    assert found.history.gain_high < 0.1


def test_a_sampler_slower_than_the_memory_says_that_it_cannot_tell() -> None:
    made, steps = _campaign(5, 0.45, rows=60)
    found = interleaving(made, _samples(steps, 5, 1.0))
    assert found is not None
    assert found.history is None or not found.history.identifiable or abs(found.history.gain - 0.45) < 0.2


def test_a_kernel_alone_has_no_contexts() -> None:
    made, steps = _campaign(6, 0.45, rows=20)
    own = made.label == 0
    alone = Activities(made.start_s[own], made.end_s[own], made.label[own], ("own",))
    assert interleaving(alone, _samples(steps, 6, 0.0)) is None


def test_the_command_tells_contexts_and_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, steps = _campaign(7, 0.45, rows=250)
    samples = _samples(steps, 7, 0.0)
    names = [made.names[i] for i in made.label]
    times = {"start_us": made.start_s * 1e6, "end_us": made.end_s * 1e6}
    pl.DataFrame({"kernel": names, **times}).write_csv(tmp_path / "executions.csv")
    pl.DataFrame({"time_us": samples.time_s * 1e6, "power_w": samples.power_w["total"]}).write_csv(
        tmp_path / "samples.csv"
    )
    asked = ["profile", str(tmp_path / "executions.csv"), "--power", str(tmp_path / "samples.csv"),
             "--kernel", "own"]  # fmt: skip
    assert command([*asked, "--json", "--picture", str(tmp_path / "p.html")]) == 0
    told = json.loads(capsys.readouterr().out)["interleaving"]
    power = {c["context"]: c["mean_w"] for c in told["contexts"]}
    assert power["after-heavy"] > power["isolated"] > power["after-light"]
    assert told["history"]["gain_low"] < told["history"]["gain"] < told["history"]["gain_high"]
    assert "after-heavy" in (tmp_path / "p.html").read_text("utf-8")
    assert command(asked) == 0
    said = capsys.readouterr().out
    assert "lingers" in said
    assert "after-light" in said
    assert command([*asked[:-1], "absent"]) == 2
