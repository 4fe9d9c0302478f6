"""Pairs of configurations in a table of runs that differ in one thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from tracetool.compare.run_tables.batch_curve import CURVE
from tracetool.compare.run_tables.columns import SENSES, input_kind
from tracetool.compare.run_tables.factors import FACTORS, contributions

#: Latencies at which GPUs are compared: of a token, an image, a video, as in the study of ML.ENERGY. [s]
LATENCIES: Final = {"token": (0.05, 0.1, 0.25), "image": (10.0, 30.0, 60.0), "video": (100.0, 500.0, 1000.0)}
#: Experts: models whose tokens ask for less than this share of the parameters.
_SPARSE: Final = 0.9
#: How near in all parameters a dense model must be to be compared with one of experts.
_NEAR_SIZE: Final = 1.35


@dataclass(frozen=True)
class Contrast:
    """Pairs of configurations that differ in one thing.

    Attributes
    ----------
    name : str
        The thing.
    base, head : str
        What the two sides are, in words.
    per : str
        Whether the energies are of a request or of a unit of work.
    pairs : DataFrame
        One row per pair: ``subject``, ``base_row``, ``head_row`` (rows of the table), ``base_j``, ``head_j``,
        ``ratio`` and the joules each factor adds (:data:`tracetool.compare.run_tables.factors.FACTORS`),
        which sum to the difference exactly.
    """

    name: str
    base: str
    head: str
    per: str
    pairs: pl.DataFrame

    @property
    def label(self) -> str:
        """A short name that no other contrast of a table has."""
        sides = self.name in ("task", "input", "GPU", "precision")
        return f"{self.name}{f' {self.head} / {self.base}' if sides else ''}, {self.per}"


def _unit(runs: pl.DataFrame) -> str:
    return str(runs["unit"][0])


def least_energy(runs: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Return the configuration of least energy per unit in each group."""
    return runs.sort("energy_j", "row").group_by(by, maintain_order=True).first().select(runs.columns)


def _pairs(base: pl.DataFrame, head: pl.DataFrame, subjects: pl.Series, *, unit: bool) -> pl.DataFrame:
    """Return pairs, row by row; of one unit of work where ``unit``, else of a request."""
    if unit:
        base, head = (side.with_columns(units_per_request=pl.lit(1.0)) for side in (base, head))
    factor_changes = contributions(base, head)
    rows = pl.DataFrame({"subject": subjects, "base_row": base["row"], "head_row": head["row"]})
    return rows.hstack(factor_changes).with_columns(ratio=pl.col("head_j") / pl.col("base_j"))


def _joined(
    base: pl.DataFrame, head: pl.DataFrame, on: Sequence[str], subject: pl.Expr, *, unit: bool = True
) -> pl.DataFrame:
    """Return the pairs of rows that agree in the columns ``on``."""
    keyed = base.select(*on, _base=pl.int_range(pl.len())).join(
        head.select(*on, _head=pl.int_range(pl.len())),
        on=list(on),
        nulls_equal=True,
        maintain_order="left_right",
    )
    base_rows, head_rows = base[keyed["_base"]], head[keyed["_head"]]
    return _pairs(base_rows, head_rows, base_rows.select(subject.alias("subject")).to_series(), unit=unit)


_SUBJECT: Final = pl.format("{}, {}, {}x{}", "model", "task", pl.col("gpus").cast(pl.Int64), "gpu")
_MODEL_SUBJECT: Final = pl.format("{} on {}", "family", "gpu")


def batches(runs: pl.DataFrame) -> Contrast:
    """Compare the smallest with the largest batch of otherwise equal configurations."""
    ordered = runs.sort("batch", "row")
    groups = ordered.group_by(CURVE, maintain_order=True)
    small, large = (side.select(runs.columns) for side in (groups.first(), groups.last()))
    differ = small["row"] != large["row"]
    small, large = small.filter(differ), large.filter(differ)
    pairs = _pairs(small, large, small.select(_SUBJECT.alias("subject")).to_series(), unit=True)
    return Contrast("batch", "the smallest batch", "the largest", _unit(runs), pairs)


def gpu_counts(runs: pl.DataFrame) -> Contrast:
    """Compare the same batch on the next larger number of GPUs."""
    same = [c for c in CURVE if c not in ("gpus", "parallel")] + ["batch_limit"]
    best = least_energy(runs.filter(pl.col("batch_limit").is_not_null()), [*same, "gpus"])
    counts = best.sort("gpus").with_columns(following=pl.col("gpus").shift(-1).over(same, order_by="gpus"))
    base = counts.filter(pl.col("following").is_not_null())
    head = best.with_columns(following=pl.col("gpus"))
    pairs = _joined(base, head, [*same, "following"], _SUBJECT)
    return Contrast("GPUs", "fewer", "more GPUs at the same batch", _unit(runs), pairs)


def capacities(runs: pl.DataFrame) -> Contrast:
    """Compare least energies where more GPUs hold a larger batch."""
    same = [c for c in CURVE if c not in ("gpus", "parallel")]
    limit = pl.col("batch_limit").max().over([*same, "gpus"])
    best = least_energy(
        runs.filter(pl.col("batch_limit").is_not_null()).with_columns(reach=limit), [*same, "gpus"]
    )
    counts = best.sort("gpus").with_columns(
        following=pl.col("gpus").shift(-1).over(same, order_by="gpus"),
        reached=pl.col("reach").shift(-1).over(same, order_by="gpus"),
    )
    base = counts.filter(pl.col("reached") > pl.col("reach"))
    head = best.with_columns(following=pl.col("gpus"))
    pairs = _joined(base, head, [*same, "following"], _SUBJECT)
    return Contrast("memory capacity", "fewer", "more GPUs that hold a larger batch", _unit(runs), pairs)


def generations(runs: pl.DataFrame) -> list[Contrast]:
    """Compare GPUs at least energy within a latency, each pair of GPUs of the table."""
    names = sorted(runs["gpu"].unique().to_list())
    compared = []
    same = ["task", "model", "precision", "unit", "latency_s"]
    limits = pl.concat(
        [
            runs.filter((pl.col("unit") == unit) & (pl.col("step_s") <= limit)).with_columns(
                latency_s=pl.lit(limit)
            )
            for unit, values in LATENCIES.items()
            for limit in values
        ]
    )
    best = least_energy(limits, [*same, "gpu"])
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            pairs = _joined(
                best.filter(pl.col("gpu") == second), best.filter(pl.col("gpu") == first), same,
                pl.format("{}, {}, within {} s", "model", "task", "latency_s"),
            )  # fmt: skip
            compared.append(Contrast("GPU", second, first, _unit(runs), pairs))
    return compared


def precisions(runs: pl.DataFrame) -> list[Contrast]:
    """Compare weights of fewer bits with more, at the same batch on the same GPUs."""
    formats = (
        runs.group_by("precision", maintain_order=True)
        .agg(pl.col("weight_bytes").first())
        .sort("weight_bytes", "precision")
    )
    names = formats["precision"].to_list()
    same = ["task", "family", "gpu", "gpus", "unit", "batch_limit"]
    best = least_energy(runs.filter(pl.col("batch_limit").is_not_null()), [*same, "precision"])
    compared = []
    for i, fewer in enumerate(names):
        for more in names[i + 1 :]:
            pairs = _joined(
                best.filter(pl.col("precision") == more),
                best.filter(pl.col("precision") == fewer),
                same,
                _SUBJECT,
            )
            compared.append(Contrast("precision", more, fewer, _unit(runs), pairs))
    return compared


def tasks(runs: pl.DataFrame) -> list[Contrast]:
    """Compare text tasks of one model on one GPU, per request, each at its least energy."""
    text = runs.filter(
        (pl.col("unit") == "token") & pl.col("units_per_request").is_not_null() & (input_kind() == "text")
    )
    best = least_energy(text, ["task", "family", "gpu"])
    means = (
        best.group_by("task", maintain_order=True)
        .agg(j=(pl.col("energy_j") * pl.col("units_per_request")).mean())
        .sort("j")
    )
    names = means["task"].to_list()
    compared = []
    for i, low in enumerate(names):
        for high in names[i + 1 :]:
            pairs = _joined(
                best.filter(pl.col("task") == low), best.filter(pl.col("task") == high), ["family", "gpu"],
                _MODEL_SUBJECT, unit=False,
            )  # fmt: skip
            compared.append(Contrast("task", low, high, "request", pairs))
    return compared


def senses(runs: pl.DataFrame) -> list[Contrast]:
    """Compare requests with images or videos to text, between models of one maker and size."""
    text = runs.filter(pl.col("unit") == "token").with_columns(
        sense=input_kind(), maker=pl.col("family").str.split("/").list.first()
    )
    same = ["maker", "active_billions", "total_billions", "gpu"]
    # the shortest text task: reasoning differs by its length, not by what a request holds
    shortest = pl.col("units_per_request").mean().over("task")
    plain = text.filter(pl.col("sense") == "text").with_columns(shortest=shortest)
    plain = plain.filter(pl.col("shortest") == pl.col("shortest").min().over(same))
    base = least_energy(plain.drop("shortest"), same)
    return [
        Contrast(
            "input", "text", f"text and {sense}", "token",
            _joined(base, least_energy(text.filter(pl.col("sense") == sense), same), same, _MODEL_SUBJECT),
        )
        for sense in reversed(SENSES)
    ]  # fmt: skip


def experts(runs: pl.DataFrame) -> Contrast:
    """Compare models of experts with the dense model nearest in all parameters, same task and GPU."""
    best = least_energy(
        runs.filter((pl.col("unit") == "token") & (pl.col("total_billions") > 0)), ["task", "family", "gpu"]
    ).with_columns(of_experts=pl.col("active_billions") < _SPARSE * pl.col("total_billions"))
    dense, sparse = best.filter(~pl.col("of_experts")), best.filter("of_experts")
    pairs = _joined(dense, sparse, ["task", "gpu"], pl.col("family"))
    sizes = best.select("row", "total_billions", "family")
    apart = (
        pairs.join(sizes, left_on="base_row", right_on="row", maintain_order="left")
        .join(sizes, left_on="head_row", right_on="row", suffix="_head", maintain_order="left")
        .with_columns(
            apart=(pl.col("total_billions") / pl.col("total_billions_head")).log().abs(),
            subject=pl.format("{} against {}", "family_head", "family"),
        )
    )
    near = apart.filter(pl.col("apart") <= pl.lit(_NEAR_SIZE).log())
    near = near.sort("apart").group_by("head_row", maintain_order=True).first()
    shown = near.select(pairs.columns)
    return Contrast("experts", "dense models of like size", "models of experts", "token", shown)


def contrasts(runs: pl.DataFrame) -> tuple[Contrast, ...]:
    """Return every comparison that a table allows, those without a pair left out.

    Parameters
    ----------
    runs : DataFrame
        Configurations (:class:`tracetool.compare.run_tables.columns.RunTable`).
    """
    compared = [*tasks(runs), *senses(runs), experts(runs)]
    for unit in runs["unit"].unique().sort().to_list():
        alike = runs.filter(pl.col("unit") == unit)
        compared += [
            batches(alike), *generations(alike), *precisions(alike), gpu_counts(alike), capacities(alike),
        ]  # fmt: skip
    return tuple(c for c in compared if c.pairs.height)


def median_parts(pairs: pl.DataFrame) -> dict[str, float]:
    """Return each factor's contribution in the pair of median ratio, as a share of its base's energy. [1]

    They sum to the median ratio minus one. Of an even number of pairs the two in the middle are averaged, as
    their ratios are in the median.

    >>> split = {"ratio": [1.5, 0.5, 9.0], "base_j": [2.0, 2.0, 2.0], **{f: [0.0] * 3 for f in FACTORS}}
    >>> median_parts(pl.DataFrame({**split, "GPU time": [1.0, -1.0, 16.0]}))["GPU time"]
    0.5
    """
    ordered = pairs.sort("ratio", maintain_order=True)
    middle = ordered[(pairs.height - 1) // 2 : pairs.height // 2 + 1]
    base = middle["base_j"].to_numpy()
    return {f: float(np.mean(middle[f].to_numpy() / base)) for f in FACTORS}


def leading_factor(pairs: pl.DataFrame) -> tuple[str, float]:
    """Return the factor that explains most of a contrast, and its share of all contributions. [1]"""
    base = pairs["base_j"].to_numpy()
    sizes = {f: float(np.median(np.abs(pairs[f].to_numpy() / base))) for f in FACTORS}
    total = sum(sizes.values())
    name = max(sizes, key=lambda f: sizes[f])
    return name, sizes[name] / total if total else 0.0
