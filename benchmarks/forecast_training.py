"""Errors of forecasts of measured training steps, beside six operations a weight and token at the peak.

usage: python benchmarks/forecast_training.py [DATA_ROOT]      default: ../shared/data

Four sources: whole models on one to four GPUs in fp32 (NeuSight's labels, no optimizer's step), NVIDIA's
published step times of Megatron-Bridge (bf16, fp8) and of NeMo (one recipe in both formats), and Llama-3.2-1B
forward and backward with its energy.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tracetool.families.formats import product_rate
from tracetool.forecast.config import read_model
from tracetool.forecast.forecast import Outcome, forecast_cases
from tracetool.hardware.load import load_gpu

Case = dict[str, Any]

NEUSIGHT = {
    "AMD_Instinct_MI100": "mi100", "AMD_Instinct_MI210": "mi210", "AMD_Instinct_MI250": "mi250",
    "NVIDIA_A100-SXM4-40GB": "a100-sxm-40gb", "NVIDIA_A100_80GB_PCIe": "a100-pcie-80gb",
    "Tesla_V100-PCIE-32GB": "v100-pcie",
}  # fmt: skip
MEGATRON = {
    "LLAMA3_8B": "meta-llama--Llama-3.1-8B-Instruct", "LLAMA3_70B": "meta-llama--Llama-3.1-70B-Instruct",
    "LLAMA3.1_405B": "meta-llama--Llama-3.1-405B-Instruct",
    "Qwen3_30B_a3B": "Qwen--Qwen3-30B-A3B-Instruct-2507",
    "Qwen3_235B_a22B": "Qwen--Qwen3-235B-A22B-Instruct-2507", "GPT OSS 120B": "openai--gpt-oss-120b",
    "DeepSeekV3": "deepseek-ai--DeepSeek-V3.1",
}  # fmt: skip
#: Seconds a step of Llama 3.1 takes on H100, sequences of 8192, one in a micro batch, as NVIDIA publishes
#: them beside its recipe for NeMo (dgxc-benchmarking): weights, GPUs, tp, pp, cp, vpp, gbs, format.
NEMO = {
    ("8B", 8, 1, 1, 2, 1, 128, "bf16"): 12.27, ("8B", 8, 1, 1, 2, 1, 128, "fp8"): 9.33,
    ("70B", 64, 4, 4, 2, 5, 128, "bf16"): 14.66, ("70B", 64, 4, 8, 1, 5, 128, "fp8"): 9.86,
    ("405B", 512, 8, 8, 2, 8, 256, "bf16"): 19.78, ("405B", 512, 8, 8, 2, 8, 256, "fp8"): 12.37,
}  # fmt: skip
ENERGY = {"a100": "a100-sxm", "a40": "a40", "v100": "v100-sxm2-16gb"}


def read_neusight(root: Path) -> list[tuple[Case, Case]]:
    """Return cases and measurements of whole models in fp32, forward and backward."""
    configs = dict(pl.read_parquet(root / "training/neusight_model_configs.parquet").iter_rows())
    runs = pl.read_parquet(root / "training/neusight_models.parquet").filter(pl.col("mode") == "train")
    cases = []
    for run in runs.iter_rows(named=True):
        kind = run["parallel"] or ""
        case = {
            "model": json.loads(configs[run["model"]]), "gpu": NEUSIGHT[run["gpu"]], "seq": run["seq_length"],
            "gbs": run["batch"], "bs": run["batch"] / (4 if kind == "dp4" else 1), "dtype": "fp32",
            "stack": "torch", "attention": "eager", "optimizer": "none", "zero": 0,
            **({kind[:2]: 4} if kind else {}),
        }  # fmt: skip
        cases.append((case, {"label": f"{run['model']} {kind}", "step_ms": run["e2e_latency"]}))
    return cases


def read_megatron(root: Path) -> list[tuple[Case, Case]]:
    """Return cases and measurements of NVIDIA's published pre-training runs."""
    runs = pl.read_parquet(root / "training/megatron_bridge_performance.parquet")
    cases = []
    for run in runs.filter(pl.col("phase").str.contains("Pre-Training")).iter_rows(named=True):
        name = run["model"].partition(" (")[0]
        if name not in MEGATRON or "tokendrop" in run["model"] or run["Precision"] is None:
            continue
        numbers = {
            key: int(run[key]) if str(run[key]).isdigit() else 1 for key in ("TP", "PP", "CP", "VP", "EP")
        }
        precision = run["Precision"]
        dtype = (
            "bf16"
            if "BF16" in precision
            else "mxfp8"
            if "MX" in precision and "CS" not in precision
            else "fp8"
        )
        case = {
            "model": str(root / f"models/{MEGATRON[name]}.json"),
            "gpu": {"DGX-H100": "h100-sxm", "DGX-B200": "b200-sxm"}.get(run["System"], run["System"]),
            "gpus": int(run["gpus"]), "gbs": int(run["GBS"]), "bs": int(run["MBS"]),
            "seq": int(run["Sequence Length"]), "dtype": dtype, "stack": "megatron",
            **{k: numbers[k.upper()] for k in ("tp", "pp", "cp", "ep")}, "vpp": numbers["VP"],
            "zero": 3 if run["FSDP"] not in (None, "0", "n/a") else 1,
        }  # fmt: skip
        label = f"{run['model']} {run['System']} {precision}"
        cases.append((case, {"label": label, "step_ms": 1e3 * run["step_s_derived"]}))
    return cases


def read_nemo(root: Path) -> list[tuple[Case, Case]]:
    """Return cases and measurements of NVIDIA's recipe for NeMo."""
    cases = []
    for (weights, gpus, tp, pp, cp, vpp, gbs, dtype), seconds in NEMO.items():
        case = {
            "model": str(root / f"models/meta-llama--Llama-3.1-{weights}-Instruct.json"), "gpu": "h100-sxm",
            "gpus": gpus, "tp": tp, "pp": pp, "cp": cp, "vpp": vpp, "bs": 1, "gbs": gbs, "seq": 8192,
            "dtype": dtype, "stack": "megatron",
        }  # fmt: skip
        cases.append((case, {"label": f"{weights} {dtype}", "step_ms": 1e3 * seconds}))
    return cases


def read_llama(root: Path) -> list[tuple[Case, Case]]:
    """Return cases and measurements of Llama-3.2-1B; bf16 on a V100 is emulated and left out."""
    runs = pl.read_parquet(root / "training/llama32_1b_train_energy.parquet")
    runs = runs.filter(pl.col("batch_size").is_not_null(), pl.col("fwd_bwd_time_s").is_not_null())
    cases = []
    for run in runs.iter_rows(named=True):
        gpu, dtype = run["file"].split("_")[0], run["precision"]
        if gpu == "v100" and dtype == "bf16":
            continue
        case = {
            "model": "llama-3.2-1b", "gpu": ENERGY[gpu], "bs": run["batch_size"], "gbs": run["batch_size"],
            "seq": run["input_length"], "dtype": dtype, "stack": "torch", "optimizer": "none",
        }  # fmt: skip
        measured = {
            "label": f"{dtype} {run['input_length']}",
            "step_ms": 1e3 * run["fwd_bwd_time_s"],
            "energy_j": run["fwd_bwd_energy_joules"],
        }
        cases.append((case, measured))
    return cases


def naive_ms(case: Case, gpus: int) -> float:
    """Return six operations a weight and token at the GPU's peak of the format. [ms]"""
    gpu, model = load_gpu(case["gpu"]), read_model(case["model"])
    rate = float(product_rate(np.array([case["dtype"]], object), gpu)[0])
    peak = rate * gpu.sm_count * gpu.clock_boost_mhz * 1e6
    return 1e3 * 6.0 * model.active_parameters * case["gbs"] * case["seq"] / (peak * gpus)


def print_source(name: str, cases: list[tuple[Case, Case]], *, each: bool) -> None:
    """Print the errors over one source."""
    outcomes: list[Outcome] = forecast_cases([{**case, "mode": "train"} for case, _ in cases])
    errors: dict[str, list[float]] = {"step_ms": [], "energy_j": [], "naive": []}
    inside: dict[str, list[bool]] = {"step_ms": [], "energy_j": []}
    for (case, measured), outcome in zip(cases, outcomes, strict=True):
        if outcome.forecast is None:
            print("no forecast:", measured["label"], case["gpu"], outcome.error)
            continue
        figures = outcome.forecast.figures
        ratio = figures["step_ms"].value / measured["step_ms"]
        errors["step_ms"].append(ratio - 1.0)
        inside["step_ms"].append(figures["step_ms"].low <= measured["step_ms"] <= figures["step_ms"].high)
        errors["naive"].append(naive_ms(case, outcome.forecast.gpus) / measured["step_ms"] - 1.0)
        energy = ""
        if "energy_j" in measured:
            step = figures["energy_per_item_j"]
            scale = case["gbs"]
            errors["energy_j"].append(step.value * scale / measured["energy_j"] - 1.0)
            inside["energy_j"].append(step.low * scale <= measured["energy_j"] <= step.high * scale)
            energy = f" energy {errors['energy_j'][-1]:+.2f}"
        if each:
            facts = {k: round(v) for k, v in outcome.forecast.facts.items() if k.endswith("_ms")}
            print(
                f"  {measured['label']:34s} {case['gpu']:14s} {measured['step_ms']:8.0f} ms {ratio - 1:+.2f}"
                f"{energy}  naive {errors['naive'][-1]:+.2f}  {facts}"
            )
    for figure in ("step_ms", "energy_j", "naive"):
        if errors[figure]:
            values = np.abs(errors[figure])
            print(
                f"{name}, {figure}: median absolute error {100 * np.median(values):.1f} % of {len(values)}",
                *(
                    [f"{100 * np.mean(inside[figure]):.0f} % of 90 % intervals hold"]
                    if figure in inside
                    else []
                ),
                sep=", ",
            )


def main() -> None:
    """Print the errors of each source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default="../shared/data", type=Path)
    parser.add_argument("--each", action="store_true", help="print every run")
    options = parser.parse_args()
    sources = {
        "NeuSight": read_neusight, "Megatron-Bridge": read_megatron, "NeMo": read_nemo,
        "Llama-3.2-1B": read_llama,
    }  # fmt: skip
    for name, read in sources.items():
        print_source(name, read(options.root), each=options.each)


if __name__ == "__main__":
    main()
