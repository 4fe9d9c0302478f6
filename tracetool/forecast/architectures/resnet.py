"""ResNet: bottleneck or basic blocks in stages of halving pictures (He et al., 2016)."""

from __future__ import annotations

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.vision import Pictures, classes_of, normed_conv, stages_of, vision_model


def _block(graph: Graph, of: Pictures, channels: int, filters: int, stride: int, *, basic: bool) -> Pictures:
    """Add a block; the 3 by 3 convolution of a bottleneck halves the picture (version 1.5)."""
    if basic:
        out = normed_conv(graph, "block.conv_1", of, channels, filters, 3, stride=stride)
        normed_conv(graph, "block.conv_2", out, filters, filters, 3, act=False)
    else:
        inner = max(filters // 4, 1)
        same = normed_conv(graph, "block.conv_1", of, channels, inner)
        out = normed_conv(graph, "block.conv_2", same, inner, inner, 3, stride=stride)
        normed_conv(graph, "block.conv_3", out, inner, filters, act=False)
    if stride > 1 or channels != filters:
        normed_conv(graph, "block.shortcut", of, channels, filters, stride=stride, act=False)
    numbers = out.batch * out.side * out.side * filters
    graph.elementwise("block.residual", numbers, reads=2)
    graph.elementwise("block.act", numbers)
    return out


def _add(graph: Graph, config: Config, of: Pictures) -> None:
    widths, depths = stages_of(config, (256, 512, 1024, 2048), (3, 4, 6, 3))
    basic = config.text("layer_type", default="bottleneck") == "basic"
    channels = config.size("embedding_size", default=64)
    of = normed_conv(graph, "stem", of, config.size("num_channels", default=3), channels, 7, stride=2)
    of = Pictures(of.batch, max(-(-of.side // 2), 1))
    graph.elementwise("stem.pool", of.batch * of.side * of.side * channels, reads=4)
    first = 2 if config.flag("downsample_in_first_stage") else 1
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        of = _block(graph, of, channels, width, 2 if stage else first, basic=basic)
        with graph.repeat(depth - 1):
            if depth > 1:
                _block(graph, of, width, width, 1, basic=basic)
        channels = width
    graph.elementwise("pool", of.batch * of.side * of.side * channels, writes=0)
    graph.linear("classifier", of.batch, channels, classes_of(config))


def read(config: Config, name: str) -> Model:
    """Return the model."""
    return vision_model(config, name, "resnet", _add)


ARCHITECTURE = Architecture(("resnet",), read)
