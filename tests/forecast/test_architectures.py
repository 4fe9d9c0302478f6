"""What holds for every architecture of the registry."""

from __future__ import annotations

import pytest

from tracetool.core.errors import BadInput
from tracetool.core.registry import members
from tracetool.forecast.architecture import Architecture, architectures
from tracetool.forecast.config import read_model
from tracetool.forecast.model import Forward, Parallel

FILES = members("tracetool.forecast.architectures", "ARCHITECTURE", Architecture)


@pytest.mark.parametrize("name", FILES)
def test_an_architecture_claims_types_of_its_own(name: str) -> None:
    assert FILES[name].types
    for kind in FILES[name].types:
        assert architectures()[kind] is FILES[name], f"{kind} is claimed by another file as well"


@pytest.mark.parametrize("kind", sorted(architectures()))
def test_a_configuration_without_sizes_is_a_model_or_names_the_first(kind: str) -> None:
    fields = {"transformer": {"_class_name": kind}} if kind[0].isupper() else {"model_type": kind}
    try:
        model = read_model(fields)
    except BadInput as error:
        assert "is missing" in error.line()
    else:
        assert model.operators(Forward(prefill_requests=1, prefill_tokens=16, prefill_context=16), Parallel())
