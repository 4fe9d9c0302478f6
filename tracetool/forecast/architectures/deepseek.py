"""DeepSeek V2, V3 and R1, Kimi K2: latent attention, experts after a few dense layers, a shared expert.

Layers that predict several tokens ahead are left out: servers do not run them unless told to.
"""

from __future__ import annotations

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import decoder, gated_mlp
from tracetool.forecast.experts import NEARLY_EVEN, Experts
from tracetool.forecast.fields import Config
from tracetool.forecast.latent_attention import LatentAttention
from tracetool.forecast.model import Model
from tracetool.forecast.parts import AllReduce, Linear, Norm, Part
from tracetool.forecast.quantization import Formats, formats_of


def _attention(config: Config, hidden: int, formats: Formats, place: int) -> tuple[Part, ...]:
    dtype = formats.of("self_attn.q_proj", place)
    heads = config.size("num_attention_heads", most=100_000)
    lora, rope = config.size("kv_lora_rank"), config.size("qk_rope_head_dim")
    nope, value = config.size("qk_nope_head_dim"), config.size("v_head_dim")
    q_lora = config.size("q_lora_rank", default=0, least=0)
    queries = ((heads, nope + rope),)
    first: tuple[Part, ...]
    if q_lora:
        first = (
            Linear("self_attn.qkv_a_proj", hidden, ((q_lora, 1), (lora + rope, 1)), "", dtype),
            Norm("self_attn.q_a_layernorm", q_lora),
            Norm("self_attn.kv_a_layernorm", lora),
            Linear("self_attn.q_b_proj", q_lora, queries, "outputs", dtype),
        )
    else:
        first = (
            Linear("self_attn.q_proj", hidden, queries, "outputs", dtype),
            Linear("self_attn.kv_a_proj", hidden, ((lora + rope, 1),), "", dtype),
            Norm("self_attn.kv_a_layernorm", lora),
        )
    return (
        *first,
        LatentAttention("self_attn.attn", heads, lora, rope, nope, value, dtype),
        Linear("self_attn.o_proj", heads * value, ((hidden, 1),), "inputs", dtype),
        AllReduce("self_attn", hidden),
    )


def read(config: Config, name: str) -> Model:
    """Return the model."""
    hidden = config.size("hidden_size")
    formats = formats_of(config)
    experts = config.size("n_routed_experts", most=100_000)
    top_k = config.size("num_experts_per_tok", most=experts)
    size = config.size("moe_intermediate_size")
    shared = size * config.size("n_shared_experts", default=0, least=0, most=1_000)
    dense = config.size("first_k_dense_replace", default=0, least=0)
    step = config.size("moe_layer_freq", default=1)

    def mlp(place: int) -> tuple[Part, ...]:
        if place < dense or place % step:
            return gated_mlp(
                "mlp", hidden, config.size("intermediate_size"), formats.of("mlp.down_proj", place)
            )
        part = Experts(
            "mlp.experts", hidden, size, experts, top_k, formats.of("mlp.experts", place),
            correction=config.text("topk_method", default="") == "noaux_tc", distribution=NEARLY_EVEN,
            fields=("n_routed_experts", "moe_intermediate_size"),
        )  # fmt: skip
        dtype = formats.of("mlp.shared_experts", place)
        both = (
            gated_mlp("mlp.shared_experts", hidden, shared, dtype, "moe_intermediate_size", reduce=False)
            if shared
            else ()
        )
        return (*both, part)

    def layer(place: int) -> tuple[Part, ...]:
        return (
            Norm("input_layernorm", hidden, residual=True),
            *_attention(config, hidden, formats, place),
            Norm("post_attention_layernorm", hidden, residual=True),
            *mlp(place),
        )

    return decoder(config, name, "deepseek", hidden, layer)


ARCHITECTURE = Architecture(("deepseek_v2", "deepseek_v3", "kimi_k2"), read)
