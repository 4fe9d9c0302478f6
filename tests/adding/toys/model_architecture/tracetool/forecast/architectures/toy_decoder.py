"""A decoder of nothing but feed-forward layers."""

from __future__ import annotations

from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import decoder, gated_mlp
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Model
from tracetool.forecast.parts import Norm, Part
from tracetool.forecast.quantization import formats_of


def read(config: Config, name: str) -> Model:
    """Return the model."""
    hidden, size, formats = config.size("hidden_size"), config.size("intermediate_size"), formats_of(config)

    def layer(place: int) -> tuple[Part, ...]:
        mlp = gated_mlp("mlp", hidden, size, formats.of("mlp.down_proj", place))
        return (Norm("norm", hidden, residual=True), *mlp)

    return decoder(config, name, "toy_decoder", hidden, layer)


ARCHITECTURE = Architecture(("toy_decoder",), read)
