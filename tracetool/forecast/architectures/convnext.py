"""ConvNeXt: depthwise convolutions and products over channels (Liu et al., 2022)."""

from __future__ import annotations

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.vision import Pictures, classes_of, stages_of, vision_model


def _block(graph: Graph, batch: float, side: int, width: int) -> None:
    lines = batch * side * side
    graph.conv("block.depth", batch, width, (side, side), width, 7, groups=width)
    graph.norm("block.norm", lines, width, weights=2 * width)
    graph.linear("block.up", lines, width, 4 * width)
    graph.elementwise("block.act", lines * 4 * width)
    graph.linear("block.down", lines, 4 * width, width)
    graph.weights(width)
    graph.elementwise("block.scale", lines * width)
    graph.elementwise("block.residual", lines * width, reads=2)


def _add(graph: Graph, config: Config, of: Pictures) -> None:
    widths, depths = stages_of(config, (96, 192, 384, 768), (3, 3, 9, 3))
    patch, side = config.size("patch_size", default=4, most=10_000), of.side
    channels = config.size("num_channels", default=3)
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        kernel = 2 if stage else patch
        if stage:
            graph.norm("downsample.norm", of.batch * side * side, channels, weights=2 * channels)
        size = (float(side), float(side))
        graph.conv("downsample", of.batch, channels, size, width, kernel, stride=kernel, padding=0)
        side, channels = max(side // kernel, 1), width
        if not stage:
            graph.norm("embeddings.norm", of.batch * side * side, width, weights=2 * width)
        with graph.repeat(depth):
            _block(graph, of.batch, side, width)
    graph.norm("layernorm", of.batch, channels, weights=2 * channels)
    graph.linear("classifier", of.batch, channels, classes_of(config))


def read(config: Config, name: str) -> Model:
    """Return the model."""
    return vision_model(config, name, "convnext", _add)


ARCHITECTURE = Architecture(("convnext",), read)
