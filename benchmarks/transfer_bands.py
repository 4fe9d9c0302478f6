"""Bands and factors of laws away from the GPUs, versions and libraries their implementations were fitted on.

Used by held_out_stacks.py, which measures the errors they are told from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from fit_stacks import FAMILIES, SOURCE, group_of, rounded

from tracetool.calibrate.conformal import band
from tracetool.core.arrays import Bools, Floats
from tracetool.families.implementations import (
    TransferBands,
    bands_elsewhere,
    library_of,
    transfer_bands,
)
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number

#: Band where nothing was left out to tell it, and the most that a version widens one: beyond it another
#: kernel runs under the old name. Both a prior.
WIDE, MOST_VERSION = (-0.9, 0.9), 3.0
#: Least factor of versions of a law that one GPU's tables tell, or none. [1] The middle of the six laws of
#: products, prefill and decode that were measured in two versions, which need 1.0 to 3.
VERSION = 1.2
#: Factor on its bounds from which a version or a library counts as running another kernel, and the most they
#: are reckoned to be of all.
OTHER_KERNEL, MOST_SHARE = 2.0, 1.0 / 3.0
#: GPUs from which on their tables tell of the next version.
LEAST_GPUS = 2
#: Operators from which on their errors tell the bands of all laws, which are those delivered else. A prior.
LEAST_OPERATORS = 5
#: Quantiles that stand for the rows of a cell.
_QUANTILES = (np.arange(60) + 0.5) / 60
#: The most of the ln of bounds of kernels that others stand for: what another library adds at most. [1]
MOST = prior_number("implementations.other_library_most")
#: Sets of coefficients left out from which on they tell of the next [sets], and rows of a cell that count
#: [rows]. Both a prior.
LEAST_SETS, ROWS_OF_CELL = 3, 300
#: Groups of families whose tables showed another kernel in another version or library, under no name of it.
SWAPPED = ("gemm", "moe", "ssm")


@dataclass(frozen=True)
class Scored:
    """Errors of one cell in one setting."""

    setting: str
    operator: str
    law: str
    gpu: str
    stack: str
    implementation: str
    set_name: str  # of its coefficients
    seen: bool  # whether a GPU of the architecture was fitted
    single: bool  # whether one implementation answered, by coefficients that were fitted elsewhere
    stood_for: bool  # whether another kernel answered than the one that ran
    scale: float  # of its bounds where its GPU was not measured; 0 where no law of it tells
    error: Floats  # ln(measured / predicted)
    inside: Bools
    needed: Floats  # factor on the ln of the bounds that would just hold the row
    width: float  # ln of the upper bound over the lower, mean over rows

    @property
    def held_back(self) -> tuple[str, str, str]:
        """What was held back: the law with the table of a version, with a set, or with a library."""
        if self.setting == "version":
            return self.setting, self.law, self.gpu
        if self.setting == "implementation":
            return self.setting, self.law, self.set_name
        return self.setting, self.law, library_of(self.stack)


def needed_of(some: Sequence[Scored]) -> dict[tuple[str, str, str], float]:
    """Return the factor on its bounds that holds 90 % of each version's table, and of each library."""
    parts: dict[tuple[str, str, str], list[Floats]] = {}
    for one in some:
        if one.setting in {"version", "library"}:
            parts.setdefault(one.held_back, []).append(one.needed[:: max(1, len(one.needed) // 300)])
    return {key: float(np.quantile(np.concatenate(v), 0.9)) for key, v in parts.items()}


def other_kernel(scored: Sequence[Scored], law: str, without: str = "") -> float:
    """Return the share of versions and libraries that run a kernel not measured, but for one GPU or library.

    Of n the share is (c + 1/2) / (n + 1) where c needed bounds ``OTHER_KERNEL`` times as wide (Jeffreys), at
    most ``MOST_SHARE``: what was measured stays the likelier.
    """
    if group_of(law) not in SWAPPED:
        return 0.0
    told = [
        factor
        for (_, name, value), factor in needed_of(scored).items()
        if group_of(name) == group_of(law) and value != without
    ]
    return min((sum(factor > OTHER_KERNEL for factor in told) + 0.5) / (len(told) + 1.0), MOST_SHARE)


def transfer(scored: Sequence[Scored], law: str, share: float, without: str = "") -> TransferBands:
    """Return the bands of a law on GPUs left out, and of libraries left out, but for one of either."""
    near, away = (band_elsewhere(scored, seen=seen, without=without) for seen in (True, False))
    wider, newer = library_factor(scored, law, without), version_factor(scored, law)
    return TransferBands(near, away, wider, newer, share, band_of_stand_ins(scored, law, without))


def band_elsewhere(scored: Sequence[Scored], *, seen: bool, without: str = "") -> tuple[float, float]:
    """Return the 90 % band of errors over their scale on GPUs or architectures left out, but for one.

    GPUs are those of architectures that were ``seen``. What carries over from one to the next errs alike in
    all laws, and differs from kernel to kernel: each cell counts alike. Of k cells on other architectures the
    band leaves out 0.05 - 0.95 / k on either side (Dunn, Wasserman and Ramdas, "Distribution-free prediction
    sets for two-layer hierarchical models", 2023); a GPU of an architecture has a band of its own besides.
    """
    architecture = {one.gpu: load_gpu(one.gpu).architecture for one in scored}
    meant = {of for name, of in architecture.items() if without in {name, of}}
    cells = [
        one
        for one in scored
        if one.seen == seen and tells_elsewhere(one)
        and (one.gpu != without if seen else architecture[one.gpu] not in meant)
    ]  # fmt: skip
    if not enough(cells):
        return bands_elsewhere()[0 if seen else 1]
    out = 0.05 if seen else max(0.05 - 0.95 / len(cells), 0.0)
    spread = np.concatenate([np.quantile(one.error, _QUANTILES) / one.scale for one in cells])
    return float(np.quantile(spread, out)), float(np.quantile(spread, 1.0 - out))


def enough(cells: Sequence[Scored]) -> bool:
    """Return whether cells are of operators enough to tell of all laws."""
    return len({one.operator for one in cells}) >= LEAST_OPERATORS


def tells_elsewhere(one: Scored) -> bool:
    """Return whether a cell tells how far a kernel is off on a GPU nobody measured it on.

    Kernels whose coefficients are those of source say nothing of fits that are carried over.
    """
    left_out = one.setting == "gpu" or (one.setting == "architecture" and not one.seen)
    return left_out and one.single and not one.stood_for and one.scale > 0.0


def library_factor(scored: Sequence[Scored], law: str, without: str = "") -> float:
    """Return the factor on the bounds of a library nobody fitted: what held those left out, but for one.

    Of few libraries the next may well need more than most: the one that needs most counts, and no less than
    the middle one of the laws of the group.
    """
    every: dict[str, list[float]] = {}
    for (setting, name, value), factor in needed_of(scored).items():
        if setting == "library" and group_of(name) == group_of(law) and value != without:
            every.setdefault(name, []).append(factor)
    of_group = [max(factors) for factors in every.values()]
    return max([1.0, *([float(np.median(of_group))] if of_group else []), *every.get(law, [])])


def band_of_stand_ins(scored: Sequence[Scored], law: str, without: str = "") -> tuple[float, float]:
    """Return the 90 % band of errors of kernels that others stood for, but for one set of coefficients.

    Each cell counts alike. Few sets say little of the next: where a law has fewer than ``LEAST_SETS``, those
    of its group count, and where the group has, ``WIDE`` beside them.
    """
    of_group = [
        one
        for one in scored
        if one.setting == "implementation" and one.stood_for and one.set_name != without
        and group_of(one.law) == group_of(law)
    ]  # fmt: skip
    of_law = [one for one in of_group if one.law == law]
    enough = [some for some in (of_law, of_group) if len({one.set_name for one in some}) >= LEAST_SETS]
    some = enough[0] if enough else of_group
    errors = [one.error[:: max(1, len(one.error) // ROWS_OF_CELL)] for one in some]
    of_errors = band(np.concatenate(errors), 10**6) if errors else WIDE
    least = (0.0, 0.0) if enough else WIDE
    low, high = (float(np.clip(side, -MOST, MOST)) for side in of_errors)
    return min(low, least[0]), max(high, least[1])


def version_factor(scored: Sequence[Scored], law: str, without: str = "") -> float:
    """Return the factor on the bounds of another version: what held 90 % of each table, but for one GPU's.

    Of few tables the next may well need more than most: the largest of the law's own counts, and no less than
    the middle one of all laws of its group; ``VERSION`` at least where fewer than ``LEAST_GPUS`` have any.
    """
    told = [
        (name, float(np.clip(factor, 1.0, MOST_VERSION)))
        for (setting, name, gpu), factor in needed_of(scored).items()
        if setting == "version" and not (name == law and gpu == without)
    ]
    own = [factor for name, factor in told if name == law]  # one of each GPU
    own += [VERSION] if len(own) < LEAST_GPUS else []
    of_group = [factor for name, factor in told if group_of(name) == group_of(law)] or own
    return max([float(np.median(of_group)), *own])


def write(scored: Sequence[Scored], shares: dict[str, float], wanted: Iterable[str]) -> None:
    """Put the factors and bands of versions, libraries and stand-ins beside the laws, those of GPUs above."""
    lines = []
    for seen, name in ((True, "same"), (False, "other")):
        lines += _lines(f"{name}_architecture", band_elsewhere(scored, seen=seen))
    (FAMILIES / "transfer.toml").write_text("\n".join(lines) + "\n")
    for law in wanted:
        bands, before = transfer(scored, law, shares[law]), transfer_bands(law)
        path = FAMILIES / group_of(law) / "transfer.toml"
        text = path.read_text() if path.exists() else ""
        text = re.sub(rf"(?ms)^\[{law}\]\n.*?(?=^\[|\Z)", "", text).strip()
        if before:
            bands = replace(bands, **_of_settings_not_asked(scored, before))
        lines = _lines("stand_in", bands.stand_in)
        lines += [_line(name, getattr(bands, name)) for name in ("other_library", "other_version")]
        lines += [_line("swapped", bands.swapped)] if bands.swapped else []
        path.write_text((text + "\n\n" if text else "") + "\n".join([f"[{law}]", *lines]) + "\n")


def _lines(name: str, of_band: tuple[float, float]) -> list[str]:
    return [_line(f"{name}_{side}", value) for side, value in zip(("low", "high"), of_band, strict=True)]


def _line(name: str, value: float) -> str:
    return f'{name} = {{ value = {rounded(value)!r}, unit = "1", kind = "fitted", source = "{SOURCE}" }}'


#: What each setting tells of the bands.
_TOLD_BY = {
    "library": ("other_library", "swapped"),
    "implementation": ("stand_in",),
    "version": ("other_version",),
}


def _of_settings_not_asked(scored: Sequence[Scored], before: TransferBands) -> dict[str, Any]:
    """Return what bands told by settings that were not asked are to stay."""
    asked = {one.setting for one in scored}
    return {
        name: getattr(before, name)
        for setting, names in _TOLD_BY.items()
        if setting not in asked
        for name in names
    }
