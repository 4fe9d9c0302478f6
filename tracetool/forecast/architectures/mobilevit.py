"""MobileViT: inverted bottlenecks, and transformers over their results (Mehta and Rastegari, 2022)."""

from __future__ import annotations

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.transformer_blocks import encoder_block
from tracetool.forecast.vision import Pictures, classes_of, normed_conv, vision_model

#: Residual blocks of the second part, and layers of the transformers of the three after it (the authors').
_BLOCKS = 3
_DEPTHS = (2, 4, 3)
#: Channels of MobileViT-S, where a configuration states none.
_USUAL = {"neck_hidden_sizes": (16, 32, 64, 96, 128, 160, 640), "hidden_sizes": (144, 192, 240)}


def _rounded(channels: float) -> int:
    """Return channels to the nearest 8 and no less than nine tenths (the authors' rule)."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def _sizes(config: Config, name: str) -> tuple[int, ...]:
    usual = _USUAL[name]
    values = config.sizes(name, least=1, most=20) if config.has(name) else usual
    if len(values) != len(usual):
        raise config.fault(name, f"states {len(values)} sizes, not {len(usual)}")
    return values


def _bottleneck(
    graph: Graph, of: Pictures, channels: int, filters: int, ratio: float, stride: int = 1
) -> Pictures:
    inner = _rounded(round(channels * ratio))
    normed_conv(graph, "block.expand", of, channels, inner)
    out = normed_conv(graph, "block.depth", of, inner, inner, 3, stride=stride, groups=inner)
    normed_conv(graph, "block.reduce", out, inner, filters, act=False)
    if stride == 1 and channels == filters:
        graph.elementwise("block.residual", out.batch * out.side * out.side * filters, reads=2)
    return out


def _mixed(graph: Graph, config: Config, of: Pictures, channels: int, place: int) -> Pictures:
    """Add a part that attends among places of one offset inside patches, between convolutions."""
    width = _sizes(config, "hidden_sizes")[place]
    kernel, patch = config.size("conv_kernel_size", default=3), config.size("patch_size", default=2)
    heads = config.size("num_attention_heads", default=4)
    inner = config.scaled(width, "mlp_ratio", default=2.0)
    normed_conv(graph, "local", of, channels, channels, kernel)
    graph.conv("widen", of.batch, channels, (of.side, of.side), width, 1, bias=False)
    pixels = patch * patch
    tokens = max(-(-of.side // patch), 1) ** 2
    graph.elementwise("unfold", of.batch * tokens * pixels * width)
    with graph.repeat(_DEPTHS[place]):
        encoder_block(graph, of.batch * pixels, tokens, width, inner, heads)
    graph.norm("layernorm", of.batch * tokens * pixels, width, weights=2 * width)
    graph.elementwise("fold", of.batch * tokens * pixels * width)
    normed_conv(graph, "narrow", of, width, channels)
    graph.elementwise("concatenate", of.batch * of.side * of.side * 2 * channels)
    return normed_conv(graph, "fuse", of, 2 * channels, channels, kernel)


def _add(graph: Graph, config: Config, of: Pictures) -> None:
    necks = _sizes(config, "neck_hidden_sizes")
    ratio = config.number("expand_ratio", default=4.0, least=0.1, most=100.0)
    of = normed_conv(graph, "stem", of, config.size("num_channels", default=3), necks[0], 3, stride=2)
    of = _bottleneck(graph, of, necks[0], necks[1], ratio)
    of = _bottleneck(graph, of, necks[1], necks[2], ratio, 2)
    for _ in range(_BLOCKS - 1):
        _bottleneck(graph, of, necks[2], necks[2], ratio)
    for place in range(len(_DEPTHS)):
        of = _bottleneck(graph, of, necks[2 + place], necks[3 + place], ratio, 2)
        of = _mixed(graph, config, of, necks[3 + place], place)
    of = normed_conv(graph, "top", of, necks[5], necks[6])
    graph.elementwise("pool", of.batch * of.side * of.side * necks[6], writes=0)
    graph.linear("classifier", of.batch, necks[6], classes_of(config))


def read(config: Config, name: str) -> Model:
    """Return the model; its pictures have 256 pixels a side where none are stated."""
    sides = (
        config if config.has("image_size") else Config({**config.values, "image_size": 256}, config.source)
    )
    return vision_model(sides, name, "mobilevit", _add)


ARCHITECTURE = Architecture(("mobilevit",), read)
