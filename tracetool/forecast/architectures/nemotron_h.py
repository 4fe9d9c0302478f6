"""Nemotron-H: Mamba-2 layers, feed-forward layers and few of attention, in the order a pattern states."""

from __future__ import annotations

from dataclasses import replace

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import decoder, heads_of, layer_count, plain_mlp, self_attention
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Model
from tracetool.forecast.parts import AllReduce, Linear, Norm, Part
from tracetool.forecast.quantization import Formats, formats_of
from tracetool.forecast.recurrent import GatedNorm, Mamba2


def _mamba(config: Config, hidden: int, formats: Formats, place: int) -> tuple[Part, ...]:
    heads, head_dim = config.size("mamba_num_heads"), config.size("mamba_head_dim")
    state, groups = config.size("ssm_state_size"), config.size("n_groups")
    inner, bias = heads * head_dim, config.flag("mamba_proj_bias", "use_bias")
    each = {"bfloat16": 2.0, "float16": 2.0}.get(config.text("mamba_ssm_cache_dtype", default="float32"), 4.0)
    projected = ((heads, head_dim), (heads, head_dim), (groups, state), (groups, state), (heads, 1))
    dtype = formats.of("mixer.in_proj", place)
    return (
        Linear("mixer.in_proj", hidden, projected, "outputs", dtype, bias=bias),
        Mamba2(
            "mixer.scan", hidden, heads, head_dim, state, groups, config.size("conv_kernel", default=4),
            config.size("chunk_size", default=128), config.flag("use_conv_bias", default=True), each,
        ),
        GatedNorm("mixer.norm", inner // groups, groups),
        Linear("mixer.out_proj", inner, ((hidden, 1),), "inputs", dtype, bias=bias),
        AllReduce("mixer", hidden),
    )  # fmt: skip


def _pattern(config: Config, layers: int) -> str:
    """Return the kind of each layer: M, * and - for Mamba-2, attention and feed-forward."""
    pattern = config.text("hybrid_override_pattern")
    if len(pattern) != layers:
        raise config.fault("hybrid_override_pattern", f"states {len(pattern)} layers of {layers}")
    if unknown := set(pattern) - set("M*-"):
        raise config.fault("hybrid_override_pattern", f"unknown layer {min(unknown)!r}", "known: M * -")
    return pattern


def read(config: Config, name: str) -> Model:
    """Return the model: a norm and one mixer in each layer."""
    hidden = config.size("hidden_size")
    formats = formats_of(config)
    pattern = _pattern(config, layer_count(config))
    bias = config.flag("attention_bias")
    heads = replace(heads_of(config), bias=bias, out_bias=bias, rotated=0)

    def mixer(place: int) -> tuple[Part, ...]:
        if pattern[place] == "M":
            return _mamba(config, hidden, formats, place)
        if pattern[place] == "*":
            return self_attention(hidden, heads, formats.of("mixer.q_proj", place), "mixer")
        size = config.size("intermediate_size")
        dtype = formats.of("mixer.down_proj", place)
        return plain_mlp("mixer", hidden, size, dtype, bias=config.flag("mlp_bias"))

    def layer(place: int) -> tuple[Part, ...]:
        return (Norm("norm", hidden, residual=True), *mixer(place))

    return decoder(config, name, "nemotron_h", hidden, layer)


ARCHITECTURE = Architecture(("nemotron_h",), read)
