"""A model from a configuration: a Hugging Face ``config.json``, a folder, its fields, or a name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tracetool.core.errors import BadInput
from tracetool.core.paths import regular_file
from tracetool.forecast.architecture import Architecture, architectures
from tracetool.forecast.encoder_weights import tower_parameters
from tracetool.forecast.fields import Config
from tracetool.forecast.graph import Graph
from tracetool.forecast.model import Model
from tracetool.forecast.model_names import fields_of, named_models, resolved
from tracetool.forecast.operator_model import GRAPHS, TABLES, read_operators
from tracetool.forecast.quantization import cache_format, formats_of, with_format
from tracetool.forecast.transformers_eager import Prompt

#: Largest configuration that is read: those of today's models are below 100 kB. [B]
_MOST_BYTES: Final = 20_000_000
#: What is read in place of a file that is none.
_GIVE: Final = "give the config.json of a model"
#: Folders of a pipeline that are read.
_MOST_PARTS: Final = 20


def read_model(
    source: str | os.PathLike[str] | Mapping[str, Any], dtype: str = "", kv_dtype: str = ""
) -> Model:
    """Return the model of a configuration.

    Parameters
    ----------
    source : path or mapping
        A ``config.json``; a folder that holds one, or a diffusers pipeline; its fields; or a name of
        ``models.toml``; an operator table, an ONNX file or one of ``torch.export``.
    dtype, kv_dtype : str
        Number formats of a language model in place of those it states: of weights and products, and of the
        keys and values requests keep.

    Raises
    ------
    BadInput
        If it cannot be read, a format cannot be applied, its architecture is not known, or a field is
        missing or out of range; the field is named.
    """
    if isinstance(source, Mapping):
        name, values = str(source.get("_name_or_path") or "config")[:100], source
    elif os.fspath(source).lower().endswith((*GRAPHS, *TABLES)):
        return read_operators(Path(source))
    else:
        name, values = _named_or_read(os.fspath(source))
    config = Config(values, name if isinstance(source, Mapping) else os.fspath(source))
    registry = architectures()
    if config.has("transformer"):
        inner = config.part("transformer")
        return _architecture(registry, inner, "_class_name").read(config, name)
    towers = tower_parameters(config)
    config = _language(config)
    if dtype:
        config = with_format(config, dtype)
    architecture = _architecture(registry, config, "model_type")
    model = architecture.read(config, name)
    model = model.with_cache(cache_format(config, kv_dtype))
    if most := config.size("max_position_embeddings", "n_positions", default=0, least=0):
        model = replace(model, most_tokens=float(most))
    if config.has("quantization_config"):
        formats = formats_of(config)
        if formats.dtype != formats.base and not model.holds(formats.dtype):
            model = replace(model, unused_format=formats.dtype)
    if architecture.eager is not None:
        model = replace(model, eager=partial(_run_eagerly, architecture.eager, config))
    if not isinstance(source, Mapping) and values is named_models().get(name):
        asked = os.fspath(source).strip().rpartition("/")[2]
        model = model if asked.lower() == name else replace(model, asked_as=asked)
    return model.with_towers(towers) if towers else model


def fields_of_source(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return name and fields of a configuration, as :func:`read_model` reads them.

    Raises
    ------
    BadInput
        If it cannot be read, or is a table or graph of operators.
    """
    if isinstance(source, Mapping):
        return str(source.get("_name_or_path") or "config")[:100], source
    if os.fspath(source).lower().endswith((*GRAPHS, *TABLES)):
        raise BadInput.in_file(source, "is no configuration", "give a model's config.json")
    return _named_or_read(os.fspath(source))


def _run_eagerly(
    add: Callable[[Graph, Config, Prompt], None], config: Config, graph: Graph, of: Prompt
) -> None:
    add(graph, config, of)


def _architecture(registry: Mapping[str, Architecture], config: Config, field: str) -> Architecture:
    """Return the architecture a field names, or raise BadInput with those there are."""
    kind = config.text(field)
    if kind not in registry:
        known_names = sorted(one for one in registry if one[0].isupper() == (field == "_class_name"))
        raise config.fault(field, f"unknown architecture {kind[:60]!r}", f"known: {', '.join(known_names)}")
    return registry[kind]


#: Where multimodal configurations keep their language model's, and fields of the whole that hold for it too.
_TOWERS: Final = ("thinker_config", "llm_config", "language_config", "text_config")
#: Configurations inside one another: Qwen-Omni has two.
_DEEPEST: Final = 4
_OF_THE_WHOLE: Final = ("quantization_config", "tie_word_embeddings", "torch_dtype", "dtype")


def _language(config: Config) -> Config:
    """Return the configuration of the language model inside a multimodal one; any other as it is."""
    for _ in range(_DEEPEST):
        if not config.has(*_TOWERS):
            break
        inner = config.part(*_TOWERS)
        of_model = {f: config.values[f] for f in _OF_THE_WHOLE if config.values.get(f) is not None}
        config = Config({**of_model, **inner.values}, inner.source, inner.path)
    return config


def _named_or_read(source: str) -> tuple[str, Mapping[str, Any]]:
    """Return name and fields of a file or folder, or of a model that has a name."""
    try:
        path = Path(source)
        if path.is_dir():
            return path.name, _folder(path)
        if path.is_file() or path.suffix.lower() == ".json":
            return path.stem, _load(path)
    except ValueError as error:  # no path may hold a zero byte
        raise BadInput(f"{source[:100]!r} is no path: {error}") from error
    return resolved(source), fields_of(source)


def _folder(path: Path) -> Mapping[str, Any]:
    """Return the fields of a model's folder; of a pipeline's, those of its parts by their folders' names."""
    index = path / "model_index.json"
    if not index.is_file():
        if not (path / "config.json").exists():
            raise BadInput.in_file(
                path, "holds neither config.json nor model_index.json", "give the configuration of a model"
            )
        return _load(path / "config.json")
    folders = sorted(entry for entry in path.iterdir() if (entry / "config.json").is_file())[:_MOST_PARTS]
    return {**_load(index), **{folder.name: _load(folder / "config.json") for folder in folders}}


def _load(path: Path) -> Mapping[str, Any]:
    try:
        size = regular_file(path, _GIVE).stat().st_size
        if size > _MOST_BYTES:
            raise BadInput.in_file(path, f"{size} bytes are too many for a configuration", _GIVE)
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput.in_file(path, f"cannot be read: {error.strerror or error}", _GIVE) from error
    except (ValueError, RecursionError) as error:
        raise BadInput.in_file(path, f"is not JSON: {str(error)[:100]}", _GIVE) from error
    if not isinstance(values, Mapping):
        raise BadInput.in_file(path, "is not a JSON object of fields", _GIVE)
    return values
