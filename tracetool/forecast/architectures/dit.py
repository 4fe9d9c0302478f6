"""Transformers with separate attention to text: PixArt, SANA, HunyuanDiT, Wan."""

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


def _cross(
    graph: Graph, batch: float, tokens: int, text: int, width: int, heads: int,
    *, inputs: int = 0, normed: bool = False, across: bool = False,
) -> None:  # fmt: skip
    """Add attention of the latents to the text."""
    graph.linear("block.cross.q", batch * tokens, width, width)
    for part in "kv":
        graph.linear(f"block.cross.{part}", batch * text, inputs or width, width, whole=True)
    if normed:
        head_norms(graph, "block.cross", batch * tokens, heads, width // heads, across=across)
    graph.attention("block.cross.attention", batch, tokens, text, heads, width // heads, kv_whole=True)
    graph.linear("block.cross.out", batch * tokens, width, width)
    graph.elementwise("block.cross.residual", batch * tokens * width, reads=2)


def _conditions(graph: Graph, c: Config, of: Latents, width: int) -> None:
    """Add the embeddings of step and text, and the vectors all blocks take."""
    two_linear(graph, "embed.timestep", of.batch, 256, width, width)
    modulation(graph, "embed.modulation", of.batch, width, 6)
    two_linear(
        graph,
        "embed.text",
        of.batch * of.text,
        c.size("caption_channels", "text_dim"),
        width,
        width,
    )


def _out(graph: Graph, lines: float, width: int, numbers: int) -> None:
    graph.weights(2 * width)
    modulated_norm(graph, "norm_out", lines, width)
    graph.linear("proj_out", lines, width, numbers)


def _pixart(graph: Graph, c: Config, of: Latents) -> None:
    heads, head_dim, width = width_of(c)
    patch = c.size("patch_size", default=2, most=100)
    tokens = of.tokens(patch)
    lines = of.batch * tokens
    graph.linear("pos_embed", lines, c.size("in_channels") * patch * patch, width)
    _conditions(graph, c, of, width)
    with graph.repeat(c.size("num_layers", most=2_000)):
        graph.weights(6 * width)
        modulated_norm(graph, "block.norm_1", lines, width)
        projections(graph, "block", lines, width)
        graph.attention("block.attention", of.batch, tokens, tokens, heads, head_dim)
        graph.linear("block.out", lines, width, width)
        gated_residual(graph, "block", lines, width)
        _cross(graph, of.batch, tokens, of.text, width, heads)
        modulated_norm(graph, "block.norm_2", lines, width)
        feed_forward(graph, "block.ff", lines, width, 4 * width)
        gated_residual(graph, "block.ff", lines, width)
    _out(graph, lines, width, patch * patch * c.size("out_channels", default=8))


def _sana(graph: Graph, c: Config, of: Latents) -> None:
    heads, head_dim, width = width_of(c)
    patch = c.size("patch_size", default=1, most=100)
    tokens, normed = of.tokens(patch), c.has("qk_norm")
    lines, inner = of.batch * tokens, c.scaled(width, "mlp_ratio", default=2.5)
    side = (of.height // patch, of.width // patch)
    graph.linear("patch_embed", lines, c.size("in_channels") * patch * patch, width)
    _conditions(graph, c, of, width)
    graph.norm("caption_norm", of.batch * of.text, width, weights=width, passes=5)
    with graph.repeat(c.size("num_layers", most=2_000)):
        graph.weights(6 * width)
        modulated_norm(graph, "block.norm_1", lines, width)
        projections(graph, "block", lines, width, bias=c.flag("attention_bias"))
        if normed:
            head_norms(graph, "block", lines, heads, head_dim, across=True)
        graph.elementwise("block.relu", 2 * lines * width)
        # keys meet values, then queries the sum: products of head size instead of a softmax over tokens
        graph.product("block.states", of.batch * heads, head_dim + 1, head_dim, tokens / graph.ranks.gpus)
        graph.product("block.read", of.batch * heads, tokens / graph.ranks.gpus, head_dim + 1, head_dim)
        graph.elementwise("block.divide", lines * width, reads=2, dtype="fp32")
        graph.linear("block.out", lines, width, width)
        gated_residual(graph, "block", lines, width)
        cross = c.size("num_cross_attention_heads", default=heads)
        _cross(graph, of.batch, tokens, of.text, width, cross, normed=normed, across=True)
        modulated_norm(graph, "block.norm_2", lines, width)
        share = of.batch / graph.ranks.gpus
        graph.conv("block.ff.inverted", share, width, side, 2 * inner, 1)
        graph.elementwise("block.ff.silu", lines * 2 * inner)
        graph.conv("block.ff.depth", share, 2 * inner, side, 2 * inner, groups=2 * inner)
        graph.elementwise("block.ff.gate", lines * inner, reads=2, count=2)
        graph.conv("block.ff.point", share, inner, side, width, 1, bias=False)
        gated_residual(graph, "block.ff", lines, width)
    _out(graph, lines, width, patch * patch * c.size("out_channels", default=32))


def _hunyuan_dit(graph: Graph, c: Config, of: Latents) -> None:
    heads, head_dim, width = width_of(c)
    patch, layers = c.size("patch_size", default=2, most=100), c.size("num_layers", most=2_000)
    tokens, text = of.tokens(patch), c.size("cross_attention_dim")
    lines, wide = of.batch * tokens, c.size("cross_attention_dim_t5")
    inner = c.scaled(width, "mlp_ratio", default=4.0)
    graph.linear("pos_embed", lines, c.size("in_channels") * patch * patch, width)
    t5 = of.batch * c.size("text_len_t5", default=256)
    two_linear(graph, "embed.text", t5, wide, 4 * wide, text)
    two_linear(graph, "embed.timestep", of.batch, 256, width, width)
    pooled = c.size("pooled_projection_dim", default=1024)
    graph.weights(float(c.size("text_len_t5", default=256) + 1) * wide)
    for part in "qkv":
        graph.linear(f"embed.pool.{part}", t5 if part != "q" else of.batch, wide, wide, whole=True)
    graph.linear("embed.pool.out", of.batch, wide, pooled, whole=True)
    two_linear(graph, "embed.extra", of.batch, pooled, 4 * width, width)
    graph.weights(float(c.size("text_len", default=77) + c.size("text_len_t5", default=256)) * text)
    with graph.repeat(layers):
        modulation(graph, "block.modulation", of.batch, width, 1)
        graph.norm("block.norm_1", lines, width, weights=2 * width)
        graph.elementwise("block.shift", lines * width)
        projections(graph, "block", lines, width)
        for part in ("q", "k"):
            graph.norm(f"block.norm_{part}", lines * heads, head_dim, weights=2 * head_dim)
        rotary(graph, "block", lines * width)
        graph.attention("block.attention", of.batch, tokens, tokens, heads, head_dim)
        graph.linear("block.out", lines, width, width)
        graph.elementwise("block.residual", lines * width, reads=2)
        graph.norm("block.norm_2", lines, width, weights=2 * width)
        graph.weights(4 * head_dim)
        _cross(graph, of.batch, tokens, of.text, width, heads, inputs=text)
        graph.norm("block.norm_3", lines, width, weights=2 * width)
        feed_forward(graph, "block.ff", lines, width, inner)
        graph.elementwise("block.ff.residual", lines * width, reads=2)
    with graph.repeat(max(layers // 2 - 1, 0)):  # blocks of the second half join those of the first
        graph.elementwise("block.join", lines * 2 * width)
        graph.norm("block.skip_norm", lines, 2 * width, weights=4 * width)
        graph.linear("block.skip", lines, 2 * width, width)
    modulation(graph, "norm_out.modulation", of.batch, width, 2)
    modulated_norm(graph, "norm_out", lines, width)
    channels = c.size("in_channels") * (2 if c.flag("learn_sigma", default=True) else 1)
    graph.linear("proj_out", lines, width, patch * patch * channels)


def _wan(graph: Graph, c: Config, of: Latents) -> None:
    heads, head_dim, width = width_of(c)
    patches = c.sizes("patch_size", least=1, most=3) or (1, 2, 2)
    if len(patches) != 3:
        raise c.fault("patch_size", f"states {len(patches)} sizes of frames, rows and columns")
    tokens = of.tokens(patches[1], patches[0])
    lines = of.batch * tokens
    numbers = patches[0] * patches[1] * patches[2]
    graph.linear("patch_embedding", lines, c.size("in_channels") * numbers, width)
    _conditions(graph, c, of, width)
    with graph.repeat(c.size("num_layers", most=2_000)):
        graph.weights(6 * width)
        modulated_norm(graph, "block.norm_1", lines, width)
        projections(graph, "block", lines, width)
        head_norms(graph, "block", lines, heads, head_dim, across=True)
        rotary(graph, "block", lines * width)
        graph.attention("block.attention", of.batch, tokens, tokens, heads, head_dim)
        graph.linear("block.out", lines, width, width)
        gated_residual(graph, "block", lines, width)
        graph.norm("block.norm_2", lines, width, weights=2 * width)
        _cross(graph, of.batch, tokens, of.text, width, heads, normed=True, across=True)
        modulated_norm(graph, "block.norm_3", lines, width)
        feed_forward(graph, "block.ff", lines, width, c.size("ffn_dim"))
        gated_residual(graph, "block.ff", lines, width)
    _out(graph, lines, width, numbers * c.size("out_channels", default=16))


#: Transformer and how its pipeline calls it (diffusers' pipelines: guidance by a second prompt in one call,
#: or by a second call).
_KINDS = {
    "PixArtTransformer2DModel": (_pixart, Guidance(2, 1, 300, (300,))),
    "SanaTransformer2DModel": (_sana, Guidance(2, 1, 300, (300,))),
    "HunyuanDiT2DModel": (_hunyuan_dit, Guidance(2, 1, 333, (77, 256))),
    "WanTransformer3DModel": (_wan, Guidance(1, 2, 512, (512,))),
}


def read(config: Config, name: str) -> Model:
    """Return the pipeline."""
    inner = config.part("transformer")
    transformer, guidance = _KINDS[inner.text("_class_name")]
    return diffusion_model(config, name, "dit", guidance, transformer, inner.size("num_layers", most=2_000))


ARCHITECTURE = Architecture(tuple(_KINDS), read)
