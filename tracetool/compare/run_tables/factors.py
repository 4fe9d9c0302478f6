r"""Energy per request as a product of latent factors, and the exact share of each in a difference.

Notes
-----
Of text, with :math:`N` output tokens of a request, :math:`A` parameters that work on each,
:math:`G` GPUs at :math:`P/G` watts and :math:`E` joules a token,

.. math:: E_\text{request} = N \cdot A \cdot \frac{G E}{P A} \cdot \frac{P}{G}

that is output length x compute volume x GPU time per unit of that volume x power per GPU [1]_. The third is
the inverse of the achieved rate: batch, parallelism, kernels, waiting hosts and prefill act through it. Of
images and videos the volume is steps x pixels (all frames) x parameters. A factor that a row does not state
is 1, its part then in the GPU time. Differences are split by logarithmic means, whose parts sum exactly [2]_.

References
----------
.. [1] ML.ENERGY, "Diagnosing Inference Energy Consumption", 2026 (arXiv 2601.22076): time and energy follow
   from latent metrics such as compute volume, utilization and power.
.. [2] B. W. Ang, "The LMDI approach to decomposition analysis", Energy Policy 33(7), 2005.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.decomposition import log_mean
from tracetool.core.arrays import Floats

#: Latent factors in the order of the output.
FACTORS: Final = (
    "output length", "denoising steps", "pixels", "active parameters", "GPU time",
    "power per GPU",
)  # fmt: skip
_VOLUME: Final = {
    "output length": "units_per_request", "denoising steps": "steps", "pixels": "pixels",
    "active parameters": "active_billions",
}  # fmt: skip


def request_energy() -> pl.Expr:
    """Return the energy of a request: of all its tokens, or of one image or video. [J]"""
    return pl.col("energy_j") * pl.col("units_per_request").fill_null(1.0)


def log_factors(rows: pl.DataFrame, stated: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the logarithm of each factor; they sum to that of the energy of a request.

    Parameters
    ----------
    rows : DataFrame, shape (n, columns)
        Configurations.
    stated : DataFrame, optional
        Those they are compared with, row by row: a factor counts where both state it.

    Returns
    -------
    DataFrame, shape (n, 6)
        A column per factor of :data:`FACTORS`. [ln]
    """
    logs: dict[str, Floats] = {}
    for factor, column in _VOLUME.items():
        values = rows[column].to_numpy().astype(float)
        positive = np.isfinite(values) & (values > 0)
        if stated is not None:
            opposite = stated[column].to_numpy().astype(float)
            positive &= np.isfinite(opposite) & (opposite > 0)
        logs[factor] = np.log(np.where(positive, values, 1.0))
    energy = np.log(rows.select(request_energy()).to_series().to_numpy())
    if stated is not None:  # a length that only one side states must not enter its energy
        length = np.log(rows["units_per_request"].fill_null(1.0).to_numpy())
        energy = energy - length + logs["output length"]
    logs["power per GPU"] = np.log((rows["power_w"] / rows["gpus"]).to_numpy())
    logs["GPU time"] = energy - sum(logs.values())
    return pl.DataFrame({factor: logs[factor] for factor in FACTORS})


def contributions(base: pl.DataFrame, head: pl.DataFrame) -> pl.DataFrame:
    """Return the energy of a request that each factor adds from ``base`` to ``head``, row by row. [J]

    Shape (n, 6) plus ``base_j`` and ``head_j``; the factors sum to their difference exactly.

    >>> row = {"units_per_request": 1.0, "steps": None, "pixels": None, "active_billions": 8.0, "gpus": 1.0}
    >>> base = pl.DataFrame(
    ...     [{**row, "energy_j": 2.0, "power_w": 400.0}],
    ...     schema_overrides={"steps": pl.Float64, "pixels": pl.Float64},
    ... )
    >>> head = base.with_columns(energy_j=pl.lit(1.0), power_w=pl.lit(600.0))
    >>> parts = contributions(base, head)
    >>> round(parts["power per GPU"][0], 3), round(parts.select(FACTORS).sum_horizontal()[0], 12)
    (0.585, -1.0)
    """
    ln_base, ln_head = log_factors(base, head), log_factors(head, base)
    base_j = np.exp(ln_base.sum_horizontal().to_numpy())
    head_j = np.exp(ln_head.sum_horizontal().to_numpy())
    mean = log_mean(head_j, base_j)
    factor_changes = {f: mean * (ln_head[f] - ln_base[f]).to_numpy() for f in FACTORS}
    # what rounding leaves goes to the factor that is a remainder by definition
    rounding_j = (head_j - base_j) - sum(factor_changes.values())
    factor_changes["GPU time"] = factor_changes["GPU time"] + rounding_j
    return pl.DataFrame({"base_j": base_j, "head_j": head_j, **factor_changes})
