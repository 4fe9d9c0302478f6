"""Errors of forecasts of measured serving runs, and the fit of what a serving engine adds to its kernels.

usage: python benchmarks/forecast_runs.py [DATA_ROOT] [--fit]      default: ../shared/data

A model's configuration, its division over GPUs, the mean batch and the mean output length are known; input
lengths are not published (400 tokens of chat, 300 of questions are assumed). With ``--fit`` the coefficients
of ``forecast/serving.toml`` are fitted, and their errors stated with each family of models left out in turn.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy.optimize import minimize
from scipy.stats import spearmanr

from tracetool.core.arrays import Floats
from tracetool.forecast import forecast as forecasts
from tracetool.forecast.language import LanguagePlan
from tracetool.forecast.serving import median_tokens
from tracetool.forecast.steps import Step

GPU = {"H100": "h100-sxm", "B200": "b200-sxm"}
ISL = {"lm-arena-chat": 400, "gpqa": 300}
#: Figure of a forecast, and how it is derived from the table of runs.
MEASURED = {
    "itl_ms": pl.col("median_itl_ms"),
    "power_w": pl.col("avg_power_watts"),
    "energy_per_token_j": pl.col("energy_per_token_joules"),
}


def read_runs(root: Path) -> pl.DataFrame:
    """Return the measured runs of language models with the columns of a table of cases."""
    runs = pl.read_parquet(root / "runs/mlenergy.parquet").filter(pl.col("task").is_in(list(ISL)))
    grouped = pl.col("data_parallel") > 1
    return runs.select(
        pl.col("model_id").str.split("/").list.last().alias("id"),
        "task",
        pl.format("{}/models/{}.json", pl.lit(str(root)), pl.col("model_id").str.replace("/", "--")).alias(
            "model"
        ),
        pl.col("gpu_model").replace(GPU).alias("gpu"),
        pl.lit("serve").alias("mode"),
        pl.col("num_gpus").alias("gpus"),
        pl.when(grouped).then(1).otherwise("num_gpus").alias("tp"),
        pl.col("data_parallel").fill_null(1).alias("dp"),
        pl.col("expert_parallel").fill_null(1).alias("ep"),
        pl.col("avg_batch_size").alias("bs"),
        pl.col("task").replace_strict(ISL).alias("isl"),
        pl.col("avg_output_len").round().alias("osl"),
        pl.lit("vllm").alias("stack"),
        (1e3 * pl.col("avg_batch_size") / pl.col("output_throughput_tokens_per_sec")).alias("mean_step_ms"),
        *(value.alias(f"measured_{name}") for name, value in MEASURED.items()),
    )


def family_of(model: str) -> str:
    """Return the family of a model's name: what is left out together."""
    return next((f for f in ("gpt-oss", "gemma", "Nemotron", "DeepSeek", "Llama-4") if f in model), None) or (
        "Qwen3-MoE" if "-A" in model and "Qwen3" in model else model.split("-", maxsplit=1)[0]
    )


def error_pct(predicted: Floats, measured: Floats) -> Floats:
    """Return absolute errors. [%]"""
    return np.asarray(100.0 * np.abs(predicted / measured - 1.0))


def print_errors(runs: pl.DataFrame, label: str) -> None:
    """Print the errors of each figure, over all runs and by GPU, with how many intervals hold."""
    groups = {"all": runs, **{str(k[0]): g for k, g in runs.group_by("gpu", maintain_order=True)}}
    print(f"{label}: median (mean) absolute error %, share of the 90 % intervals that hold")
    for name, group in groups.items():
        cells = []
        for figure in MEASURED:
            error = error_pct(group[figure].to_numpy(), group[f"measured_{figure}"].to_numpy())
            low, high = (group[f"{figure}_{end}"] for end in ("low", "high"))
            inside = ((low <= group[f"measured_{figure}"]) & (group[f"measured_{figure}"] <= high)).mean()
            cells.append(f"{figure} {np.median(error):5.1f} ({np.mean(error):5.1f}) {100 * inside:3.0f} %")
        print(f"  {name:10s} {group.height:4d} runs  " + "  ".join(cells))


def print_models(runs: pl.DataFrame) -> None:
    """Print the signed error of each model on each GPU."""
    keys = ["id", "task", "gpu", "gpus"]
    signed = [
        (100.0 * (pl.col(f) / pl.col(f"measured_{f}") - 1.0)).median().round(1).alias(f) for f in MEASURED
    ]
    table = runs.group_by(keys).agg(pl.len(), *signed).sort(keys)
    with pl.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, tbl_formatting="NOTHING", fmt_str_lengths=40):
        print(table)


def print_choices(runs: pl.DataFrame) -> None:
    """Print how well configurations of a model are ranked, and batch and parallelism are chosen."""
    ranks, batches, divisions = [], [], []
    for _, group in runs.group_by("id", "task", "gpu"):
        if group.height >= 4:
            ranks.append(spearmanr(group["energy_per_token_j"], group["measured_energy_per_token_j"])[0])
        per_division = group.group_by("gpus", "ep")
        for _, sweep in per_division:
            if sweep.height >= 4:
                chosen = sweep["energy_per_token_j"].arg_min()
                truth = sweep["measured_energy_per_token_j"]
                batches.append(float(truth[chosen]) <= 1.05 * float(truth.min()))  # type: ignore[arg-type]
    for _, group in runs.group_by("id", "task", "gpu", (pl.col("bs") / 8).round()):
        if group["gpus"].n_unique() > 1:
            chosen = group["energy_per_token_j"].arg_min()
            divisions.append(chosen == group["measured_energy_per_token_j"].arg_min())
    print(
        "Spearman of J/token over configurations of a model: "
        f"median {np.median(ranks):.3f}, least {min(ranks):.3f}"
    )
    print(
        f"least J/token within 5 % at the chosen batch: {100 * np.mean(batches):.0f} % "
        f"of {len(batches)} sweeps"
    )
    if divisions:
        print(
            f"parallelism of least J/token chosen: {100 * np.mean(divisions):.0f} % of {len(divisions)} pairs"
        )


@dataclass(frozen=True)
class Device:
    """What the GPUs of each run do, apart from the engine's own time: arrays of shape (n,)."""

    decode_s: Floats
    mixed_s: Floats
    decode_j: Floats  # above idle power over the kernels' time
    mixed_j: Floats
    idle_w: Floats
    share: Floats  # of steps that are mixed
    median: Floats  # where the median step lies between decode (0) and mixed (1)
    requests: Floats
    arrivals: Floats
    output: Floats
    gpus: Floats
    sort_w: Floats  # above idle, of the softmax of the numbers that are sorted
    single: Floats  # 1 where a B200 serves by itself
    cap_w: Floats

    def take(self, rows: Floats) -> Device:
        """Return the chosen runs."""
        return Device(**{name: values[rows] for name, values in vars(self).items()})


def measure_devices(runs: pl.DataFrame) -> tuple[Device, pl.DataFrame]:
    """Return the device's side of each run that can be forecast, and those runs."""
    rows = [
        {
            key: row[key]
            for key in ("model", "gpu", "mode", "gpus", "tp", "dp", "ep", "bs", "isl", "osl", "stack")
        }
        for row in runs.iter_rows(named=True)
    ]
    captured: list[tuple[LanguagePlan, list[Step]]] = []
    original = LanguagePlan.forecast

    def keep(plan: LanguagePlan, steps: list[Step]) -> object:
        captured.append((plan, steps))
        return original(plan, steps)

    LanguagePlan.forecast = keep  # type: ignore[method-assign,assignment]
    try:
        outcomes = forecasts.forecast_cases(rows)
    finally:
        LanguagePlan.forecast = original  # type: ignore[method-assign]
    good = np.array([o.forecast is not None for o in outcomes])
    for outcome in outcomes:
        if outcome.error:
            print("no forecast:", outcome.values["model"], outcome.error)
    values = []
    for plan, (decode, mixed) in captured:
        traffic = plan.traffic
        decode_s, decode_j, sort_w = kernels_of(plan, decode)
        mixed_s, mixed_j, _ = kernels_of(plan, mixed)
        share = traffic.prompt_tokens / traffic.mixed_tokens
        values.append(
            {
                "decode_s": decode_s,
                "mixed_s": mixed_s,
                "decode_j": decode_j,
                "mixed_j": mixed_j,
                "sort_w": sort_w,
                "idle_w": decode.idle_w,
                "share": share,
                "median": median_tokens(traffic) / traffic.mixed_tokens,
                "requests": traffic.running,
                "arrivals": traffic.arrivals,
                "output": traffic.output,
                "gpus": plan.division.gpus,
                "single": plan.division.gpus == 1 and plan.gpu.name == GPU["B200"],
                "cap_w": plan.gpu.power_limit_w,
            }
        )
    device = Device(**{k: np.array([v[k] for v in values], np.float64) for k in values[0]})
    return device, runs.filter(pl.Series(good))


def kernels_of(plan: LanguagePlan, step: Step) -> tuple[float, float, float]:
    """Return time and energy above idle of the kernels laws price, and the softmax's power above idle."""
    modules = [str(row["module"]) for row in step.priced.rows]
    priced = np.array([not module.endswith("sampler.sort") for module in modules])
    softmax = modules.index("sampler.softmax")
    above = (step.row_j - step.idle_w * step.row_s) / plan.engine.power
    return (
        float(step.row_s[priced].sum()),
        float(above[priced].sum()),
        float(above[softmax] / step.row_s[softmax]),
    )


#: Time of a step beside the kernels laws price, from coefficients. [s]
Engine = Callable[[Floats, Device], Floats]


def sort_s(x: Floats, d: Device) -> Floats:
    """Return the time of sorts of each step. [s]"""
    alone, more = np.minimum(d.requests, 128.0), np.maximum(d.requests - 128.0, 0.0)
    return np.asarray(1e-3 * (x[1] * alone + x[2] * more))


def engine_s(x: Floats, d: Device) -> Floats:
    """Return sorts and the engine's own time of each step. [s]"""
    held = 1.0 / (1.0 + (4000.0 / d.output) ** 4)
    return np.asarray(1e-3 * (x[0] + x[3] * held * (d.single > 0)) + sort_s(x, d))


def itl_s(x: Floats, d: Device) -> Floats:
    """Return the median time between tokens. [s]"""
    return np.asarray(d.decode_s + (d.mixed_s - d.decode_s) * d.median + engine_s(x, d))


def mean_s(x: Floats, d: Device) -> Floats:
    """Return the mean time of a step. [s]"""
    return np.asarray(d.decode_s + (d.mixed_s - d.decode_s) * d.share + engine_s(x, d))


def power_w(x: Floats, factors: tuple[float, float], d: Device) -> Floats:
    """Return the power of all GPUs: ``factors`` are those of power above idle, and of sorts beside. [W]"""
    above = d.decode_j + (d.mixed_j - d.decode_j) * d.share + factors[1] * d.sort_w * sort_s(x, d)
    return np.asarray(d.gpus * np.minimum(d.idle_w + factors[0] * above / mean_s(x, d), 0.985 * d.cap_w))


def fit_engine(d: Device, measured: Floats, weight: Floats) -> Floats:
    """Return the coefficients of least weighted absolute logarithmic error of the median time."""

    def loss(x: Floats) -> float:
        error = np.abs(np.log(itl_s(np.abs(x), d) / measured))
        return float(np.sum(weight * error) / np.sum(weight))

    starts = ([0.5, 0.05, 0.02, 5.0], [1.0, 0.08, 0.01, 27.0], [2.0, 0.03, 0.04, 15.0])
    best = min(
        (minimize(loss, s, method="Nelder-Mead", options={"maxiter": 3000}) for s in starts),
        key=lambda r: r.fun,
    )
    return np.abs(best.x)


def fit_power(x: Floats, d: Device, measured: Floats, weight: Floats) -> tuple[float, float]:
    """Return the factors on power of least weighted absolute logarithmic error.

    Sorts draw at most what the softmax of the same numbers draws.
    """
    pairs = [(float(f), float(s)) for f in np.linspace(0.5, 1.5, 101) for s in np.linspace(0.0, 1.0, 11)]
    losses = [np.sum(weight * np.abs(np.log(power_w(x, pair, d) / measured))) for pair in pairs]
    return pairs[int(np.argmin(losses))]


def print_fit(runs: pl.DataFrame) -> None:
    """Print coefficients of each GPU, and the errors with each family of models left out."""
    device, runs = measure_devices(runs)
    runs = runs.with_columns(pl.col("id").map_elements(family_of, return_dtype=pl.String).alias("family"))
    single = pl.col("gpus") == 1
    b200 = pl.col("gpu") == GPU["B200"]
    machines = {"H100": ~b200, "B200, several": b200 & ~single, "B200, single": b200 & single}
    for gpu, chosen in machines.items():
        at = np.flatnonzero(runs.select(chosen).to_series().to_numpy())
        d, here = device.take(at), runs[at]
        counts = here.join(here.group_by("id").len(), on="id", maintain_order="left")["len"].to_numpy()
        weight = 1.0 / counts
        itl, watts = here["measured_itl_ms"].to_numpy() * 1e-3, here["measured_power_w"].to_numpy()
        x = fit_engine(d, itl, weight)
        f = fit_power(x, d, watts, weight)
        print(
            f"{gpu}: step {x[0]:.2f} ms, request {1e3 * x[1]:.0f} us, further {1e3 * x[2]:.0f} us, "
            f"long {x[3]:.1f} ms, power {f[0]:.2f}, sorts {f[1]:.1f}"
        )
        held = {"itl": np.zeros(len(at)), "power": np.zeros(len(at)), "energy": np.zeros(len(at))}
        for family in here["family"].unique(maintain_order=True).to_list():
            out = (here["family"] == family).to_numpy()
            x_in = fit_engine(d.take(np.flatnonzero(~out)), itl[~out], weight[~out]) if (~out).any() else x
            f_in = (
                fit_power(x_in, d.take(np.flatnonzero(~out)), watts[~out], weight[~out])
                if (~out).any()
                else f
            )
            part = d.take(np.flatnonzero(out))
            held["itl"][out] = np.log(itl_s(x_in, part) / itl[out])
            held["power"][out] = np.log(power_w(x_in, f_in, part) / watts[out])
            energy = power_w(x_in, f_in, part) * mean_s(x_in, part) / here["bs"].to_numpy()[out]
            held["energy"][out] = np.log(energy / here["measured_energy_per_token_j"].to_numpy()[out])
        for name, logs in held.items():
            error = 100.0 * np.abs(np.expm1(logs))
            print(
                f"  left out, {name:6s} median {np.median(error):5.1f} mean {error.mean():5.1f} %, "
                f"sd {np.std(logs):.3f}"
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default="../shared/data", type=Path)
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    runs = read_runs(options.root)
    if options.fit:
        print_fit(runs)
        return
    outcomes = forecasts.forecast_cases(
        runs.select(pl.exclude("id", "task", "^measured.*$", "mean_step_ms")).to_dicts()
    )
    records = [None if o.forecast is None else o.forecast.record() for o in outcomes]
    good = [r is not None for r in records]
    table = pl.concat(
        [
            runs.filter(pl.Series(good)),
            pl.DataFrame([r for r in records if r is not None], infer_schema_length=None),
        ],
        how="horizontal",
    )
    for error in sorted({f"{Path(o.values['model']).stem}: {o.error}" for o in outcomes if o.error}):
        print("no forecast:", error)
    print_errors(table, "forecast")
    print_models(table)
    print_choices(table)


if __name__ == "__main__":
    main()
