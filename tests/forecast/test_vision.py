"""Models of pictures: published weights and operations."""

# ruff: noqa: E501 - configurations stand in one line

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import tracetool as tt
from tracetool.core.errors import BadInput
from tracetool.forecast.config import read_model
from tracetool.forecast.model import Forward, Parallel
from tracetool.replay.operator_tables import read_table

VIT = {
    "model_type": "vit", "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
    "num_hidden_layers": 24, "patch_size": 16,
}  # fmt: skip

MOBILEVIT = {
    "model_type": "mobilevit", "neck_hidden_sizes": [16, 32, 64, 96, 128, 160, 640],
    "hidden_sizes": [144, 192, 240],
}  # fmt: skip


def test_an_encoder_is_asked_for_a_pass_of_a_batch() -> None:
    result = tt.forecast(VIT, gpu="h100-sxm")
    assert result.frame["mode"].to_list() == ["prefill"]
    assert result.frame["largest_batch"].to_list() == [None]  # pictures keep nothing in memory
    assert result.frame["ttft_ms"].item() > 0
    for mode in ("serve", "decode"):
        with pytest.raises(BadInput) as raised:
            tt.forecast(VIT, gpu="h100-sxm", mode=mode)
        assert raised.value.line() == f"mode: {mode}: the model decodes no tokens (ask with --mode prefill)"


def test_no_largest_batch_is_printed_where_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    tt.forecast(VIT, gpu="h100-sxm").show()
    assert "largest batch" not in capsys.readouterr().out


def operations(rows: list[dict[str, Any]]) -> float:
    """Multiply-adds of products, convolutions and attention."""
    total = 0.0
    for row in rows:
        if row["op"] == "gemm":
            total += row["count"] * row["batch"] * row["m"] * row["n"] * row["k"]
        elif row["op"] == "attention":
            total += (
                2
                * row["count"]
                * row["batch"]
                * row["heads"]
                * row["head_dim"]
                * row["q_len"]
                * row["kv_len"]
            )
        elif row["op"] == "conv2d":
            height = (row["height"] + 2 * row["padding"] - row["kernel_h"]) // row["stride"] + 1
            weights = row["channels"] / row["groups"] * row["filters"] * row["kernel_h"] * row["kernel_w"]
            total += row["count"] * row["batch"] * height * height * weights
    return total


@pytest.mark.parametrize(
    ("config", "millions", "giga"),
    [
        # torchvision's tables of weights and multiply-adds: resnet50 25.6 M and 4.09 G, resnet101 44.5 and 7.80,
        # resnet18 11.7 and 1.81, vit_l_16 304.3 and 61.55, vit_b_16 86.6 and 17.56, convnext_tiny 28.6 and 4.46,
        # swin_t 28.3 and 4.49, efficientnet_b0 5.29 and 0.386; Mehta and Rastegari, 2022: MobileViT-S 5.6 and 2.0
        ({"model_type": "resnet"}, 25.56, 4.09),
        ({"model_type": "resnet", "depths": [3, 4, 23, 3]}, 44.55, 7.80),
        ({"model_type": "resnet", "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}, 11.69, 1.81),
        (VIT, 304.3, 61.55),
        (VIT | {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12}, 86.57, 17.56),
        ({"model_type": "convnext"}, 28.59, 4.46),
        ({"model_type": "efficientnet"}, 5.289, 0.386),
        ({"model_type": "swin", "embed_dim": 96, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24]}, 28.29, 4.49),
        (MOBILEVIT, 5.579, 2.0),
    ],
)  # fmt: skip
def test_weights_and_operations_are_as_published(
    config: dict[str, Any], millions: float, giga: float
) -> None:
    model = read_model(config)
    assert model.parameters == pytest.approx(millions * 1e6, rel=0.005)
    rows = model.operators(Forward(prefill_requests=2), Parallel())
    assert operations(rows) / 2 == pytest.approx(giga * 1e9, rel=0.02)
    assert read_table(pl.DataFrame(rows, infer_schema_length=None)).frame.height == len(rows)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"model_type": "resnet", "depths": [3]}, "depths"),
        ({"model_type": "resnet", "depths": [3, 4, 6, 10**6]}, "depths"),
        ({"model_type": "vit"}, "hidden_size"),
        (VIT | {"patch_size": 500}, "patch_size"),
        ({"model_type": "swin", "embed_dim": 96, "depths": [2], "num_heads": []}, "depths"),
        ({"model_type": "convnext", "hidden_sizes": "96"}, "hidden_sizes"),
        (MOBILEVIT | {"neck_hidden_sizes": []}, "neck_hidden_sizes"),
        (MOBILEVIT | {"hidden_sizes": [144, 192]}, "hidden_sizes"),
        (MOBILEVIT | {"patch_size": 0}, "patch_size"),
    ],
)
def test_a_fault_names_its_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput, match=field):
        read_model(config)


def test_pictures_are_not_divided() -> None:
    with pytest.raises(BadInput, match="divided"):
        read_model({"model_type": "resnet"}).operators(Forward(prefill_requests=1), Parallel(tp=2))
