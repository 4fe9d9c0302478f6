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
    paired : bool
        Whether its two sides are alike but for what is varied: means over different models are not, and
        come after those that are.
    """

    subject: str
    text: str
    figures: Mapping[str, float]
    fold: float
    rows: tuple[int, ...]
    paired: bool = True


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
    """Compare the mean least energy of a request between the tasks of text, GPU by GPU.

    The two tasks furthest apart over the models that ran both; where the means of all models lie furthest
    apart between tasks that share none, these too.
    """
    text = runs.filter((pl.col("unit") == "token") & pl.col("units_per_request").is_not_null())
    least = least_energy(text, ["task", "model", "gpu"]).with_columns(
        request_j=pl.col("energy_j") * pl.col("units_per_request")
    )
    statements = []
    for (gpu,), rows in least.sort("gpu").group_by("gpu", maintain_order=True):
        tasks = (
            rows.group_by("task", maintain_order=True)
            .agg(pl.col("request_j").mean())
            .sort("request_j", "task")["task"]
        )
        compared = [
            _between_tasks(rows, str(gpu), low, high)
            for i, low in enumerate(tasks)
            for high in tasks[i + 1 :]
        ]
        paired = [s for s in compared if s.paired]
        if paired:
            statements.append(max(paired, key=lambda s: s.fold))
        extremes = [s for s in compared if not s.paired]
        if extremes:
            widest = max(extremes, key=lambda s: s.fold)
            if not paired or widest.fold > statements[-1].fold:
                statements.append(widest)
    return statements


def _between_tasks(rows: pl.DataFrame, gpu: str, low_task: str, high_task: str) -> Statement:
    """Return the statement on two tasks: over the models that ran both, else over those of each."""
    low, high = (rows.filter(pl.col("task") == task) for task in (low_task, high_task))
    shared = low["model"].filter(low["model"].is_in(high["model"].implode()))
    if shared.len():
        low, high = (side.filter(pl.col("model").is_in(shared.implode())) for side in (low, high))
    low_j, high_j = (float(side["request_j"].to_numpy().mean()) for side in (low, high))
    if low_j > high_j:
        low, high, low_j, high_j, low_task, high_task = high, low, high_j, low_j, high_task, low_task
    low_tokens, high_tokens = (float(s["units_per_request"].to_numpy().mean()) for s in (low, high))
    figures = {
        "high_j": high_j,
        "low_j": low_j,
        "fold": high_j / low_j,
        "tokens_fold": high_tokens / low_tokens,
        "models": shared.len(),
        "high_models": high.height,
        "low_models": low.height,
    }
    if shared.len():
        means = (
            f"a request of {high_task} takes {number(high_j, 4)} J, one of {low_task} {number(low_j, 4)} J"
        )
        over = f" (mean of {counted(shared.len(), 'model')} that ran both, each at its least energy)"
    else:
        means = (
            f"a request of {high_task} takes {number(high_j, 4)} J in the mean of"
            f" {counted(high.height, 'model')}, one of {low_task} {number(low_j, 4)} J in that of"
            f" {counted(low.height, 'other model')}"
        )
        over = " (no model ran both; each at its least energy)"
    sentence = (
        f"Task, on {gpu}: {means}: x {number(figures['fold'], 3)}, of"
        f" {number(figures['tokens_fold'], 3)} times the output tokens{over}"
    )
    used = tuple(sorted(int(row) for side in (low, high) for row in side["row"]))
    return Statement("task", sentence, figures, figures["fold"], used, paired=shared.len() > 0)


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
            f"Output, on {gpu}: a video takes {number(video['energy_j'], 4)} J in the mean of"
            f" {counted(len(video['row']), 'model')}, an image {number(image['energy_j'], 4)} J in that of"
            f" {counted(len(image['row']), 'other model')} (each at its least energy): x {number(fold, 3)}"
        )
        figures = {
            "video_j": video["energy_j"], "image_j": image["energy_j"], "fold": fold,
            "video_models": len(video["row"]), "image_models": len(image["row"]),
        }  # fmt: skip
        used = tuple(sorted(video["row"] + image["row"]))
        statements.append(Statement("output", text, figures, fold, used, paired=False))
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
    """Return every sentence, the largest differences first, those of different models after all others.

    What checks the fits comes last.
    """
    differences = [
        *task_means(runs),
        *picture_spread(runs),
        *(contrast_statement(c) for c in contrasts),
        *curve_statements(curves),
        *idle_statement(latent),
    ]
    differences.sort(key=lambda s: (not s.paired, -s.fold))
    return (*differences, *growth_statement(growth), *ranked_statements(ranked))
