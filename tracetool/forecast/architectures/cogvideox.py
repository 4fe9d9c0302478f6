"""CogVideoX: text and film in one stream, each normalized by vectors of its own."""

from __future__ import annotations

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.diffusion import Guidance, Latents, diffusion_model
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.transformer_blocks import (
    feed_forward,
    gated_residual,
    modulated_norm,
    modulation,
    projections,
    rotary,
    two_linear,
    width_of,
)


def _transformer(graph: Graph, c: Config, of: Latents) -> None:
    heads, head_dim, width = width_of(c)
    patch, deep = c.size("patch_size", default=2, most=100), c.size("patch_size_t", default=1, most=100)
    film, step = of.tokens(patch, deep), c.size("time_embed_dim", default=512)
    tokens, bias = film + of.text, c.flag("attention_bias", default=True)
    lines, numbers = of.batch * tokens, patch * patch * deep
    graph.linear("patch_embed", of.batch * film, c.size("in_channels") * numbers, width)
    graph.linear("text_proj", of.batch * of.text, c.size("text_embed_dim"), width)
    two_linear(graph, "time_embedding", of.batch, width, step, step)
    with graph.repeat(c.size("num_layers", most=2_000)):
        for place in (1, 2):
            modulation(graph, f"block.modulation_{place}", of.batch, width, 6, step)
            modulated_norm(graph, f"block.norm_{place}", lines, width, weights=2 * width)
            graph.elementwise("block.join", lines * width)
            if place == 1:
                projections(graph, "block", lines, width, bias=bias)
                for part in ("q", "k"):
                    graph.norm(f"block.norm_{part}", lines * heads, head_dim, weights=2 * head_dim)
                if c.flag("use_rotary_positional_embeddings"):
                    rotary(graph, "block", of.batch * film * width)
                graph.attention("block.attention", of.batch, tokens, tokens, heads, head_dim)
                graph.linear("block.out", lines, width, width)
            else:
                feed_forward(graph, "block.ff", lines, width, 4 * width)
            gated_residual(graph, f"block.{place}", lines, width)
    graph.norm("norm_final", lines, width, weights=2 * width)
    modulation(graph, "norm_out.modulation", of.batch, width, 2, step)
    modulated_norm(graph, "norm_out", of.batch * film, width, weights=2 * width)
    outputs = c.size("out_channels", default=16) * numbers
    graph.linear("proj_out", of.batch * film, width, outputs)


def read(config: Config, name: str) -> Model:
    """Return the pipeline."""
    inner = config.part("transformer")
    text = inner.size("max_text_seq_length", default=226)
    layers = inner.size("num_layers", most=2_000)
    return diffusion_model(config, name, "cogvideox", Guidance(2, 1, text, (text,)), _transformer, layers)


ARCHITECTURE = Architecture(("CogVideoXTransformer3DModel",), read)
