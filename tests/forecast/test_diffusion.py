"""Diffusion pipelines: published weights and FLOPs, tokens, passes, and GPUs that share a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracetool as tt
from tests.forecast.test_configs import COUNTS, PATHS
from tracetool.core.errors import BadInput
from tracetool.forecast.config import read_model
from tracetool.forecast.model import Canvas, Forward, Parallel, SequenceRanks
from tracetool.replay.operator_tables import read_table

PIPELINES = [p for p in PATHS if "_class_name" in json.loads(p.read_text())]
#: Tokens of latents and text that attention joins or keeps apart, by size (ML.ENERGY benchmark's canvases).
TOKENS = {
    "black-forest-labs--FLUX.1-dev": (Canvas(1), 4096 + 512),
    "stabilityai--stable-diffusion-3.5-large": (Canvas(1), 4096 + 333),
    "PixArt-alpha--PixArt-Sigma-XL-2-1024-MS": (Canvas(1), 4096),
    "Wan-AI--Wan2.1-T2V-14B-Diffusers": (Canvas(1, 480, 832, 81, 50), 32760),
    "tencent--HunyuanVideo": (Canvas(1, 720, 1280, 129, 50), 118800 + 256),
    "zai-org--CogVideoX-2b": (Canvas(1, 480, 720, 49, 50), 17550 + 226),
    "zai-org--CogVideoX1.5-5B": (Canvas(1, 768, 1360, 81, 50), 44880 + 226),
}


def sd3(**changes: Any) -> dict[str, Any]:
    """A small pipeline of Stable Diffusion 3's kind."""
    transformer = {
        "_class_name": "SD3Transformer2DModel", "attention_head_dim": 64, "caption_projection_dim": 512,
        "in_channels": 16, "out_channels": 16, "joint_attention_dim": 256, "num_attention_heads": 8,
        "num_layers": 4, "patch_size": 2, "pooled_projection_dim": 128, "qk_norm": "rms_norm",
    }  # fmt: skip
    vae = {"_class_name": "AutoencoderKL", "block_out_channels": [32, 64, 64, 64], "latent_channels": 16}
    text = {
        "model_type": "t5",
        "d_model": 256,
        "d_ff": 512,
        "d_kv": 64,
        "num_heads": 4,
        "num_layers": 2,
        "vocab_size": 100,
    }
    return {"_class_name": "SD3", "transformer": transformer | changes, "vae": vae, "text_encoder": text}


def products(rows: list[dict[str, Any]]) -> float:
    """FLOPs of products and attention."""
    gemm = sum(2.0 * r["count"] * r["m"] * r["n"] * r["k"] * r["batch"] for r in rows if r["op"] == "gemm")
    pairs = ("batch", "heads", "head_dim", "q_len", "kv_len")
    attention = 0.0
    for row in rows:
        if row["op"] == "attention":
            term = 4.0 * row["count"]
            for column in pairs:
                term *= row[column]
            attention += term
    return gemm + attention


@pytest.mark.data
@pytest.mark.parametrize("path", PIPELINES, ids=lambda p: p.stem)
def test_a_transformer_has_the_weights_its_library_counts(path: Path) -> None:
    assert read_model(path).parameters == pytest.approx(COUNTS[path.stem][0], rel=1e-4)


@pytest.mark.data
@pytest.mark.skipif(not PIPELINES, reason="no configurations beside the checkout")
@pytest.mark.parametrize("name", TOKENS)
def test_a_canvas_is_as_many_tokens_as_its_latents(name: str) -> None:
    canvas, tokens = TOKENS[name]
    stages = read_model(next(p for p in PIPELINES if p.stem == name)).pipeline(canvas)
    rows = next(s for s in stages if s.name == "transformer").rows
    assert max(float(r["kv_len"]) for r in rows if r["op"] == "attention") == tokens


@pytest.mark.data
@pytest.mark.skipif(not PIPELINES, reason="no configurations beside the checkout")
def test_flops_of_stable_diffusion_are_two_a_weight_and_token_and_the_scores() -> None:
    # Esser et al., Scaling Rectified Flow Transformers, 2024: attention over latents and text; the block
    # weights of each stream meet that stream's tokens. Stable Diffusion 3.5 Large: 38 blocks of 2432.
    path = next(p for p in PIPELINES if p.stem == "stabilityai--stable-diffusion-3.5-large")
    stages = read_model(path).pipeline(Canvas(1))
    rows = next(s for s in stages if s.name == "transformer").rows
    width, layers, image, text = 2432, 38, 4096, 333
    linear = 2.0 * 2 * 12 * width * width * (image * layers + text * (layers - 1) + text * 3 / 12)
    scores = 2.0 * layers * 4 * (image + text) ** 2 * width
    assert products(rows) == pytest.approx(linear + scores, rel=0.02)


@pytest.mark.data
@pytest.mark.parametrize("path", PIPELINES, ids=lambda p: p.stem)
def test_the_rows_of_each_stage_are_operator_tables(path: Path) -> None:
    for stage in read_model(path).pipeline(Canvas(2, 512, 512, 17, 4), SequenceRanks(2, 2)):
        assert stage.runs >= 1
        assert read_table(pl.DataFrame(stage.rows, infer_schema_length=None), of_means=True).frame.height


def test_gpus_share_the_transformer_and_exchange_heads() -> None:
    model, canvas = read_model(sd3()), Canvas(1, 512, 512)
    one, shared = (model.pipeline(canvas, ranks)[-2].rows for ranks in (SequenceRanks(), SequenceRanks(2, 2)))
    alone = 2.0 * 2 * 6 * 512 * 512 * 8 * 4  # modulations run whole on every GPU
    assert products(shared) * 4 == pytest.approx(products(one), abs=4 * alone, rel=0.02)
    assert {r["kind"] for r in shared if r["op"] == "collective"} == {"all_to_all", "send_recv"}
    with pytest.raises(BadInput, match="num_attention_heads"):
        model.pipeline(canvas, SequenceRanks(3))


def test_guidance_calls_the_transformer_with_both_prompts() -> None:
    stages = {s.name: s for s in read_model(sd3()).pipeline(Canvas(3, 512, 512, 1, 10))}
    assert stages["transformer"].runs == 10
    assert {r["batch"] for r in stages["transformer"].rows if r["op"] == "attention"} == {6.0}
    assert stages["text_encoder"].runs == stages["vae"].runs == 1


def test_a_pipeline_makes_no_tokens_and_a_language_model_no_pictures() -> None:
    with pytest.raises(BadInput, match="diffusion pipeline"):
        read_model(sd3()).operators(Forward(1, 1), Parallel())


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"num_layers": None}, "transformer.num_layers"),
        ({"num_attention_heads": -8}, "transformer.num_attention_heads"),
        ({"patch_size": "two"}, "transformer.patch_size"),
        ({"_class_name": "Unheard"}, "transformer._class_name"),
        ({"joint_attention_dim": float("nan")}, "transformer.joint_attention_dim"),
    ],
)
def test_a_fault_of_a_pipeline_names_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput, match=field):
        read_model(sd3(**changes))


@pytest.mark.parametrize("changes", [{"height": 0}, {"steps": -1}, {"batch": True}, {"frames": 10**9}])
def test_a_canvas_out_of_range_names_its_size(changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(changes))):
        Canvas(**changes)


def test_the_time_of_a_whole_batch_is_no_step_of_its_denoising(capsys: pytest.CaptureFixture[str]) -> None:
    tt.forecast("flux.1-dev", gpu="h100-sxm", steps=4).show()
    printed = capsys.readouterr().out
    assert "time of a batch" in printed
    assert "step" not in printed
    grid = tt.forecast("flux.1-dev", gpu="h100-sxm", steps=[2, 4])
    grid.show()
    assert "batch ms" in capsys.readouterr().out
    assert "least energy x batch time" in grid.best["goal"].to_list()


@pytest.mark.parametrize("ratio", [0, 1e-9])
def test_a_feed_forward_of_no_width_is_refused(ratio: float) -> None:
    sana = {"_class_name": "SanaTransformer2DModel", "in_channels": 32, "num_layers": 2, "mlp_ratio": ratio,
            "num_attention_heads": 4, "attention_head_dim": 32, "caption_channels": 64}  # fmt: skip
    with pytest.raises(BadInput, match=r"mlp_ratio: .* of 128 is nothing"):
        tt.forecast({**sd3(), "transformer": sana}, gpu="h100-sxm", mode="generate")


def test_a_decoder_of_millions_of_blocks_is_refused() -> None:
    pipeline = sd3()
    pipeline["vae"]["layers_per_block"] = 10_000_000
    with pytest.raises(BadInput, match=r"vae.layers_per_block: 10000000 is not between 1 and 100"):
        tt.forecast(pipeline, gpu="h100-sxm", mode="generate")
