"""Dense decoders: published counts of weights, and operators that add up."""

# ruff: noqa: E501 - sizes stand in one line

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tracetool.core.errors import BadInput
from tracetool.forecast.config import read_model
from tracetool.forecast.model import Forward, Parallel
from tracetool.replay.operator_tables import read_table


def llama(**changes: Any) -> dict[str, Any]:
    """Sizes of Llama-3.1-8B (Llama Team, The Llama 3 Herd of Models, 2024, table 3), changed."""
    sizes = {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
        "tie_word_embeddings": False,
    }  # fmt: skip
    return sizes | changes


def flops(rows: list[dict[str, Any]]) -> float:
    return sum(2.0 * r["count"] * r["m"] * r["n"] * r["k"] for r in rows if r["op"] == "gemm")


@pytest.mark.parametrize(
    ("changes", "billions"),
    [
        ({}, 8.03),
        ({"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64}, 70.6),
        ({"hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128}, 405.9),
    ],
)  # fmt: skip
def test_weights_are_as_published(changes: dict[str, int], billions: float) -> None:
    # Llama Team, The Llama 3 Herd of Models, 2024; the model cards count 8.03, 70.6 and 405.9 billion
    model = read_model(llama(**changes))
    assert model.parameters == pytest.approx(billions * 1e9, rel=1e-3)
    assert model.weight_bytes(Parallel()) == pytest.approx(2.0 * model.parameters, rel=1e-6)


def test_a_token_takes_two_operations_a_weight_it_meets() -> None:
    model = read_model(llama())
    rows = model.operators(Forward(decode_requests=16, decode_context=100), Parallel())
    looked_up = 128256 * 4096  # rows of the embedding are read, not multiplied
    assert flops(rows) == pytest.approx(16 * 2.0 * (model.parameters - looked_up), rel=1e-3)


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_tensor_parallel_gpus_share_the_products(tp: int) -> None:
    model, forward = read_model(llama()), Forward(8, 512, 1, 256, 256)
    one, shared = (model.operators(forward, Parallel(tp=n)) for n in (1, tp))
    assert flops(shared) * tp == pytest.approx(flops(one), rel=1e-9)
    reduced = [r for r in shared if r["op"] == "collective" and r["kind"] == "all_reduce"]
    assert sum(r["count"] for r in reduced) == 2 * 32 + 1  # after attention, after the MLP, after embedding
    assert {r["bytes"] for r in reduced} == {(8 + 256) * 4096 * 2.0}
    assert model.weight_bytes(Parallel(tp=tp)) * tp == pytest.approx(2.0 * model.parameters, rel=1e-3)


def test_keys_are_repeated_where_gpus_outnumber_their_heads() -> None:
    model = read_model(llama())
    assert model.kv_bytes_per_token(Parallel()) == 2 * 32 * 8 * 128 * 2
    assert model.kv_bytes_per_token(Parallel(tp=8)) == 2 * 32 * 128 * 2
    assert model.kv_bytes_per_token(Parallel(tp=16)) == 2 * 32 * 128 * 2


def test_a_stage_holds_its_share_of_the_layers() -> None:
    model = read_model(llama())
    rows = model.operators(Forward(8, 512), Parallel(pp=4))
    assert {r["count"] for r in rows if str(r["module"]).startswith("layers")} == {8.0}
    assert model.kv_bytes_per_token(Parallel(pp=4)) * 4 == model.kv_bytes_per_token(Parallel())


def test_the_rows_are_an_operator_table() -> None:
    rows = read_model(llama()).operators(Forward(8, 512, 2, 100, 300), Parallel(tp=2))
    table = read_table(pl.DataFrame(rows, infer_schema_length=None))
    assert table.frame.height == len(rows)


@pytest.mark.parametrize(
    ("changes", "division", "field"),
    [
        ({}, {"tp": 3}, "num_attention_heads"),
        ({"num_attention_heads": 36, "hidden_size": 4608, "num_key_value_heads": 4}, {"tp": 6}, "num_key_value_heads"),
        ({"intermediate_size": 14337}, {"tp": 2}, "intermediate_size"),
        ({}, {"pp": 33}, "num_hidden_layers"),
        ({}, {"tp": 2, "ep": 3}, "ep"),
        ({}, {"tp": 0}, "tp"),
    ],
)  # fmt: skip
def test_a_division_that_does_not_fit_names_the_field(
    changes: dict[str, int], division: dict[str, int], field: str
) -> None:
    model = read_model(llama(**changes))
    with pytest.raises(BadInput, match=rf"^{field}: "):
        model.operators(Forward(8, 512), Parallel(**division))
