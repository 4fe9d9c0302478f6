"""Weights of the towers beside a multimodal model's language model: pictures and sound.

They lie in memory whatever a request holds; their passes are no part of a text request.
"""

from __future__ import annotations

from tracetool.forecast.fields import Config

#: Towers of a configuration, and fields of the language model's configuration beside them.
_TOWERS = ("vision_config", "audio_config")
_LANGUAGE = ("text_config", "llm_config", "language_config")


def tower_parameters(config: Config) -> float:
    """Return the weights of the towers a configuration states; 0 for a model of text alone.

    Raises
    ------
    BadInput
        If a size of a tower is missing or out of range; the field is named.
    """
    inner = config.part("thinker_config") if config.has("thinker_config") else config
    if not inner.has(*_LANGUAGE):
        return 0.0
    text = inner.part(*_LANGUAGE).size("hidden_size")
    return sum(_tower(inner, inner.part(field), text) for field in _TOWERS if inner.has(field))


def _tower(model: Config, tower: Config, text: int) -> float:
    """Return the weights of blocks, patches, places, and the projection to the language model's numbers."""
    hidden = tower.size("hidden_size", "d_model")
    size = tower.size("intermediate_size", "encoder_ffn_dim")
    layers = tower.size("depth", "num_hidden_layers", "encoder_layers", most=2_000)
    block = 4.0 * hidden * hidden + 2.0 * hidden * size + 9.0 * hidden + size
    return layers * block + _patches(tower, hidden) + _projection(model, tower, hidden, size, text)


def _patches(tower: Config, hidden: int) -> float:
    if tower.has("downsample_hidden_size"):  # three convolutions over a spectrogram, an eighth of its rows
        width = tower.size("downsample_hidden_size")
        rows = -(-tower.size("num_mel_bins", default=128) // 8)
        return 18.0 * width * width + float(width * rows * hidden)
    if not tower.has("patch_size"):
        return 0.0
    patch = tower.size("patch_size", most=10_000)
    frames = tower.size("temporal_patch_size", default=1, most=1_000)
    side = tower.size("image_size", default=0, least=0) // patch
    places = tower.size("num_position_embeddings", default=side * side, least=0)
    return float(hidden) * (frames * tower.size("in_channels", "num_channels", default=3) * patch**2 + places)


def _projection(model: Config, tower: Config, hidden: int, size: int, text: int) -> float:
    if tower.has("spatial_merge_size"):  # neighbors side by side, once more for each deeper level
        joined = hidden * tower.size("spatial_merge_size", most=100) ** 2
        each = float(joined) * (joined + tower.size("out_hidden_size", default=text) + 1)
        return each * (1 + len(tower.sizes("deepstack_visual_indexes", most=1_000)))
    if model.has("projector_hidden_size"):  # four neighbors side by side
        return float(model.size("projector_hidden_size")) * (4.0 * hidden + text)
    if tower.has("projector_input_dim"):
        inner, outer = tower.size("projector_input_dim"), tower.size("projector_output_dim")
        return float(inner) * (size + outer) + float(outer) * text
    return float(hidden) * text
