"""Decoders of latents: AutoencoderKL, those of videos, and the deep-compression autoencoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph

#: Class of a decoder over films to how pictures and frames shrink, and whether it decodes tiles that overlap:
#: tiles of 256 at every 192 pixels are decoded 1.78 times (diffusers, ``enable_tiling``).
_FILMS: Final = {"AutoencoderKLHunyuanVideo", "AutoencoderKLCogVideoX", "AutoencoderKLWan"}
_OVERLAP: Final = (256 / 192) ** 2


@dataclass(frozen=True)
class _Levels:
    """Channels of each level from the latents up, blocks of a level, and where frames double."""

    channels: tuple[int, ...]
    blocks: int
    latent: int
    frames: bool
    doubling: int  # levels whose frames double
    overlap: float


def _levels(vae: Config) -> _Levels:
    kind = vae.text("_class_name")
    if kind == "AutoencoderKLWan":
        base = vae.size("base_dim")
        channels = tuple(base * m for m in vae.sizes("dim_mult", least=1, most=10))
        blocks, doubling = vae.size("num_res_blocks", default=2, most=100) + 1, 2
    else:
        channels = vae.sizes("block_out_channels", "decoder_block_out_channels", least=1, most=10)
        blocks = vae.size("layers_per_block", default=2, most=100) + 1
        doubling = 2 if kind in _FILMS else 0
    if not channels:
        raise vae.fault("block_out_channels", "is missing")
    films = kind in _FILMS
    latent = vae.size("latent_channels", "z_dim")
    return _Levels(channels[::-1], blocks, latent, films, doubling, _OVERLAP if films else 1.0)


def latent_size(vae: Config, frames: int, height: int, width: int) -> tuple[int, int, int]:
    """Return frames, rows and columns of the latents of pictures.

    Raises
    ------
    BadInput
        If the decoder is not known.
    """
    levels = _levels(vae)
    shrink = 2 ** (len(levels.channels) - 1)
    deep = (frames - 1) // 2**levels.doubling + 1 if levels.frames else 1
    return deep, max(height // shrink, 1), max(width // shrink, 1)


def add_decoder(graph: Graph, vae: Config, batch: float, frames: int, height: int, width: int) -> None:
    """Add the decoder of ``batch`` latents of ``frames``, ``height`` and ``width``.

    Raises
    ------
    BadInput
        If a field is missing or out of range.
    """
    levels = _levels(vae)
    if vae.text("_class_name") == "AutoencoderDC":
        _deep(graph, vae, levels, batch, height, width)
        return
    taps = 3 if levels.frames else 1
    pictures, size = batch * frames * levels.overlap, (float(height), float(width))
    channels = levels.channels[0]
    graph.conv("decoder.conv_in", pictures, levels.latent, size, channels, taps=taps)
    for _ in range(2):
        _residual(graph, pictures, channels, channels, size, taps)
    if vae.flag("mid_block_add_attention", default=not levels.frames):
        tokens = int(size[0] * size[1])
        graph.norm("decoder.mid.norm", pictures * tokens, channels, weights=2 * channels)
        for name in "qkv":
            graph.linear(f"decoder.mid.{name}", pictures * tokens, channels, channels)
        graph.attention("decoder.mid.attention", pictures, tokens, tokens, 1, channels)
        graph.linear("decoder.mid.out", pictures * tokens, channels, channels)
    for place, wider in enumerate(levels.channels):
        for block in range(levels.blocks):
            _residual(graph, pictures, channels if block == 0 else wider, wider, size, taps)
        channels = wider
        if place < len(levels.channels) - 1:
            size = (size[0] * 2, size[1] * 2)
            if place < levels.doubling:
                pictures = batch * levels.overlap * (frames * 2 ** (place + 1))
            graph.elementwise("decoder.upsample", pictures * channels * size[0] * size[1], reads=0.25)
            graph.conv("decoder.upsample.conv", pictures, channels, size, channels, taps=1)
    pixels = pictures * size[0] * size[1]
    graph.norm("decoder.norm_out", pixels, channels, weights=2 * channels)
    graph.elementwise("decoder.act", pixels * channels, kind="silu")
    graph.conv("decoder.conv_out", pictures, channels, size, vae.size("out_channels", default=3), taps=taps)


def _residual(
    graph: Graph, pictures: float, inputs: int, outputs: int, size: tuple[float, float], taps: int
) -> None:
    """Add a residual block: norm, activation and convolution twice, and a shortcut where channels change."""
    pixels = pictures * size[0] * size[1]
    for first, name in ((inputs, "1"), (outputs, "2")):
        graph.norm(f"decoder.norm_{name}", pixels, first, weights=2 * first)
        graph.elementwise("decoder.act", pixels * first, kind="silu")
        graph.conv(f"decoder.conv_{name}", pictures, first, size, outputs, taps=taps)
    if inputs != outputs:
        graph.conv("decoder.shortcut", pictures, inputs, size, outputs, 1)
    graph.elementwise("decoder.residual", pixels * outputs, reads=2)


def _deep(graph: Graph, vae: Config, levels: _Levels, batch: float, height: int, width: int) -> None:
    """Add the deep-compression decoder: linear attention at the lower levels, convolutions at the upper."""
    layers = vae.sizes("decoder_layers_per_block", least=1, most=10) or (levels.blocks,) * len(
        levels.channels
    )
    kinds = vae.texts("decoder_block_types", most=10)
    if len(layers) != len(levels.channels):
        raise vae.fault("decoder_layers_per_block", f"states {len(layers)} of {len(levels.channels)} levels")
    size, channels = (float(height), float(width)), levels.channels[0]
    graph.conv("decoder.conv_in", batch, levels.latent, size, channels)
    for place, wider in enumerate(levels.channels):
        level = len(levels.channels) - 1 - place
        if place:
            size = (size[0] * 2, size[1] * 2)
            graph.elementwise("decoder.upsample", batch * channels * size[0] * size[1], reads=0.25)
            graph.conv("decoder.upsample.conv", batch, channels, size, wider)
        channels, pixels = wider, batch * size[0] * size[1]
        with graph.repeat(layers[level]):
            if level < len(kinds) and kinds[level] == "EfficientViTBlock":
                graph.linear("decoder.qkv", pixels, wider, 3 * wider, bias=False)
                graph.conv(
                    "decoder.multiscale", batch, 3 * wider, size, 3 * wider, 5, groups=3 * wider, bias=False
                )
                graph.elementwise("decoder.linear_attention", pixels * 6 * wider, count=2)
                graph.linear("decoder.out", pixels, 2 * wider, wider, bias=False)
                graph.conv("decoder.inverted", batch, wider, size, 8 * wider, 1)
                graph.conv("decoder.depth", batch, 8 * wider, size, 8 * wider, groups=8 * wider)
                graph.elementwise("decoder.glu", pixels * 4 * wider, reads=2)
                graph.conv("decoder.point", batch, 4 * wider, size, wider, 1, bias=False)
                graph.norm("decoder.norm", pixels, wider, weights=2 * wider)
            else:
                graph.conv("decoder.conv_1", batch, wider, size, wider)
                graph.elementwise("decoder.act", pixels * wider, kind="silu")
                graph.conv("decoder.conv_2", batch, wider, size, wider, bias=False)
                graph.norm("decoder.norm", pixels, wider, weights=2 * wider)
            graph.elementwise("decoder.residual", pixels * wider, reads=2)
    graph.norm("decoder.norm_out", batch * size[0] * size[1], channels, weights=2 * channels)
    graph.conv("decoder.conv_out", batch, channels, size, 3)
