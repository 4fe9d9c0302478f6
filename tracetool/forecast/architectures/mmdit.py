"""Transformers that attend over text and pictures together: FLUX, Stable Diffusion 3, HunyuanVideo."""

from __future__ import annotations

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.diffusion import Guidance, Latents, diffusion_model
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.transformer_blocks import (
    feed_forward,
    gated_residual,
    head_norms,
    modulated_norm,
    modulation,
    projections,
    rotary,
    two_linear,
    width_of,
)


def _conditions(graph: Graph, batch: float, width: int, pooled: int, guided: int) -> None:
    """Add the embeddings of step, pooled text and guidance."""
    for name in ("timestep", "guidance")[: 1 + guided]:
        two_linear(graph, f"embed.{name}", batch, 256, width, width)
    two_linear(graph, "embed.pooled", batch, pooled, width, width)


def _double(
    graph: Graph,
    c: Config,
    batch: float,
    image: int,
    text: int,
    *,
    rotated: bool,
    normed: bool,
    last: bool = False,
    dual: bool = False,
) -> None:
    """Add a block of two streams: each its own weights, one attention over both."""
    heads, head_dim, width = width_of(c)
    streams = (("image", image), ("text", text))
    for name, tokens in streams:
        vectors = 9 if dual and name == "image" else (2 if last and name == "text" else 6)
        modulation(graph, f"block.{name}.modulation", batch, width, vectors)
        modulated_norm(graph, f"block.{name}.norm", batch * tokens, width)
        projections(graph, f"block.{name}", batch * tokens, width)
        if normed:
            head_norms(graph, f"block.{name}", batch * tokens, heads, head_dim)
    all_tokens = image + text
    graph.elementwise("block.join", 3 * batch * all_tokens * width)
    if rotated:
        rotary(graph, "block", batch * all_tokens * width)
    graph.attention("block.attention", batch, all_tokens, all_tokens, heads, head_dim)
    if dual:
        projections(graph, "block.second", batch * image, width)
        if normed:
            head_norms(graph, "block.second", batch * image, heads, head_dim)
        graph.attention("block.second.attention", batch, image, image, heads, head_dim)
        graph.linear("block.second.out", batch * image, width, width)
        gated_residual(graph, "block.second", batch * image, width)
    for name, tokens in streams[: 1 if last else 2]:
        lines = batch * tokens
        graph.linear(f"block.{name}.out", lines, width, width)
        gated_residual(graph, f"block.{name}", lines, width)
        modulated_norm(graph, f"block.{name}.norm_2", lines, width)
        feed_forward(graph, f"block.{name}.ff", lines, width, 4 * width)
        gated_residual(graph, f"block.{name}.ff", lines, width)


def _single(graph: Graph, c: Config, batch: float, tokens: int) -> None:
    """Add a block of one stream: attention and feed-forward part side by side."""
    heads, head_dim, width = width_of(c)
    lines = batch * tokens
    modulation(graph, "single.modulation", batch, width, 3)
    modulated_norm(graph, "single.norm", lines, width)
    graph.linear("single.mlp", lines, width, 4 * width)
    graph.elementwise("single.act", lines * 4 * width)
    projections(graph, "single", lines, width)
    head_norms(graph, "single", lines, heads, head_dim)
    rotary(graph, "single", lines * width)
    graph.attention("single.attention", batch, tokens, tokens, heads, head_dim)
    graph.elementwise("single.join", lines * 5 * width)
    graph.linear("single.out", lines, 5 * width, width)
    gated_residual(graph, "single", lines, width)


def _out(graph: Graph, batch: float, tokens: int, width: int, numbers: int) -> None:
    modulation(graph, "norm_out.modulation", batch, width, 2)
    modulated_norm(graph, "norm_out", batch * tokens, width)
    graph.linear("proj_out", batch * tokens, width, numbers)


def _flux(graph: Graph, c: Config, of: Latents) -> None:
    _, _, width = width_of(c)
    patch = 2  # the pipeline packs patches of 2 by 2 before the transformer
    image, batch = of.tokens(patch), of.batch
    graph.linear("x_embedder", batch * image, c.size("in_channels"), width)
    graph.linear("context_embedder", batch * of.text, c.size("joint_attention_dim"), width)
    _conditions(graph, batch, width, c.size("pooled_projection_dim"), int(c.flag("guidance_embeds")))
    with graph.repeat(c.size("num_layers", most=2_000)):
        _double(graph, c, batch, image, of.text, rotated=True, normed=True)
    with graph.repeat(c.size("num_single_layers", default=0, least=0, most=2_000)):
        _single(graph, c, batch, image + of.text)
    _out(graph, batch, image, width, c.size("out_channels", "in_channels"))


def _sd3(graph: Graph, c: Config, of: Latents) -> None:
    _, _, width = width_of(c)
    patch = c.size("patch_size", default=2, most=100)
    image, batch, layers = of.tokens(patch), of.batch, c.size("num_layers", most=2_000)
    numbers = c.size("in_channels") * patch * patch
    graph.linear("pos_embed", batch * image, numbers, width)
    graph.linear(
        "context_embedder", batch * of.text, c.size("joint_attention_dim"), c.size("caption_projection_dim")
    )
    _conditions(graph, batch, width, c.size("pooled_projection_dim"), 0)
    dual = len({n for n in c.sizes("dual_attention_layers") if n < layers - 1})
    normed = c.has("qk_norm")
    for count, second in ((dual, True), (layers - 1 - dual, False)):
        with graph.repeat(count):
            if count > 0:
                _double(graph, c, batch, image, of.text, rotated=False, normed=normed, dual=second)
    _double(graph, c, batch, image, of.text, rotated=False, normed=normed, last=True)
    _out(graph, batch, image, width, patch * patch * c.size("out_channels", default=16))


def _hunyuan_video(graph: Graph, c: Config, of: Latents) -> None:
    _, _, width = width_of(c)
    patch, deep = c.size("patch_size", default=2, most=100), c.size("patch_size_t", default=1, most=100)
    image, batch = of.tokens(patch, deep), of.batch
    graph.linear("x_embedder", batch * image, c.size("in_channels") * patch * patch * deep, width)
    text = batch * of.text
    graph.linear("refiner.proj_in", text, c.size("text_embed_dim"), width)
    two_linear(graph, "refiner.text", batch, c.size("text_embed_dim"), width, width)
    two_linear(graph, "refiner.timestep", batch, 256, width, width)
    heads, head_dim, _ = width_of(c)
    with graph.repeat(c.size("num_refiner_layers", default=2, most=100)):
        graph.norm("refiner.norm", text, width, weights=2 * width)
        projections(graph, "refiner", text, width)
        graph.attention("refiner.attention", batch, of.text, of.text, heads, head_dim, kv_whole=True)
        graph.linear("refiner.out", text, width, width)
        modulation(graph, "refiner.modulation", batch, width, 2)
        graph.norm("refiner.norm_2", text, width, weights=2 * width)
        feed_forward(graph, "refiner.ff", text, width, 4 * width)
        gated_residual(graph, "refiner", text, width)
    _conditions(graph, batch, width, c.size("pooled_projection_dim"), int(c.flag("guidance_embeds")))
    with graph.repeat(c.size("num_layers", most=2_000)):
        _double(graph, c, batch, image, of.text, rotated=True, normed=True)
    with graph.repeat(c.size("num_single_layers", most=2_000)):
        _single(graph, c, batch, image + of.text)
    _out(graph, batch, image, width, patch * patch * deep * c.size("out_channels", default=16))


#: Transformer, how the pipeline calls it (mlenergy benchmark, diffusers pipelines), and its name.
_KINDS = {
    "FluxTransformer2DModel": (_flux, Guidance(1, 1, 512, (77, 512))),
    "SD3Transformer2DModel": (_sd3, Guidance(2, 1, 333, (77, 77, 256))),
    "HunyuanVideoTransformer3DModel": (_hunyuan_video, Guidance(1, 1, 256, (351, 77))),
}


def read(config: Config, name: str) -> Model:
    """Return the pipeline."""
    inner = config.part("transformer")
    transformer, guidance = _KINDS[inner.text("_class_name")]
    layers = inner.size("num_layers", most=2_000) + inner.size("num_single_layers", default=0, least=0)
    return diffusion_model(config, name, "mmdit", guidance, transformer, layers)


ARCHITECTURE = Architecture(tuple(_KINDS), read)
