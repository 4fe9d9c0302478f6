"""Coefficients that scale with the chip, on architectures without measurements.

A kernel's steps take as many clocks as its library could afford on the chips it was tuned for, until memory
was the slower. On a chip whose memory brings an SM more bytes each clock, a kernel of that library is deep
enough for these. On one that brings fewer the steps are hidden: what was measured there says little.

A program whose tiles a table fixes, whatever the GPU, was made for no chip: its steps take the clocks they
take everywhere. So do those of one program that is compiled for every chip.

GDDR memory holds the check bits of its ECC among the data, and brings kernels a smaller share of its peak
than memory on the chip's package, which has bits of their own for that.

Where an SM has tensor memory two of them multiply one tile, each with half of B in its shared memory: fills
and shared memory serve a larger product. Products go on there while warps work on the results of others: how
the two overlap where products take registers says nothing of it.

A share of the L2's rate that kernels reach on a chip with much L2 for each SM is a limit of the SM: where
there is less for each the same bytes are a larger share.

The further a chip's memory is from that of the chips measured, the less is known of it: bounds widen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tracetool.families.law import Law
from tracetool.hardware.architecture import load_architecture
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number

#: What a loop finds in an L2 that all SMs share, of what fits in it. [1]
_ONE_L2_HIT = prior_number("implementations.one_l2_hit")
#: Share of its peak that GDDR memory brings kernels, beside that of memory on the chip's package. [1]
_GDDR_SHARE = prior_number("implementations.gddr_share")
#: Of that, what check bits among the data leave. [1]
_ECC_SHARE = prior_number("implementations.ecc_share")
#: End of the names of shares of the memory's peak. [1] By definition of the laws' data files.
_OF_MEMORY = "dram_efficiency"
#: What fills and shared memory serve where pairs of SMs multiply, beside where each does alone. [1]
_PAIRED = prior_number("implementations.paired_tiles")
#: Share of the memory's rate from which on an SM's own limit was hidden where it was measured. [1]
_HIDDEN = prior_number("implementations.hidden_share")
#: What the variance of ln of errors on another architecture grows by, for each square of ln of what memory
#: brings an SM over what it brings the nearest GPU measured. [1]
_APART = prior_number("implementations.memory_apart")
#: Paces of what tensor memory changes. [1] By definition of families/coefficients.py.
_OF_TENSOR_MEMORY = frozenset({"pairs", "tensor_memory"})


def memory_bytes_per_clock_sm(gpu: Gpu) -> float:
    """Return the bandwidth of a GPU's memory per SM and clock. [B/clk/SM]"""
    return gpu.dram_bytes_per_s / (gpu.clock_boost_mhz * 1e6) / gpu.sm_count


def widening(gpu: Gpu, measured: Iterable[Gpu]) -> float:
    r"""Return how much wider bounds are on a GPU than on one of another architecture with alike memory.

    With m what memory brings an SM each clock, on the GPU and on those measured:

    .. math:: \sqrt{1 + a \min_g \ln^2(m / m_g)}

    The sum of two variances: of what changes between any two architectures, and of a slope that nobody knows.
    """
    here = memory_bytes_per_clock_sm(gpu)
    apart = min(abs(float(np.log(here / memory_bytes_per_clock_sm(one)))) for one in measured)
    return float(np.sqrt(1.0 + _APART * apart**2))


def _one_l2(gpu: Gpu) -> bool:
    """Return whether all SMs share one L2: of several partitions another block may run on the far side."""
    return gpu.l2_near_bytes >= gpu.l2_bytes


def _peak_share(gpu: Gpu) -> float:
    """Return the share of its peak that a GPU's memory brings, beside memory on the chip's package."""
    return _GDDR_SHARE / _ECC_SHARE * gpu.ecc_share if _is_gddr(gpu) else 1.0


def _is_gddr(gpu: Gpu) -> bool:
    return gpu.memory_type.startswith("gddr")


def _beside_check_bits(gpu: Gpu, nearest: Iterable[Gpu]) -> float:
    """Return what GDDR brings a GPU over what it brings those that all keep check bits among their data."""
    shares = [one.ecc_share for one in nearest]
    if not _is_gddr(gpu) or not shares or max(shares) >= 1.0:
        return 1.0
    return float(gpu.ecc_share / np.exp(np.mean(np.log(shares))))


def _in_pairs(gpu: Gpu) -> bool:
    """Return whether two SMs of a GPU multiply one tile together."""
    return load_architecture(gpu.architecture).has_tensor_memory


def _of_table(law: Law, values: Mapping[str, float]) -> bool:
    """Return whether a kernel's tiles are fixed by a table: a choice whose pace is ``table`` is not 0."""
    return any(values.get(k, one.value) != 0.0 for k, one in law.priors.items() if one.pace == "table")


def paced(
    law: Law,
    values: Mapping[str, float],
    gpu: Gpu,
    measured: Iterable[Gpu],
    nearest: Iterable[Gpu],
    *,
    one_program: bool = False,
) -> dict[str, float]:
    r"""Return coefficients with those that have a pace brought to that of a GPU.

    With m what memory brings an SM each clock and l what L2 does, on the GPU and on those measured, clocks
    are multiplied and rates divided by

    .. math:: \min(1, \max_g m_g / m)

    and shares of L2's rate are multiplied by :math:`\max(1, l_g / l)`, with :math:`l_g` the geometric mean
    over the GPUs of the nearest architecture. Where all L2s measured have partitions, shares of what L2 still
    holds say how often a block runs on the side that holds it: an L2 that all SMs share has all that fits.
    Where no GPU measured multiplies in pairs of SMs, and the GPU does, what fills and feeds a tile is worth
    half as much again, and what tensor memory changes is the prior.
    Where all GPUs measured have memory of the other kind, GDDR or not, shares of its peak change by the ratio
    of what the two kinds bring; where the nearest all keep check bits among their data and the GPU does not,
    by what these take.

    Parameters
    ----------
    values : mapping of str to float
        Coefficients as they are there; one not given is its prior.
    measured, nearest : iterable of Gpu
        All GPUs they were fitted on, and those of the nearest architecture.
    one_program : bool
        Whether the same program runs on any chip, as Triton compiles it.
    """
    measured, nearest = tuple(measured), tuple(nearest)
    most = max(memory_bytes_per_clock_sm(one) for one in measured)
    steps = min(1.0, most / memory_bytes_per_clock_sm(gpu))
    of_nearest = np.exp(np.mean([np.log(one.l2_bytes_per_clock / one.sm_count) for one in nearest]))
    share = max(1.0, float(of_nearest) / (gpu.l2_bytes_per_clock / gpu.sm_count))
    shares, by_table = {_peak_share(one) for one in measured}, one_program or _of_table(law, values)
    more = _beside_check_bits(gpu, nearest)
    of_peak = _peak_share(gpu) / shares.pop() if len(shares) == 1 else more
    gains_one_l2 = _one_l2(gpu) and not any(map(_one_l2, measured))
    paired = _PAIRED if _in_pairs(gpu) and not any(map(_in_pairs, measured)) else 1.0
    changed = dict(values)
    for name, prior in law.priors.items():
        value = values.get(name, prior.value)
        if prior.pace == "memory" and steps < 1.0 and not by_table:
            changed[name] = value * steps if prior.unit == "clk" else value / steps
        elif prior.pace == "l2" and share > 1.0:
            changed[name] = value * share
        elif prior.pace == "one_l2" and gains_one_l2:
            changed[name] = max(value, _ONE_L2_HIT)
        elif prior.pace in _OF_TENSOR_MEMORY and paired != 1.0:
            in_pairs = value * paired if prior.pace == "pairs" else prior.value
            changed[name] = min(in_pairs, 1.0) if prior.high <= 1.0 else in_pairs
        elif prior.pace == "dram":
            changed[name] = min(value * of_peak, max(prior.high, value))
        elif name.endswith(_OF_MEMORY) and more != 1.0:
            changed[name] = min(value * more, max(prior.high, value))
    return changed


def unhidden(law: Law, values: Mapping[str, float], gpu: Gpu, measured: Iterable[Gpu]) -> dict[str, float]:
    """Return coefficients of the same architecture's kernels on a GPU whose memory may be faster.

    What an SM draws at most shows only where memory brings more. A limit near the fastest memory measured, or
    above it, may be that memory's: it keeps step with a faster one. One well below it is the SM's, and stays.
    Memory without check bits among the data brings a larger share of its peak.
    """
    measured = tuple(measured)
    most = max(memory_bytes_per_clock_sm(one) for one in measured)
    more = _beside_check_bits(gpu, (one for one in measured if one.architecture == gpu.architecture))
    faster = memory_bytes_per_clock_sm(gpu) / most
    changed = dict(values)
    for name, prior in law.priors.items():
        value = values.get(name, prior.value)
        if prior.pace == "memory" and prior.unit != "clk" and faster > 1.0 and value > _HIDDEN * most:
            changed[name] = value * faster
        elif name.endswith(_OF_MEMORY) and more != 1.0:
            changed[name] = min(value * more, max(prior.high, value))
    return changed
