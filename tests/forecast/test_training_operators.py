"""Steps of training: published FLOPs, what each choice adds, and rows the model can price."""

# ruff: noqa: E501 - configurations stand in one line

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.forecast.test_llama import flops
from tracetool.core.errors import BadInput
from tracetool.forecast.case import Case, Division
from tracetool.forecast.config import read_model
from tracetool.forecast.model import Forward, Parallel, Row, Stage, TrainingPlan
from tracetool.forecast.training_passes import framework_stages
from tracetool.replay.operator_tables import read_table

BERT = {
    "model_type": "bert", "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
    "num_hidden_layers": 24, "vocab_size": 30522,
}  # fmt: skip


def steps(
    plan: TrainingPlan, name: str = "llama-3.2-1b", replicas: int = 1, **parallel: int
) -> tuple[Stage, ...]:
    division = Division(Parallel(**parallel), replicas)
    return framework_stages(Case(), read_model(name), plan, division, "megatron", 8)


def stages(plan: TrainingPlan, **division: int) -> dict[str, list[Row]]:
    return {stage.name: stage.rows for stage in steps(plan, **division)}


def all_rows(plan: TrainingPlan, name: str, **division: int) -> list[Row]:
    """Return the rows of a step, ``count`` over all its micro batches."""
    return [
        {**row, "count": float(row["count"]) * stage.runs}
        for stage in steps(plan, name, **division)
        for row in stage.rows
    ]


@pytest.mark.parametrize(
    ("source", "billions"),
    [
        # Devlin et al., BERT, 2019: 340 M in all, 110 M of the base; heads left out as the library counts them
        (BERT, 0.3351), (BERT | {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12}, 0.1095),
        # Lan et al., ALBERT, 2020, table 2: large 18 M, xxlarge 235 M (223 in the library), layers share weights
        (BERT | {"model_type": "albert", "embedding_size": 128, "vocab_size": 30000}, 0.0177),
        # Sanh et al., DistilBERT, 2019: 66 M
        ({"model_type": "distilbert", "dim": 768, "hidden_dim": 3072, "n_heads": 12, "n_layers": 6, "vocab_size": 30522}, 0.0664),
    ],
)  # fmt: skip
def test_an_encoder_has_its_published_weights(source: dict[str, Any], billions: float) -> None:
    assert read_model(source).parameters == pytest.approx(billions * 1e9, rel=0.005)


def test_albert_runs_every_layer_on_one_set_of_weights() -> None:
    albert = read_model(BERT | {"model_type": "albert", "embedding_size": 128})
    bert = read_model(BERT)
    forward = Forward(prefill_requests=4, prefill_tokens=128, prefill_context=128)
    assert flops(albert.operators(forward, Parallel())) == pytest.approx(
        flops(bert.operators(forward, Parallel())), rel=0.01
    )
    assert albert.weight_bytes(Parallel()) < bert.weight_bytes(Parallel()) / 10


@pytest.mark.parametrize(
    ("name", "weights_multiplied"),
    [("llama-2-7b", 6.74e9 - 32000 * 4096), ("tinyllama-1.1b", 1.10e9 - 32000 * 2048)],
)
def test_products_of_a_step_are_six_a_weight_and_token(name: str, weights_multiplied: float) -> None:
    # Kaplan et al., Scaling Laws for Neural Language Models, 2020, section 2.1: 2 forward, 4 back
    rows = all_rows(TrainingPlan(micro_batch=2, seq_len=2048), name)
    assert flops(rows) == pytest.approx(6.0 * weights_multiplied * 2 * 2048, rel=0.02)


def test_bert_takes_its_published_operations() -> None:
    # 24 n h^2 and 4 n s h a layer (Narayanan et al., 2021, section 3): 24 layers of 1024 on 512 tokens
    rows = read_model(BERT).operators(Forward(0, 0, 1, 512, 512), Parallel())
    attention = sum(
        4.0 * r["count"] * r["batch"] * r["heads"] * r["head_dim"] * r["q_len"] * r["kv_len"]  # type: ignore[operator]
        for r in rows
        if r["op"] == "attention"
    )
    assert flops(rows) + attention == pytest.approx(24 * (24 * 512 * 1024**2 + 4 * 512**2 * 1024), rel=0.02)


def test_recomputation_runs_the_layers_again() -> None:
    plain, again = (stages(TrainingPlan(recompute=r)) for r in ("none", "full"))  # type: ignore[arg-type]
    assert "recompute" not in plain
    layers = [r for r in plain["forward"] if str(r["module"]).startswith("layers")]
    assert again["recompute"] == layers
    assert {r["op"] for r in stages(TrainingPlan(recompute="selective"))["recompute"]} == {"attention"}


@pytest.mark.parametrize(
    ("zero", "kinds"),
    [(0, ["all_reduce"]), (1, ["reduce_scatter", "all_gather"]), (3, ["reduce_scatter", "all_gather"])],
)
def test_replicas_exchange_what_they_divide(zero: int, kinds: list[str]) -> None:
    stages_by_name = {s.name: s for s in steps(TrainingPlan(zero=zero, accumulation=4), replicas=8)}
    rows = [s for name, s in stages_by_name.items() if name in {"gradients", "weights"}]
    assert [r["kind"] for s in rows for r in s.rows] == kinds
    assert [s.runs for s in rows] == ([4.0, 8.0] if zero == 3 else [1.0] * len(kinds))
    parameters = read_model("llama-3.2-1b").parameters
    step = stages_by_name["optimizer"].rows[-1]
    assert float(step["elements"]) == pytest.approx(parameters / (8 if zero else 1), rel=0.01)


def test_a_number_format_is_that_of_the_products() -> None:
    rows = stages(TrainingPlan(dtype="tf32"))["forward"]
    assert {r["dtype"] for r in rows if r["op"] == "gemm"} == {"tf32"}
    assert {r["dtype"] for r in rows if r["op"] in {"norm", "attention"}} == {"fp32"}


def test_nothing_of_serving_is_trained() -> None:
    rows = [row for part in stages(TrainingPlan()).values() for row in part]
    assert not [r for r in rows if "sampler" in str(r["module"]) or str(r["module"]).endswith(".cache")]


@pytest.mark.parametrize(
    "name", ["llama-3.2-1b", "qwen3-30b-a3b", "deepseek-r1", "nemotron-nano-9b-v2", "gpt2"]
)
def test_the_rows_are_an_operator_table(name: str) -> None:
    plan = TrainingPlan(2, 256, 2, 4, 1)
    rows = all_rows(plan, name, tp=2, ep=2)
    table = read_table(pl.DataFrame(rows, infer_schema_length=None), of_means=True)
    assert table.frame.height == len(rows)


@pytest.mark.parametrize(
    "fields",
    [
        {"micro_batch": 0},
        {"zero": 4},
        {"optimizer": "luck"},
        {"dtype": "fp7"},
        {"seq_len": 2.5},
        {"accumulation": True},
    ],
)
def test_a_plan_out_of_range_names_its_field(fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=rf"^{next(iter(fields))}: "):
        TrainingPlan(**fields)
