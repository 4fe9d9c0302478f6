"""Encoder-decoders: published weights, operations of a pass, experts, and faults that name their field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.forecast.test_config import BAD
from tests.forecast.test_diffusion import products
from tracetool.core.errors import BadInput
from tracetool.forecast.config import read_model
from tracetool.forecast.model import Forward, Parallel

SMALL = {
    "model_type": "t5", "d_model": 512, "d_ff": 2048, "d_kv": 64, "num_heads": 8, "num_layers": 6,
    "vocab_size": 32128,
}  # fmt: skip
LARGE = SMALL | {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "num_layers": 24}
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
SWITCH = SMALL | {
    "model_type": "switch_transformers", "d_model": 768, "d_ff": 3072, "num_heads": 12, "num_layers": 12,
    "num_experts": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "millions"),
    [
        # Raffel et al., 2020, section 3.7: 60, 220 and 770 M, as their library counts them; FLAN-T5 XL 2.85 B
        (SMALL, 60.507), (LARGE, 737.67),
        (LARGE | GATED | {"d_model": 2048, "d_ff": 5120, "num_heads": 32}, 2849.76),
        # Fedus et al., 2022, table 9: Switch-C 1571 B of 2048 experts; the library's switch-base-8 has 620 M
        (SWITCH, 619.34),
        (SWITCH | {"d_model": 2080, "d_ff": 6144, "num_heads": 64, "num_layers": 15, "num_experts": 2048,
                   "encoder_sparse_step": 1, "decoder_sparse_step": 1}, 1571e3),
    ],
)  # fmt: skip
def test_weights_are_as_published(config: dict[str, Any], millions: float) -> None:
    assert read_model(config).parameters == pytest.approx(millions * 1e6, rel=0.001)


def test_a_pass_multiplies_every_weight_with_every_token_and_the_scores() -> None:
    model, tokens, batch = read_model(LARGE), 128, 4
    rows = model.operators(Forward(0, 0, batch, tokens, tokens), Parallel())
    scores = 4.0 * batch * 3 * 24 * tokens * tokens * 1024  # self twice, cross once
    assert products(rows) == pytest.approx(2.0 * batch * tokens * model.parameters + scores, rel=1e-3)


def test_a_token_meets_one_expert_and_gpus_divide_them() -> None:
    model, alike = read_model(SWITCH), read_model(SWITCH | {"model_type": "t5"})
    forward = Forward(0, 0, 8, 512, 512)
    assert products(model.operators(forward, Parallel())) == pytest.approx(
        products(alike.operators(forward, Parallel())), rel=0.001
    )
    halves = [r for r in model.operators(forward, Parallel(tp=2, ep=2)) if str(r["module"]).endswith("wi")]
    assert {r["count"] for r in halves} == {6 * 4.0}


def test_an_encoder_alone_is_less_than_half() -> None:
    encoder = read_model(SMALL | {"architectures": ["T5EncoderModel"]})
    assert 16.4e6 < encoder.parameters < 36e6


@pytest.mark.parametrize("config", [SMALL, SWITCH])
def test_a_changed_field_gives_a_model_or_one_line(config: dict[str, Any]) -> None:
    for field in config:
        for value in BAD:
            try:
                model = read_model({**config, field: value})
                model.operators(Forward(0, 0, 1, 16, 16), Parallel())
            except BadInput as error:
                assert field in error.line(), (field, value, error.line())


@pytest.mark.parametrize(
    ("parallel", "field"), [(Parallel(tp=5), "num_heads"), (Parallel(tp=3, ep=3), "num_experts")]
)
def test_a_division_that_does_not_fit_names_the_field(parallel: Parallel, field: str) -> None:
    with pytest.raises(BadInput, match=field):
        read_model(SWITCH).operators(Forward(0, 0, 1, 16, 16), parallel)
