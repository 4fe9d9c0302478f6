"""Rates of a GPU that no published number supports, where a prediction rests on them."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Prediction
from tracetool.families.formats import PRODUCT_PIPE, dtype_of
from tracetool.hardware.gpu import FALLBACK, Gpu

#: A unit busier than this share of the time matters to the figures. [1]
_MATTERS: Final = 0.01


def prior_notes(gpu: Gpu, rows: OperatorColumns, predicted: Prediction) -> list[str]:
    """Return a note on the numbers of the GPU that are priors and that these rows rest on.

    Integer rates are left out: no roofline of a product or a stream rests on them.
    """
    busy = predicted.timing.busy_s
    total = float(predicted.timing.duration_s.sum()) or 1.0
    used = {unit for unit, seconds in busy.items() if float(np.sum(seconds)) > _MATTERS * total}
    numbers: list[str] = [pipe for pipe in ("fp32", "fp64") if pipe in used]
    if "tensor" in used:
        works = np.asarray(busy["tensor"]).sum(axis=1) > 0
        formats = np.unique(dtype_of(rows, "bf16")[works].astype(str))
        numbers += sorted({_pipe(PRODUCT_PIPE.get(name, "fp32"), gpu) for name in formats})
    if "dram" in used:
        numbers.append("dram_bytes_per_s")
    if used - {"dram", "link"}:
        numbers.append("sm_count")
    priors = [gpu.numbers[name] for name in numbers if name in gpu.assumed]
    names = [name for name in numbers if name in gpu.assumed]
    stated = [
        f"{name} is a prior, {number.value:.4g} ({number.low:.4g} to {number.high:.4g}) {number.unit}"
        for name, number in zip(names, priors, strict=True)
    ]
    return [f"no published number of {gpu.name} supports: {'; '.join(stated)}"] if stated else []


def _pipe(pipe: str, gpu: Gpu) -> str:
    """Return the pipe that does this one's work on the GPU."""
    while pipe not in gpu.flops_per_clock_sm and pipe in FALLBACK:
        pipe = FALLBACK[pipe]
    return pipe
