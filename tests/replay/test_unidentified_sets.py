"""Sets of groups that a log does not separate are made of groups, never of their sum."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from tracetool.core.interval import Z90
from tracetool.measure.activity_energy import SummedEnergy
from tracetool.replay.unidentified_sets import GpuGroups, joint_sets, set_sentences

_WORK = 10


def _log(names: list[str]) -> GpuGroups:
    """A log in which idle time errs a little against each of many classes, and so most against their sum."""
    k = _WORK + 1
    covariance = np.diag([*[4.0] * _WORK, 2.0])
    covariance[:-1, -1] = covariance[-1, :-1] = -0.5
    share = np.vstack([np.eye(k), np.ones(k)])
    energy = share @ np.array([*[6.0] * _WORK, 16.0])
    deviation = np.sqrt(np.diag(share @ covariance @ share.T))
    nothing = np.zeros(k + 1)
    classes = cast("Any", SimpleNamespace(covariance=covariance, sensor_j=np.zeros((2, k))))
    ends = (energy - Z90 * deviation, energy + Z90 * deviation)
    return GpuGroups(
        names, SummedEnergy(energy, *ends, nothing.astype(int), deviation, share, nothing, classes)
    )


def _names(whole: str = "run") -> list[str]:
    return [*(f"class {i}" for i in range(_WORK)), "(idle)", whole]


@pytest.mark.parametrize("gpus", [1, 2])
def test_the_run_is_in_no_set_with_its_own_part(gpus: int) -> None:
    sets = joint_sets([_log(_names())] * gpus)
    run = sets.filter("whole").row(0, named=True)
    assert (run["name"], run["identified"], run["set"]) == ("run", False, None)
    assert sets.height == _WORK + 2
    energy = 76.0 * gpus
    assert all(joint <= energy for joint in sets["set_energy_j"].drop_nulls())
    assert not any("run" in sentence for sentence in set_sentences(sets))


def test_a_group_of_the_sums_name_stays_a_group() -> None:
    """A range may be called ``run`` too."""
    names = ["run", *_names()[1:]]
    sets = joint_sets([_log(names)])
    assert sets.filter(pl.col("name") == "run")["whole"].sort().to_list() == [False, True]
    assert sets.height == _WORK + 2
