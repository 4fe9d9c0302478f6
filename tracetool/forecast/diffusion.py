"""Diffusion pipelines: text encoders once, the transformer every step, the decoder of latents once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tracetool.core.errors import BadInput
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.latent_decoders import add_decoder, latent_size
from tracetool.forecast.model import Model
from tracetool.forecast.operator_rows import Row
from tracetool.forecast.passes import Forward, Parallel
from tracetool.forecast.pipeline_output import Canvas, SequenceRanks, Stage
from tracetool.forecast.stage_sends import Sends, served_sends
from tracetool.forecast.text_encoders import add_text_encoder

#: Fields of a pipeline's text encoders, in the order they run.
_ENCODERS: Final = ("text_encoder", "text_encoder_2", "text_encoder_3")


@dataclass(frozen=True)
class Latents:
    """Input of the transformer: prompts of one call, text tokens, and latents by frame, row, column."""

    batch: float
    text: int
    frames: int
    height: int
    width: int

    def tokens(self, patch: int, patch_frames: int = 1) -> int:
        """Return tokens of one prompt's latents; frames are filled up to whole patches."""
        frames = -(-self.frames // patch_frames)
        return frames * (self.height // patch) * (self.width // patch)


@dataclass(frozen=True)
class Guidance:
    """Calls of the transformer by a pipeline.

    Parameters
    ----------
    prompts : int
        Prompts of one call for each of the batch: 2 where the unguided prompt stands beside the guided one.
    calls : int
        Calls of a step, one after the other.
    text : int
        Text tokens of a prompt.
    encoder_tokens : tuple of int
        Tokens each text encoder takes in.
    """

    prompts: int
    calls: int
    text: int
    encoder_tokens: tuple[int, ...]


@dataclass(frozen=True)
class DiffusionModel(Model):
    """A pipeline read from its configuration: ``parameters`` are the transformer's."""

    config: Config | None = field(default=None, repr=False)
    guidance: Guidance = field(default=Guidance(1, 1, 512, (512,)))
    transformer: Callable[[Graph, Config, Latents], None] | None = field(default=None, repr=False)

    def operators(self, forward: Forward, parallel: Parallel, sends: Sends = served_sends) -> list[Row]:  # noqa: ARG002
        """Raise BadInput: a pipeline makes pictures, not tokens."""
        raise BadInput(f"{self.name} is a diffusion pipeline", "forecast it with --mode generate")

    def pipeline(self, canvas: Canvas, ranks: SequenceRanks | None = None) -> tuple[Stage, ...]:
        """Return the stages of a batch as one GPU runs them.

        Parameters
        ----------
        canvas : Canvas
            What the batch makes.
        ranks : SequenceRanks, optional
            GPUs that share the batch's tokens; weights are repeated on each. One of them decodes.

        Raises
        ------
        BadInput
            If the canvas or the division does not fit.
        """
        config, guidance = self._parts()
        size = latent_size(config.part("vae"), canvas.frames, canvas.height, canvas.width)
        prompts = guidance.prompts * guidance.calls
        stages = []
        for field_name, tokens in zip(_ENCODERS, guidance.encoder_tokens, strict=False):
            if config.has(field_name):
                graph = Graph(self.dtype)
                add_text_encoder(graph, config.part(field_name), canvas.batch * prompts, tokens)
                stages.append(Stage(field_name, 1.0, graph.rows))
        graph = Graph(self.dtype, ranks or SequenceRanks())
        latents = Latents(canvas.batch * guidance.prompts, guidance.text, *size)
        self._run(graph, latents)
        stages.append(Stage("transformer", float(canvas.steps * guidance.calls), graph.rows))
        graph = Graph(self.dtype)
        add_decoder(graph, config.part("vae"), canvas.batch, *size)
        stages.append(Stage("vae", 1.0, graph.rows))
        return tuple(stages)

    def _parts(self) -> tuple[Config, Guidance]:
        assert self.config is not None
        return self.config, self.guidance

    def _run(self, graph: Graph, latents: Latents) -> None:
        assert self.transformer is not None
        assert self.config is not None
        self.transformer(graph, self.config.part("transformer"), latents)

    def weight_bytes(self, parallel: Parallel) -> float:  # noqa: ARG002
        """Return bytes of all parts of the pipeline: each GPU holds them whole. [B]"""
        config, _ = self._parts()
        graph = Graph(self.dtype)
        for field_name in (f for f in _ENCODERS if config.has(f)):
            add_text_encoder(graph, config.part(field_name), 1, 1)
        add_decoder(graph, config.part("vae"), 1, 1, 8, 8)
        return 2.0 * (self.parameters + graph.parameters)


def diffusion_model(
    config: Config,
    name: str,
    architecture: str,
    guidance: Guidance,
    transformer: Callable[[Graph, Config, Latents], None],
    layers: int,
) -> DiffusionModel:
    """Return the pipeline of a configuration; its parts are read once, so that a fault is named now.

    Raises
    ------
    BadInput
        If a field of a part is missing or out of range.
    """
    graph = Graph()
    transformer(graph, config.part("transformer"), Latents(1, 8, 1, 8, 8))
    model = DiffusionModel(
        name, architecture, "diffusion", graph.parameters, graph.parameters, layers, (), (), (), 0, "bf16",
        config=config, guidance=guidance, transformer=transformer,
    )  # fmt: skip
    model.weight_bytes(Parallel())
    return model
