"""EfficientNet: inverted bottlenecks with squeezes, scaled in width and depth (Tan and Le, 2019)."""

from __future__ import annotations

import math

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.vision import Pictures, classes_of, normed_conv, vision_model


def _rounded(channels: int, factor: float) -> int:
    """Return channels scaled, to the nearest 8 and no less than nine tenths (the authors' rule)."""
    wide = channels * factor
    near = max(8, int(wide + 4) // 8 * 8)
    return near + 8 if near < 0.9 * wide else near


def _block(graph: Graph, of: Pictures, channels: int, filters: int, shape: tuple[int, int, int]) -> Pictures:
    """Add a block; ``shape``: kernel, stride, expansion."""
    kernel, stride, expansion = shape
    inner = channels * expansion
    if expansion > 1:
        normed_conv(graph, "block.expand", of, channels, inner)
    out = normed_conv(graph, "block.depth", of, inner, inner, kernel, stride=stride, groups=inner)
    numbers, squeezed = out.batch * out.side * out.side, max(channels // 4, 1)
    graph.elementwise("block.squeeze", numbers * inner, writes=0)
    graph.linear("block.squeeze.down", of.batch, inner, squeezed)
    graph.linear("block.squeeze.up", of.batch, squeezed, inner)
    graph.elementwise("block.squeeze.scale", numbers * inner)
    normed_conv(graph, "block.project", out, inner, filters, act=False)
    if stride == 1 and channels == filters:
        graph.elementwise("block.residual", numbers * filters, reads=2)
    return out


def _add(graph: Graph, config: Config, of: Pictures) -> None:
    wide = config.number("width_coefficient", default=1.0, least=0.1, most=20.0)
    deep = config.number("depth_coefficient", default=1.0, least=0.1, most=20.0)
    names = ("out_channels", "num_block_repeats", "kernel_sizes", "strides", "expand_ratios")
    usual = (
        (16, 24, 40, 80, 112, 192, 320), (1, 2, 2, 3, 3, 4, 1), (3, 3, 5, 3, 5, 5, 3), (1, 2, 2, 2, 1, 2, 1),
        (1, 6, 6, 6, 6, 6, 6),
    )  # fmt: skip
    stages = [config.sizes(n, least=1, most=50) or u for n, u in zip(names, usual, strict=True)]
    for name, values in zip(names, stages, strict=True):
        if len(values) != len(stages[0]) or (name == "num_block_repeats" and max(values) > 1_000):
            raise config.fault(name, f"states {len(values)} stages of {len(stages[0])}, or over 1000 blocks")
    channels = _rounded(32, wide)
    of = normed_conv(graph, "stem", of, config.size("num_channels", default=3), channels, 3, stride=2)
    for filters, repeats, kernel, stride, expansion in zip(*stages, strict=True):
        width = _rounded(filters, wide)
        of = _block(graph, of, channels, width, (kernel, stride, expansion))
        more = math.ceil(repeats * deep) - 1
        if more:
            with graph.repeat(more):
                _block(graph, of, width, width, (kernel, 1, expansion))
        channels = width
    hidden = _rounded(1280, wide)
    of = normed_conv(graph, "top", of, channels, hidden)
    graph.elementwise("pool", of.batch * of.side * of.side * hidden, writes=0)
    graph.linear("classifier", of.batch, hidden, classes_of(config))


def read(config: Config, name: str) -> Model:
    """Return the model."""
    return vision_model(config, name, "efficientnet", _add)


ARCHITECTURE = Architecture(("efficientnet",), read)
