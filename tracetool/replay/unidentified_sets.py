"""Groups of a run that its log does not separate, and their joint energy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.interval import ENDS, Z90
from tracetool.core.number_text import counted, number
from tracetool.measure.activity_energy import IDENTIFIED, SummedEnergy
from tracetool.measure.identifiability import join_canceling

#: Groups looked at, the ones with most energy among those not identified: joining costs their square.
_MOST: Final = 400
#: Sets, and members of one, that a sentence names.
_NAMED: Final = 3
_LONGEST: Final = 24
_SCHEMA: Final = {
    "name": pl.String, "whole": pl.Boolean, "identified": pl.Boolean, "set": pl.Int64,
    "set_energy_j": pl.Float64, "set_energy_low_j": pl.Float64, "set_energy_high_j": pl.Float64,
}  # fmt: skip


@dataclass(frozen=True)
class GpuGroups:
    """The groups of one GPU with their measured energies."""

    names: Sequence[str]  # (g + 1,) the last one is the sum of all
    measured: SummedEnergy  # of these


def joint_sets(gpus: Sequence[GpuGroups]) -> pl.DataFrame:
    """Return which groups the logs of a run's GPUs identify, and sets of those that they do not.

    Parameters
    ----------
    gpus : sequence of GpuGroups
        All GPUs that groups are summed over.

    Returns
    -------
    DataFrame
        ``name``; ``whole``: whether it is the sum, which is in no set; ``identified``; ``set``: its number,
        from 1, the largest energy first, and the joint energy with its 90 % interval [J]; null where a group
        is identified by itself, or nothing cancels its error.

    Notes
    -----
    Where the readings only ever see two groups in one ratio, their errors cancel: the covariance of their
    energies, errors of GPUs being independent, is negative, and their sum is known though neither is. Those
    that are not known are joined with what cancels their error best until each sum is known
    (:func:`tracetool.measure.identifiability.join_canceling`). The sensor's gain and offset, common to all,
    separate nothing: they are left out of what is known and are in the interval.
    """
    all_names = np.concatenate([np.array(g.names[:-1], dtype=object) for g in gpus])
    names, place = np.unique(all_names, return_inverse=True)
    places = np.split(place, np.cumsum([len(g.names) - 1 for g in gpus])[:-1])
    energy, own_deviation_j = (np.zeros(len(names) + 1) for _ in range(2))
    for groups, gpu in zip(places, gpus, strict=True):
        at = np.append(groups, len(names))
        energy[at] += gpu.measured.energy_j
        own_deviation_j[at] = np.hypot(own_deviation_j[at], gpu.measured.own_deviation_j)
    identified = own_deviation_j < IDENTIFIED * energy
    sets = _sets(gpus, places, energy[:-1], identified[:-1])
    count = int(sets.number.max(initial=0))
    ends = (sets.energy_j, sets.energy_j - Z90 * sets.deviation_j, sets.energy_j + Z90 * sets.deviation_j)
    joint = pl.DataFrame(
        {
            "set": np.arange(1, count + 1),
            **{f"set_energy{end}_j": v for end, v in zip(ENDS, ends, strict=True)},
        }
    )
    rows = pl.DataFrame(
        {
            "name": [*names.tolist(), gpus[0].names[-1]],
            "whole": [False] * len(names) + [True],
            "identified": identified,
            "set": np.append(sets.number, 0),
        }
    ).with_columns(pl.when(pl.col("set") > 0).then("set"))
    return rows.join(joint, on="set", how="left").select(pl.col(n).cast(t) for n, t in _SCHEMA.items())


@dataclass(frozen=True)
class _Sets:
    number: Ints  # (names,) 0 where in none
    energy_j: Floats  # (sets,)
    deviation_j: Floats


def _sets(gpus: Sequence[GpuGroups], places: Sequence[Ints], energy: Floats, identified: Bools) -> _Sets:
    none = _Sets(np.zeros(len(energy), np.int64), np.zeros(0), np.zeros(0))
    chosen = np.lexsort((-np.nan_to_num(energy), identified | ~np.isfinite(energy)))[:_MOST]
    chosen = chosen[np.isfinite(energy[chosen])]
    if identified[chosen].all():
        return none
    covariance, own_covariance = (np.zeros((len(chosen), len(chosen))) for _ in range(2))
    rank = np.full(len(energy), -1)
    rank[chosen] = np.arange(len(chosen))
    for at, gpu in zip(places, gpus, strict=True):
        rows = np.flatnonzero(rank[at] >= 0)
        both = np.ix_(rank[at][rows], rank[at][rows])
        of_gpu = gpu.measured.covariance_j2(rows)
        covariance[both] += of_gpu[0]
        own_covariance[both] += of_gpu[1]
    label = _joined(own_covariance, energy[chosen], identified[chosen])
    members = np.eye(int(label.max()) + 1)[label].T
    joint, joint_variance = members @ energy[chosen], np.einsum("si,ij,sj->s", members, covariance, members)
    several = np.flatnonzero(members.sum(axis=1) > 1)
    several = several[np.argsort(-joint[several], kind="stable")]
    numbered = np.zeros(len(members), np.int64)
    numbered[several] = np.arange(1, len(several) + 1)
    none.number[chosen] = numbered[label]
    return _Sets(none.number, joint[several], np.sqrt(np.maximum(joint_variance[several], 0.0)))


def _joined(covariance: Floats, energy: Floats, identified: Bools) -> Ints:
    """Return a label per set: unidentified groups joined, with identified ones only where needed. (k,)"""
    label = np.arange(len(energy))
    open_rows = np.flatnonzero(~identified)
    among = join_canceling(covariance[np.ix_(open_rows, open_rows)], IDENTIFIED * energy[open_rows])
    label[open_rows] = open_rows[np.unique(among, return_index=True)[1]][among]
    _, label = np.unique(label, return_inverse=True)
    members = np.eye(int(label.max()) + 1)[label].T
    return np.asarray(
        join_canceling(members @ covariance @ members.T, IDENTIFIED * (members @ energy))[label]
    )


def _short(name: str) -> str:
    """Return a name that leaves a sentence readable: its middle is cut out."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[-_LONGEST // 2 + 1 :]}"


def set_sentences(frame: pl.DataFrame) -> list[str]:
    """Return a sentence on the joint energy of each set of an ``energy_by`` table, the largest first."""
    in_sets = frame.filter(pl.col("set").is_not_null())
    sentences: list[str] = []
    for (_,), rows in in_sets.sort("set", maintain_order=True).group_by("set", maintain_order=True):
        if len(sentences) == _NAMED:
            break
        names = [_short(name) for name in rows["name"].to_list()]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        listed = ", ".join(names[:_NAMED]) + more
        joint, low, high = (number(rows[f"set_energy{end}_j"][0]) for end in ENDS)
        sentences.append(f"the log does not separate {listed}: together {joint} J (90 %: {low} to {high})")
    count = in_sets["set"].n_unique()
    if count > _NAMED:
        sentences.append(f"and {counted(count - _NAMED, 'such set')} more: column set")
    return sentences
