"""Image models, written as a graph over a batch of images of one size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tracetool.core.errors import BadInput
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.operator_rows import Row
from tracetool.forecast.passes import Forward, Parallel
from tracetool.forecast.quantization import formats_of
from tracetool.forecast.stage_sends import Sends, served_sends

#: Blocks of a stage at most: more are a fault of the configuration. [blocks] By definition.
_MOST_BLOCKS: Final = 1_000


@dataclass(frozen=True)
class Pictures:
    """A batch of pictures: how many, and rows and columns of each. [pixels]"""

    batch: float
    side: int


@dataclass(frozen=True)
class VisionModel(Model):
    """An image model: a pass takes ``prefill_requests`` images of its size."""

    config: Config | None = field(default=None, repr=False)
    add: Callable[[Graph, Config, Pictures], None] | None = field(default=None, repr=False)
    side: int = 224

    def operators(self, forward: Forward, parallel: Parallel, sends: Sends = served_sends) -> list[Row]:  # noqa: ARG002
        """Return the rows of a batch of ``forward.prefill_requests`` pictures on one GPU.

        Raises
        ------
        BadInput
            If the model is to be divided over GPUs.
        """
        if parallel.gpus > 1:
            raise BadInput(f"{self.name}: image models are not divided over GPUs", "give tp, pp, dp, cp of 1")
        if not forward.prefill_requests:
            return []
        return self._graph(forward.prefill_requests).rows

    def _graph(self, batch: float) -> Graph:
        assert self.add is not None
        assert self.config is not None
        graph = Graph(self.dtype)
        self.add(graph, self.config, Pictures(batch, self.side))
        return graph

    def weight_bytes(self, parallel: Parallel) -> float:  # noqa: ARG002
        """Return bytes of weights. [B]"""
        return self.parameters * (4.0 if self.dtype == "fp32" else 2.0)


def vision_model(
    config: Config, name: str, architecture: str, add: Callable[[Graph, Config, Pictures], None]
) -> VisionModel:
    """Return the model of a configuration; it is run once, so that a fault is named now."""
    dtype = formats_of(config).base
    graph, side = Graph(dtype), config.size("image_size", default=224, most=100_000)
    add(graph, config, Pictures(1, side))
    layers = sum(1 for row in graph.rows if row["op"] in {"conv2d", "attention"})
    return VisionModel(
        name, architecture, "vision", graph.parameters, graph.parameters, layers, (), (), (), 0, dtype,
        config=config, add=add, side=side,
    )  # fmt: skip


def classes_of(config: Config) -> int:
    """Return how many classes a configuration states: a number, a list of labels, or ImageNet's thousand."""
    if config.has("num_labels"):
        return config.size("num_labels")
    return max(len(config.part("id2label").values), 1) if config.has("id2label") else 1000


def stages_of(
    config: Config, widths: tuple[int, ...], depths: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the channels and the number of blocks of each stage; ``widths`` and ``depths`` by default.

    Raises
    ------
    BadInput
        If the numbers of widths and depths differ, or a stage has more than 1000 blocks.
    """
    widths = config.sizes("hidden_sizes", least=1, most=20) or widths
    depths = config.sizes("depths", least=1, most=20) or depths
    if len(widths) != len(depths):
        raise config.fault("depths", f"states {len(depths)} stages of {len(widths)}")
    if max(depths) > _MOST_BLOCKS:
        raise config.fault("depths", f"{max(depths)} blocks are more than {_MOST_BLOCKS}")
    return widths, depths


def normed_conv(
    graph: Graph, name: str, of: Pictures, channels: int, filters: int, kernel: int = 1,
    *, stride: int = 1, groups: int = 1, act: bool = True,
) -> Pictures:  # fmt: skip
    """Add a convolution with its batch norm and activation; return the pictures it makes."""
    graph.conv(
        name,
        of.batch,
        channels,
        (of.side, of.side),
        filters,
        kernel,
        stride=stride,
        groups=groups,
        bias=False,
    )
    out = Pictures(of.batch, max(-(-of.side // stride), 1))
    numbers = out.batch * out.side * out.side * filters
    graph.weights(2 * filters)
    graph.elementwise(f"{name}.norm", numbers)
    if act:
        graph.elementwise(f"{name}.act", numbers, kind="gelu")
    return out
