"""Findings on a table of runs, as sentences whose every number is a figure beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from tracetool.compare.run_tables.batch_curve import NEAR, BatchCurves
from tracetool.compare.run_tables.contrasts import Contrast, leading_factor, least_energy
from tracetool.core.number_text import counted, number

#: What is varied, as sentences begin.
_SUBJECTS: Final = {
    "task": "Task", "input": "Input", "batch": "Batch", "experts": "Experts", "GPU": "GPU",
    "precision": "Precision", "GPUs": "Number of GPUs", "memory capacity": "Memory capacity",
}  # fmt: skip
#: So many pairs have a range between quantiles; of fewer the least and the most are stated.
_MANY: Final = 20
_BETWEEN: Final = (0.05, 0.95)


@dataclass(frozen=True)
class Statement:
    """One sentence about a table.

    Attributes
    ----------
    subject : str
        What is varied.
    text : str
        The sentence.
    figures : mapping
        Its numbers, as they were before rounding.
    fold : float
        How many times the energy differs: what sentences are ranked by.
    rows : tuple of int
        Rows of the table it rests on.
    """

    subject: str
    text: str
    figures: Mapping[str, float]
    fold: float
    rows: tuple[int, ...]


def _median(values: pl.Series) -> float:
    return float(np.median(values.to_numpy()))


def _percent(value: float) -> str:
    return f"{value:.0f} %"


def contrast_summary(contrast: Contrast) -> dict[str, Any]:
    """Return the figures of a contrast: ratio of energies, its range, how often less, what explains most."""
    ratios = contrast.pairs["ratio"].to_numpy()
    low, high = np.quantile(ratios, _BETWEEN) if ratios.size >= _MANY else (ratios.min(), ratios.max())
    factor, share = leading_factor(contrast.pairs)
    return {
        "contrast": contrast.name,
        "label": contrast.label,
        "base": contrast.base,
        "head": contrast.head,
        "per": contrast.per,
        "ratio": float(np.median(ratios)),
        "ratio_low": float(low),
        "ratio_high": float(high),
        "pairs": ratios.size,
        "less": int((ratios < 1.0).sum()),
        "factor": factor,
        "factor_pct": 100.0 * share,
    }


def contrast_statement(contrast: Contrast) -> Statement:
    """Return the sentence of a contrast."""
    summary = contrast_summary(contrast)
    span = "5 to 95 % of them" if summary["pairs"] >= _MANY else "all"
    text = (
        f"{_SUBJECTS[contrast.name]}: {contrast.head} against {contrast.base}: energy per {contrast.per}"
        f" x {number(summary['ratio'], 3)} (median of {counted(summary['pairs'], 'pair')}; {span}:"
        f" {number(summary['ratio_low'], 3)} to {number(summary['ratio_high'], 3)};"
        f" less in {summary['less']});"
        f" the {summary['factor']} explains {_percent(summary['factor_pct'])}"
    )
    rows = {*contrast.pairs["base_row"].to_list(), *contrast.pairs["head_row"].to_list()}
    figures = {k: float(v) for k, v in summary.items() if isinstance(v, int | float)}
    fold = max(summary["ratio"], 1.0 / summary["ratio"])
    return Statement(contrast.name, text, figures, fold, tuple(sorted(rows)))


def task_means(runs: pl.DataFrame) -> list[Statement]:
    """Compare the mean least energy of a request between the tasks of text, GPU by GPU."""
    text = runs.filter((pl.col("unit") == "token") & pl.col("units_per_request").is_not_null())
    least = least_energy(text, ["task", "model", "gpu"]).with_columns(
        request_j=pl.col("energy_j") * pl.col("units_per_request")
    )
    statements = []
    for (gpu,), rows in least.sort("gpu").group_by("gpu", maintain_order=True):
        tokens = pl.col("units_per_request").mean().alias("tokens")
        means = rows.group_by("task", maintain_order=True).agg(
            pl.col("request_j").mean(), tokens, models=pl.len()
        )
        if means.height < 2:
            continue
        ordered = means.sort("request_j", "task").to_dicts()
        low, high = ordered[0], ordered[-1]
        figures = {
            "high_j": high["request_j"],
            "low_j": low["request_j"],
            "fold": high["request_j"] / low["request_j"],
            "tokens_fold": high["tokens"] / low["tokens"],
            "models": high["models"],
        }
        sentence = (
            f"Task, on {gpu}: a request of {high['task']} takes {number(high['request_j'], 4)} J in the mean"
            f" of {counted(high['models'], 'model')}, one of {low['task']} {number(low['request_j'], 4)} J:"
            f" x {number(figures['fold'], 3)}, of {number(figures['tokens_fold'], 3)} times the output tokens"
            " (each model at its least energy)"
        )
        statements.append(Statement("task", sentence, figures, figures["fold"], tuple(sorted(rows["row"]))))
    return statements


def picture_spread(runs: pl.DataFrame) -> list[Statement]:
    """Compare images and videos between models, and videos with images, each model at its least energy."""
    least = least_energy(runs.filter(pl.col("unit") != "token"), ["unit", "model", "gpu"])
    statements = []
    for (unit, gpu), rows in least.sort("unit", "gpu").group_by("unit", "gpu", maintain_order=True):
        if rows.height < 2:
            continue
        ordered = rows.sort("energy_j").to_dicts()
        low, high = ordered[0], ordered[-1]
        fold = high["energy_j"] / low["energy_j"]
        figures = {"low_j": low["energy_j"], "high_j": high["energy_j"], "fold": fold, "models": rows.height}
        text = (
            f"Model, one {unit} on {gpu}: from {number(low['energy_j'], 4)} J ({low['model']}) to"
            f" {number(high['energy_j'], 4)} J ({high['model']}): x {number(fold, 3)} over"
            f" {rows.height} models"
        )
        statements.append(Statement("model", text, figures, fold, tuple(sorted(rows["row"]))))
    means = (
        least.group_by("gpu", "unit", maintain_order=True)
        .agg(pl.col("energy_j").mean(), pl.col("row"))
        .sort("gpu", "unit")
    )
    for (gpu,), rows in means.group_by("gpu", maintain_order=True):
        units = {row["unit"]: row for row in rows.to_dicts()}
        if not {"image", "video"} <= units.keys():
            continue
        video, image = units["video"], units["image"]
        fold = video["energy_j"] / image["energy_j"]
        text = (
            f"Output, on {gpu}: a video takes {number(video['energy_j'], 4)} J, an image"
            f" {number(image['energy_j'], 4)} J (means over models at least energy): x {number(fold, 3)}"
        )
        figures = {"video_j": video["energy_j"], "image_j": image["energy_j"], "fold": fold}
        statements.append(
            Statement("output", text, figures, fold, tuple(sorted(video["row"] + image["row"])))
        )
    return statements


def curve_statements(curves: BatchCurves) -> list[Statement]:
    """Return statements on batches: the energy they share, the batch large enough, the error left out."""
    if not curves.frame.height:
        return []
    statements = []
    for (unit,), rows in curves.frame.sort("unit").group_by("unit", maintain_order=True):
        figures = {
            "fold": _median(rows["fold"]),
            "curves": rows.height,
            "good_batch": _median(rows["good_batch"]),
            "growing": int((rows["good_batch"] == rows["largest_batch"]).sum()),
            "shared_pct": _median(rows["shared_pct"]),
            "left_out_error_pct": _median(rows["left_out_error_pct"]),
        }
        text = (
            f"Batch, one {unit}: most over least energy x {number(figures['fold'], 3)} (median of"
            f" {counted(rows.height, 'curve')}); within {_percent(100 * NEAR)} of the least from batch"
            f" {number(figures['good_batch'], 3)} on, in {figures['growing']} curves only at the largest;"
            f" there the batch still shares {_percent(figures['shared_pct'])} of the energy; batches left"
            f" out are predicted {figures['left_out_error_pct']:.1f} % off"
        )
        statements.append(Statement("batch", text, figures, figures["fold"], ()))
    return statements


def growth_statement(growth: pl.DataFrame) -> list[Statement]:
    """Return the statement on the energy that longer outputs add to each token."""
    if not growth.height:
        return []
    values = 1e3 * growth["growth_j"].to_numpy()
    figures = {
        "growth_mj": float(np.median(values)),
        "growth_low_mj": float(values.min()),
        "growth_high_mj": float(values.max()),
        "configurations": growth.height,
        "longest": float(growth["longest"].to_numpy().max()),
    }
    text = (
        f"Length: 1,000 more output tokens of a request add {number(figures['growth_mj'], 3)} mJ to each"
        f" token (median of {counted(growth.height, 'model')} and GPUs; {number(figures['growth_low_mj'], 3)}"
        f" to {number(figures['growth_high_mj'], 3)}; requests up to {number(figures['longest'], 4)} tokens)"
    )
    return [Statement("length", text, figures, 1.0, ())]


def idle_statement(latent: pl.DataFrame) -> list[Statement]:
    """Return the statement on the share of the energy that idle GPUs would draw."""
    with_idle = latent.filter(pl.col("idle_pct").is_not_null())
    if not with_idle.height:
        return []
    worst = with_idle.sort("idle_pct", descending=True).row(0, named=True)
    figures = {
        "idle_pct": _median(with_idle["idle_pct"]),
        "configurations": with_idle.height,
        "worst_pct": worst["idle_pct"],
        "worst_batch": worst["batch"],
        "worst_gpus": worst["gpus"],
    }
    text = (
        f"Static power: idle GPUs would draw {_percent(figures['idle_pct'])} of the energy (median of"
        f" {with_idle.height} configurations), {_percent(worst['idle_pct'])} at most ({worst['model']},"
        f" batch {number(worst['batch'], 3)}, {worst['gpus']:.0f}x{worst['gpu']})"
    )
    fold = 1.0 / max(1.0 - worst["idle_pct"] / 100.0, 0.01)
    return [Statement("idle", text, figures, fold, (int(worst["row"]),))]


def ranked_statements(ranked: pl.DataFrame) -> list[Statement]:
    """Return statements on the ranks of an unseen model's configurations by physics all models share."""
    statements = []
    for (unit,), rows in ranked.sort("unit", descending=True).group_by("unit", maintain_order=True):
        worst = rows.sort("spearman").row(0, named=True)
        figures = {"spearman": _median(rows["spearman"]), "models": rows.height, "least": worst["spearman"]}
        text = (
            f"Models left out, per {unit}: what {rows.height} models share ranks the configurations of one"
            f" left out with Spearman {figures['spearman']:.2f} (median; least {worst['spearman']:.2f},"
            f" {worst['model']})"
        )
        statements.append(Statement("ranking", text, figures, 1.0, ()))
    return statements


def statements(
    runs: pl.DataFrame,
    latent: pl.DataFrame,
    contrasts: Sequence[Contrast],
    curves: BatchCurves,
    growth: pl.DataFrame,
    ranked: pl.DataFrame,
) -> tuple[Statement, ...]:
    """Return every sentence, those of the largest differences first; what checks the fits comes last."""
    differences = [
        *task_means(runs),
        *picture_spread(runs),
        *(contrast_statement(c) for c in contrasts),
        *curve_statements(curves),
        *idle_statement(latent),
    ]
    differences.sort(key=lambda s: -s.fold)
    return (*differences, *growth_statement(growth), *ranked_statements(ranked))
