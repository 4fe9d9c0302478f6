"""The saturation method against measured steps of training: fit, models left out, and per-model scalars.

usage: python benchmarks/saturation.py [DATA_ROOT] [--fit] [--each]      default: ../shared/data

Three sources: whole models in fp32 on one and four GPUs (NeuSight's labels), Llama-3.2-1B in fp32, fp16 and bf16
with its energy, and BERT fine-tuned in fp16 and tf32 on one and four GPUs (Lambda's throughput). ``--fit`` prints
coefficients fitted to all of them. Left out (uncalibrated): coefficients of a fit without the model. In sample: the
delivered ones. Calibrated: those of models left out, with scalars of models and precisions refined on the very runs, as
the method's authors state their errors.
"""

# ruff: noqa: E501

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import least_squares, nnls

from benchmarks.forecast_training import read_llama, read_neusight
from tracetool.forecast import saturation
from tracetool.forecast.case import read_case
from tracetool.forecast.config import read_model
from tracetool.forecast.forecast import forecast_cases
from tracetool.forecast.saturation import METHOD, Saturation, delivered, refined, saturated
from tracetool.forecast.steps import compose
from tracetool.forecast.training_step import StepPlan, divide_training, plan_training
from tracetool.hardware.load import load_gpu

Case = dict[str, Any]
BERT = {"model_type": "bert", "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}
SIZES = {
    "bert_base_squad": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
                        "num_attention_heads": 12},
    "bert_large_squad": {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                         "num_attention_heads": 16},
}  # fmt: skip
LAMBDA = {"A100 80GB PCIe": "a100-pcie-80gb", "A100 80GB SXM4": "a100-sxm", "V100 16GB": "v100-sxm2-16gb"}
#: Spread of scalars about one, and of runs about their model's. [ln]
PRIOR_SD, NOISE_SD = 0.2, 0.1


def read_lambda(root: Path) -> list[tuple[Case, Case]]:
    """Return steps of BERT fine-tuned on SQuAD (384 tokens); what is called fp32 is TF32 on Ampere."""
    runs = pl.read_parquet(root / "training/lambda_throughput.parquet")
    batches = pl.read_parquet(root / "training/lambda_batch_sizes.parquet")
    cases = []
    runs = runs.filter(pl.col("benchmark").is_in(list(SIZES)), pl.col("set").str.starts_with("v1"))
    for run in runs.iter_rows(named=True):
        gpu = next((name for text, name in LAMBDA.items() if text in run["system"]), None)
        precision = run["set"].removeprefix("v1-")
        batch = batches.filter(pl.col("system") == run["system"], pl.col("precision") == precision)
        if gpu is None or run["num_gpu"] not in (1, 4) or not batch.height:
            continue
        sequences = int(batch[run["benchmark"]][0])
        dtype = "fp16" if precision == "fp16" else "tf32" if gpu.startswith("a100") else "fp32"
        case = {
            "model": {**BERT, **SIZES[run["benchmark"]]}, "gpu": gpu, "seq": 384, "gbs": sequences,
            "bs": sequences // run["num_gpu"], "dp": run["num_gpu"], "dtype": dtype, "stack": "torch",
            "attention": "eager", "zero": 0, "optimizer": "adamw",
        }  # fmt: skip
        cases.append((case, {"label": run["benchmark"], "step_ms": 1e3 * sequences / run["throughput"]}))
    return cases


def plans(cases: Sequence[tuple[Case, Case]]) -> list[StepPlan]:
    """Return the plan of each step."""
    made, models = [], {}
    for case, _ in cases:
        asked = read_case({**case, "mode": "train", "method": METHOD})
        model = models.setdefault(repr(case["model"]), read_model(case["model"]))
        gpu = load_gpu(str(asked.gpu))
        made.append(plan_training(asked, model, gpu, divide_training(asked), gpu.clock_boost_mhz))
    return made


def predicted(plan: StepPlan, of: Saturation) -> tuple[float, float]:
    """Return the time and energy of a step of all GPUs. [s], [J]"""
    steps = [
        compose(saturated(one, of=of), host, plan.gpu.power_limit_w)
        for one, host in zip(plan.passes, plan.hosts, strict=True)
    ]
    time, joules, _ = plan._step({s.name: (s.runs, step) for s, step in zip(plan.stages, steps, strict=True)})
    return time, joules * plan.division.gpus


NAMES = ("fp32", "tf32", "fp16", "bf16", "attention", "stream", "half", "launch_s", "link")
START = np.log([0.7, 0.5, 0.5, 1.0, 0.7, 0.7, 32.0, 4e-6, 0.6])
SPREAD = np.array([0.4, 0.4, 0.4, 0.05, 0.5, 0.3, 1.0, 0.7, 0.4])


def coefficients(values: np.ndarray) -> Saturation:
    """Return coefficients of their logarithms."""
    numbers = dict(zip(NAMES, np.exp(values).tolist(), strict=True))
    product = {name: numbers.pop(name) for name in saturation.PRECISIONS}
    product["bf16"] = min(product["bf16"] * product["fp16"], 1.0)  # both run on the same units at one rate
    return replace(delivered(), product=product, **numbers)


def fit(chosen: list[StepPlan], measured_s: np.ndarray) -> Saturation:
    """Return coefficients of least error of ln time, drawn to what is usual."""

    def residuals(values: np.ndarray) -> np.ndarray:
        of = coefficients(values)
        times = np.array([predicted(plan, of)[0] for plan in chosen])
        return np.concatenate([np.log(times / measured_s) / NOISE_SD, (values - START) / SPREAD])

    most = np.where(np.isin(NAMES, ["half", "launch_s", "bf16"]), np.inf, 0.0)  # no share is above one
    return coefficients(
        least_squares(residuals, START, bounds=(-np.inf, most), loss="soft_l1", max_nfev=12).x
    )


def with_powers(of: Saturation, every: list[StepPlan], cases: list[tuple[str, Case, Case]]) -> Saturation:
    """Return coefficients with the shares of power that fit measured energies, none below zero."""
    places = [i for i, (_, _, m) in enumerate(cases) if "energy_j" in m]
    measured = np.array([cases[i][2]["energy_j"] for i in places])

    def joules(compute: float, memory: float) -> np.ndarray:
        other = replace(of, compute_power=compute, memory_power=memory)
        return np.array([predicted(every[i], other)[1] for i in places])

    idle = joules(0.0, 0.0)
    # a small share stays below any cap: energies are linear in both
    parts = [10.0 * (joules(0.1, 0.0) - idle), 10.0 * (joules(0.0, 0.1) - idle)]
    shares, _ = nnls(np.column_stack(parts) / measured[:, None], 1.0 - idle / measured)
    return replace(of, compute_power=float(shares[0]), memory_power=float(shares[1]))


def main() -> None:
    """Print errors with models left out, then with scalars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default="../shared/data", type=Path)
    parser.add_argument("--fit", action="store_true", help="print coefficients fitted to all runs")
    parser.add_argument("--each", action="store_true", help="print every run")
    options = parser.parse_args()
    sources = {"NeuSight": read_neusight, "Llama-3.2-1B": read_llama, "Lambda BERT": read_lambda}
    every_case = [(name, *one) for name, read in sources.items() for one in read(options.root)]
    cases = [
        one for one in every_case if "switch" not in one[2]["label"]
    ]  # experts of T5 are no architecture
    measured = np.array([m["step_ms"] * 1e-3 for _, _, m in cases])
    every = plans([(case, m) for _, case, m in cases])
    models = ["llama-3.2-1b" if n.startswith("Llama") else m["label"].split()[0] for n, _, m in cases]
    models = [name.replace("bert_large_squad", "bert_large") for name in models]
    precisions = [str(case["dtype"]) for _, case, _ in cases]
    if options.fit:
        of = with_powers(fit(every, measured), every, cases)
        print(", ".join(f"{k} {v:.3g}" for k, v in {**of.product, **vars(of)}.items() if k != "product"))
    out = np.zeros(len(cases))
    for model in dict.fromkeys(models):
        left = [i for i, name in enumerate(models) if name == model]
        rest = [i for i, name in enumerate(models) if name != model]
        of = fit([every[i] for i in rest], measured[rest])
        out[left] = [predicted(every[i], of)[0] for i in left]
    of = delivered()
    own = np.array([predicted(plan, of)[0] for plan in every])
    by_model, by_precision = refined(np.log(measured / out), models, precisions, PRIOR_SD, NOISE_SD)
    tuned = out * [by_model[m] * by_precision[p] for m, p in zip(models, precisions, strict=True)]
    groups = [("all", np.ones(len(cases), bool))]
    groups += [(s, np.array([n == s for n, *_ in cases])) for s in sources]
    groups += [(p, np.array([one == p for one in precisions])) for p in saturation.PRECISIONS]
    gpus = np.array([plan.division.gpus for plan in every])
    groups += [(f"{n} GPU", gpus == n) for n in (1, 4)]
    laws = forecast_cases([{**case, "mode": "train"} for _, case, _ in cases])
    lawful = (
        np.array([np.nan if o.forecast is None else o.forecast.figures["step_ms"].value for o in laws]) / 1e3
    )
    print(f"{'median absolute error of time, %':34s} {'runs':>5s} {'left out':>9s} {'in sample':>10s} "
          f"{'calibrated':>11s} {'laws':>6s}")  # fmt: skip
    for name, rows in groups:
        if rows.any():
            errors = [
                100 * np.nanmedian(np.abs(t[rows] / measured[rows] - 1)) for t in (out, own, tuned, lawful)
            ]
            print(
                f"{name:34s} {rows.sum():5d} {errors[0]:9.1f} {errors[1]:10.1f} {errors[2]:11.1f} {errors[3]:6.1f}"
            )
    stated = forecast_cases([{**case, "mode": "train", "method": METHOD} for _, case, _ in cases])
    steps = [o.forecast.figures["step_ms"] for o in stated if o.forecast is not None]
    inside = [one.low <= ms <= one.high for one, ms in zip(steps, 1e3 * measured, strict=True)]
    spread = np.log(out / measured)
    print(
        f"spread of ln time, models left out: {spread.std():.3f}; {100 * np.mean(inside):.0f} % of 90 % intervals hold"
    )
    with_energy = [i for i, (_, _, m) in enumerate(cases) if "energy_j" in m]
    joules = np.array([predicted(every[i], of)[1] for i in with_energy])
    ratio = joules / [cases[i][2]["energy_j"] for i in with_energy]
    print(f"energy: median absolute error {100 * np.median(np.abs(ratio - 1)):.1f} % of {len(ratio)}, in sample; "
          f"spread {np.log(ratio).std():.3f}, mean ratio {np.exp(np.log(ratio).mean()):.2f}")  # fmt: skip
    print("scalars of models:", {k: round(v, 2) for k, v in by_model.items()})
    print("scalars of precisions:", {k: round(v, 2) for k, v in by_precision.items()})
    if options.each:
        for (name, case, m), plan, a, b in zip(cases, every, out, tuned, strict=True):
            print(f"{name:14s} {m['label']:20s} {case['gpu']:15s} {case['dtype']:5s} {plan.division.gpus} "
                  f"{m['step_ms']:8.0f} ms {a / m['step_ms'] * 1e3 - 1:+.2f} {b / m['step_ms'] * 1e3 - 1:+.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
