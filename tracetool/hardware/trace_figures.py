"""Figures that a trace states of a GPU, against the GPU's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetool.hardware.names import ANOTHERS

if TYPE_CHECKING:
    from tracetool.hardware.gpu import Gpu


def differing_figures(
    gpu: Gpu, memory_bytes: float | None, sm_count: float | None
) -> list[tuple[str, float, float]]:
    """Return the figures of a trace that differ from a GPU's: name, value as stated, value in the file.

    Parameters
    ----------
    gpu : Gpu
        The GPU.
    memory_bytes, sm_count : float, optional
        Memory and SMs that the trace states. [B], [1] Memory that is the CPU's too is as large as its
        owner bought, and no sign of another GPU.
    """
    own_bytes = 0 if gpu.shares_host_memory else memory_bytes or 0
    figures = (
        ("{:.4g} GiB of memory", own_bytes / 2**30, gpu.memory_bytes / 2**30),
        ("{:g} SMs", sm_count or 0, gpu.sm_count),
    )
    return [
        (text, float(stated), float(listed))
        for text, stated, listed in figures
        if stated and listed > 0 and abs(stated / listed - 1.0) > ANOTHERS
    ]
