r"""Physics that all models of a table share, tested by ranking the configurations of one left out.

Notes
-----
Of text, per token and for each GPU with coefficients of its own, all at least zero:

.. math:: E = e_w \frac{W(B)}{B} + e_f A + e_b \frac{G}{B} + e_u \frac{G}{\sqrt{B}} + e_k \sqrt{A} N + e_0

:math:`W(B) = T (1 - (1 - A/T)^B)` bytes of weights a step reads of :math:`T` in all, of which a token asks
for :math:`A` (experts), floating-point work, base power of :math:`G` GPUs while steps are short, and keys and
values, whose size a table of runs does not state: they grow with the root of the model and the length. Of
images and videos, with :math:`V` steps x pixels,

.. math::
   E = e_f A V + e_a \sqrt{A} V p + e_b \frac{G S}{B} + e_c A V \frac{G - 1}{\sqrt{B}}
       + e_x \sqrt{A} V (G - 1) + e_0 G p

products, attention over :math:`p` pixels, base power of steps :math:`S`, and what dividing one image over
GPUs costs.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from tracetool.core.arrays import Floats

#: Models without which nothing can be said of the one left out, and configurations to rank.
_MODELS = 3
_CONFIGURATIONS = 4
_SUMMARY: Final = {
    "model": pl.String, "unit": pl.String, "configurations": pl.Int64, "spearman": pl.Float64,
    "scale": pl.Float64,
}  # fmt: skip


def _text(rows: pl.DataFrame) -> Floats:
    batch, gpus = rows["batch"].to_numpy(), rows["gpus"].to_numpy()
    active = rows["active_billions"].to_numpy()
    total = np.fmax(rows["total_billions"].fill_null(0.0).to_numpy(), active)
    active_share = np.clip(active / total, 0.0, 1.0 - 1e-6)
    read = np.fmax(total * (1.0 - (1.0 - active_share) ** batch), active) * rows["weight_bytes"].to_numpy()
    length = rows["units_per_request"].fill_null(0.0).to_numpy()
    return np.stack(
        [
            read / batch,
            active,
            gpus / batch,
            gpus / np.sqrt(batch),
            np.sqrt(active) * length,
            np.ones_like(batch),
        ],
        axis=1,
    )


def _pictures(rows: pl.DataFrame) -> Floats:
    batch, gpus = rows["batch"].to_numpy(), rows["gpus"].to_numpy()
    active, steps = rows["active_billions"].to_numpy(), rows["steps"].to_numpy()
    megapixels = rows["pixels"].to_numpy() / 1e6
    volume = steps * megapixels
    root = np.sqrt(active)
    return np.stack(
        [
            active * volume, root * volume * megapixels, gpus * steps / batch,
            active * volume * (gpus - 1.0) / np.sqrt(batch), root * volume * (gpus - 1.0), gpus * megapixels,
        ],
        axis=1,
    )  # fmt: skip


def rank_left_out(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the rank correlation of each model's configurations by a fit to all other models.

    Parameters
    ----------
    runs : DataFrame
        Configurations (:class:`tracetool.compare.run_tables.columns.RunTable`).

    Returns
    -------
    DataFrame
        ``model``, ``unit`` (token, or picture for images and videos), ``configurations``, ``spearman``
        (predicted against measured energy of a unit) and ``scale`` (median predicted over measured). Empty
        where the table holds too few models or does not state their parameters.
    """
    with_parameters = runs.filter(pl.col("active_billions") > 0)
    text = with_parameters.filter(pl.col("unit") == "token")
    pictures = with_parameters.filter(
        (pl.col("unit") != "token") & (pl.col("steps") > 0) & (pl.col("pixels") > 0)
    )
    rows = _ranked(text, _text(text), "token") if text.height else []
    rows += _ranked(pictures, _pictures(pictures), "picture") if pictures.height else []
    return pl.DataFrame(rows, schema=_SUMMARY, orient="row")


def _ranked(rows: pl.DataFrame, counts: Floats, unit: str) -> list[tuple[str, str, int, float, float]]:
    from scipy.optimize import nnls
    from scipy.stats import spearmanr

    models = rows["family"].to_numpy()
    if np.unique(models).size < _MODELS:
        return []
    gpus = rows["gpu"].to_numpy()
    per_gpu = np.concatenate([counts * (gpus == name)[:, None] for name in np.unique(gpus)], axis=1)
    energy = rows["energy_j"].to_numpy()
    scale = np.where(per_gpu.any(axis=0), np.abs(per_gpu).max(axis=0), 1.0)
    ranked = []
    for model in np.unique(models):
        left_out, fitted = models == model, models != model
        if left_out.sum() < _CONFIGURATIONS:
            continue
        coefficients = nnls(per_gpu[fitted] / scale / energy[fitted, None], np.ones(int(fitted.sum())))[0]
        predicted = per_gpu[left_out] / scale @ coefficients
        if not (predicted > 0).all():  # a GPU that no model fitted here ran on
            continue
        if np.ptp(predicted) == 0.0 or np.ptp(energy[left_out]) == 0.0:  # alike: they have no order
            continue
        order = float(spearmanr(predicted, energy[left_out]).statistic)
        ranked.append(
            (str(model), unit, int(left_out.sum()), order, float(np.median(predicted / energy[left_out])))
        )
    return ranked
