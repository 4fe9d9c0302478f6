"""Transformers over patches: ViT, DeiT (Dosovitskiy et al., 2021), Swin with windows (Liu et al., 2021)."""

from __future__ import annotations

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.transformer_blocks import encoder_block
from tracetool.forecast.vision import Pictures, classes_of, vision_model


def _patches(graph: Graph, config: Config, of: Pictures, patch: int, width: int) -> int:
    side = of.side // patch
    if not side:
        raise config.fault("patch_size", f"{patch} is beyond the picture's {of.side}")
    size = (float(of.side), float(of.side))
    channels = config.size("num_channels", default=3)
    graph.conv("patches", of.batch, channels, size, width, patch, stride=patch, padding=0)
    return side


def _vit(graph: Graph, config: Config, of: Pictures) -> None:
    width, heads = config.size("hidden_size"), config.size("num_attention_heads")
    side = _patches(graph, config, of, config.size("patch_size", default=16, most=10_000), width)
    tokens = side * side + (2 if config.text("model_type") == "deit" else 1)
    graph.weights(float(tokens) * width + (tokens - side * side) * width)
    graph.elementwise("embeddings", of.batch * tokens * width, reads=2)
    with graph.repeat(config.size("num_hidden_layers", most=2_000)):
        encoder_block(graph, of.batch, tokens, width, config.size("intermediate_size"), heads)
    graph.norm("layernorm", of.batch * tokens, width, weights=2 * width)
    graph.linear("classifier", of.batch, width, classes_of(config))


def _swin(graph: Graph, config: Config, of: Pictures) -> None:
    width, window = config.size("embed_dim"), config.size("window_size", default=7, most=1_000)
    depths, heads = config.sizes("depths", least=1, most=20), config.sizes("num_heads", least=1, most=20)
    if not depths or len(depths) != len(heads):
        raise config.fault("depths", f"states {len(depths)} stages, num_heads {len(heads)}")
    if max(depths) > 1_000:
        raise config.fault("depths", f"{max(depths)} blocks are more than 1000")
    side = _patches(graph, config, of, config.size("patch_size", default=4, most=10_000), width)
    graph.norm("embeddings.norm", of.batch * side * side, width, weights=2 * width)
    for stage, (depth, count) in enumerate(zip(depths, heads, strict=True)):
        windows = max(side // window, 1) ** 2
        inner = config.scaled(width, "mlp_ratio", default=4.0)
        with graph.repeat(depth):
            graph.weights(float((2 * window - 1) ** 2 * count))  # positions inside a window
            graph.elementwise("block.shift", of.batch * side * side * width, count=2)
            encoder_block(graph, of.batch * windows, side * side / windows, width, inner, count)
        if stage < len(depths) - 1:
            side = max(side // 2, 1)
            graph.norm("merge.norm", of.batch * side * side, 4 * width, weights=8 * width)
            graph.linear("merge", of.batch * side * side, 4 * width, 2 * width, bias=False)
            width *= 2
    graph.norm("layernorm", of.batch * side * side, width, weights=2 * width)
    graph.linear("classifier", of.batch, width, classes_of(config))


def read(config: Config, name: str) -> Model:
    """Return the model."""
    add = _swin if config.text("model_type") == "swin" else _vit
    return vision_model(config, name, "vit", add)


ARCHITECTURE = Architecture(("vit", "deit", "swin"), read)
