"""Sources of configurations, names, and faulty ones: a model or one line that names the field."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tracetool as tt
from tests.forecast.test_diffusion import sd3
from tests.forecast.test_llama import llama
from tracetool.core.errors import BadInput
from tracetool.forecast.architecture import architectures
from tracetool.forecast.config import read_model
from tracetool.forecast.model import Canvas, Forward, Parallel
from tracetool.forecast.model_names import named_models

#: Billions of weights, and of those a token meets, as their authors state them (sources: models.toml).
PUBLISHED = {
    "llama-2-7b": (6.74, 6.74), "tinyllama-1.1b": (1.10, 1.10), "llama-3.2-1b": (1.24, 1.24),
    "llama-3.2-3b": (3.21, 3.21), "llama-3.1-8b": (8.03, 8.03), "llama-3.1-70b": (70.6, 70.6),
    "llama-3.3-70b": (70.6, 70.6),
    "llama-3.1-405b": (405.9, 405.9), "mistral-7b": (7.24, 7.24), "mixtral-8x7b": (46.7, 12.9),
    "qwen2-1.5b": (1.54, 1.54), "qwen3-8b": (8.19, 8.19),
    "qwen3-14b": (14.8, 14.8), "qwen3-32b": (32.8, 32.8),
    "qwen3-30b-a3b": (30.5, 3.3), "qwen3-235b-a22b": (235.0, 22.0), "qwen3-coder-480b-a35b": (480.0, 35.0),
    "qwen3-next-80b-a3b": (80.0, 3.9), "deepseek-r1": (671.0, 37.5), "gpt-oss-20b": (20.9, 4.19),
    "gpt-oss-120b": (116.8, 5.71), "opt-1.3b": (1.32, 1.32), "gpt2": (0.124, 0.124),
    "flux.1-dev": (11.9, 11.9), "sd3.5-large": (8.06, 8.06),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_named_model_has_its_published_weights(name: str) -> None:
    # gpt-oss states 3.6 and 5.1 billion active without the embedding, the rest with it
    model, (parameters, active) = read_model(name), PUBLISHED[name]
    assert model.parameters == pytest.approx(parameters * 1e9, rel=0.01)
    assert model.active_parameters == pytest.approx(active * 1e9, rel=0.02)


@pytest.mark.parametrize("name", named_models())
def test_every_named_model_runs(name: str) -> None:
    model = read_model(name)
    if model.kind == "diffusion":
        assert model.pipeline(Canvas(1, 256, 256, 5, 2))
    else:
        assert model.operators(Forward(1, 10), Parallel())


def test_a_named_model_is_asked_for_by_no_other_name() -> None:
    with pytest.raises(BadInput, match="no model of that name") as error:
        read_model("llama-3.1-8")
    assert "llama-3.1-8b" in error.value.line()


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"),
        ("LLAMA-3.3-70B-INSTRUCT", "llama-3.3-70b"),
        ("google/gemma-3-12b-it", "gemma-3-12b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", "qwen3-30b-a3b"),
        ("Qwen/Qwen3-8B", "qwen3-8b"),
    ],
)
def test_a_name_as_publishers_write_it_is_the_model_of_its_sizes(written: str, name: str) -> None:
    model = read_model(written)
    assert model.name == name
    assert model.parameters == read_model(name).parameters
    notes = tt.forecast(written, gpu="h100-sxm", mode="decode", tp=4).notes
    other = written.rpartition("/")[2].lower() != name
    assert any(f"has the sizes of {name}" in note for note in notes) == other


@pytest.mark.parametrize("name", ["org/Llama-3.1-70B-Instruct-FP8", "org/llama-3.1-8", "-instruct", "-2507"])
def test_a_name_in_another_format_or_size_is_none(name: str) -> None:
    with pytest.raises(BadInput, match="no model of that name"):
        read_model(name)


def test_a_file_a_folder_and_fields_are_one_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(llama()))
    fields = read_model(llama())
    for source in (tmp_path, tmp_path / "config.json", str(tmp_path)):
        assert read_model(source).groups == fields.groups


def test_a_folder_of_a_pipeline_is_its_parts(tmp_path: Path) -> None:
    whole = sd3()
    (tmp_path / "model_index.json").write_text(
        json.dumps({"_class_name": whole["_class_name"], "transformer": ["a", "b"]})
    )
    for part in ("transformer", "vae", "text_encoder"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "config.json").write_text(json.dumps(whole[part]))
    assert read_model(tmp_path).parameters == read_model(whole).parameters


def test_nothing_of_a_framework_is_imported() -> None:
    read_model(llama())
    assert not {"torch", "transformers", "diffusers"} & set(sys.modules)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1, 2]",
        "null",
        '{"model_type": 3}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "\0",
        '{"model_type": "llama"}',
    ],
)
def test_a_file_that_is_no_configuration_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"config\.json"):
        read_model(path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(30_000_000)
    with pytest.raises(BadInput, match="too many"):
        read_model(path)


@pytest.mark.parametrize("source", ["/nowhere/config.json", "\0", "no such model at all", "a/b"])
def test_a_source_that_is_not_there_is_one_line(source: str) -> None:
    with pytest.raises(BadInput):
        read_model(source)


#: The language models whose every field is changed in turn: one of each architecture.
EVERY = {
    "llama-3.1-8b": {}, "mixtral-8x7b": {}, "qwen3-30b-a3b": {}, "deepseek-r1": {}, "gpt-oss-20b": {},
    "gemma-3-12b": {}, "llama-4-scout": {}, "nemotron-nano-9b-v2": {}, "qwen3-next-80b-a3b": {}, "gpt2": {},
}  # fmt: skip
BAD: tuple[Any, ...] = (
    None, 0, -1, 1.5, math.nan, math.inf, 10**30, 10**9, "4096", "", True, [], [1, 2], {}, {"a": {}},
    "x" * 10_000,
)  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_a_changed_field_gives_a_model_or_one_line(name: str) -> None:
    whole = dict(named_models()[name])
    for field in whole:
        for value in BAD:
            try:
                model = read_model({**whole, field: value})
                rows = model.operators(Forward(2, 100, 1, 10, 20), Parallel())
            except BadInput as error:
                assert field in error.line(), (field, value, error.line())
                continue
            assert all(math.isfinite(v) for row in rows for v in row.values() if isinstance(v, float))
            assert math.isfinite(model.parameters)
            assert model.parameters > 0


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(architectures())),
    st.dictionaries(
        st.sampled_from(sorted({field for fields in named_models().values() for field in fields})),
        st.one_of(st.integers(-5, 10**6), st.floats(), st.text(max_size=5), st.none(), st.booleans()),
        max_size=25,
    ),
)
def test_any_fields_give_a_model_or_one_line(kind: str, fields: dict[str, Any]) -> None:
    try:
        model = read_model({**fields, "model_type": kind})
        if model.kind != "diffusion":
            model.operators(Forward(2, 100), Parallel(tp=2))
    except BadInput as error:
        assert error.line()


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [("torch_dtype", "float3", "torch_dtype: unknown number format 'float3'"),
     ("layer_types", ["full_attention"] * 3, "layer_types: states 3 layers of"),
     ("layer_types", ["full_attention", "conv"] * 8, "layer_types: 'conv' is none of full_attention")],
)  # fmt: skip
def test_an_odd_format_or_list_of_layers_names_its_field(field: str, value: object, told: str) -> None:
    gemma = {**llama(), "model_type": "gemma3_text", "head_dim": 128, "num_hidden_layers": 16, field: value}
    with pytest.raises(BadInput, match=told):
        read_model(gemma)


def test_a_folder_without_a_configuration_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"holds neither config\.json nor model_index\.json"):
        read_model(tmp_path)
