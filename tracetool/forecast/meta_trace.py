"""A model traced on torch's meta device: its weights and products; needs torch and transformers."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tracetool.core.errors import BadInput, MissingPart

#: What torch calls products with weights, and those of attention.
_PRODUCTS: Final = ("mm", "addmm")
_ATTENTION: Final = ("bmm", "baddbmm")
#: Fields that say how weights are stored or loaded, not what is computed.
_STORED: Final = ("quantization_config", "auto_map", "_name_or_path")
_INSTALL: Final = 'pip install "tracetool-energy[torch]"'


@dataclass(frozen=True)
class MetaTrace:
    """Counts of torch for a model without weights.

    ``product_flops`` and others are of one pass, attention as if nothing were masked, experts
    left out; ``expert_weights`` are the weights of all experts' products. NaN where no pass was traced. [1]
    """

    library: str
    parameters: float
    product_flops: float = float("nan")
    attention_flops: float = float("nan")
    convolution_flops: float = 0.0
    expert_weights: float = 0.0


def traced_model(
    fields: Mapping[str, Any], name: str, kind: str, batch: int, length: int, side: int = 0
) -> MetaTrace:
    """Return the counts of torch for a model of the transformers library.

    Parameters
    ----------
    fields : mapping
        The configuration.
    name : str
        What messages call it.
    kind : str
        ``language``, ``encoder`` or ``vision``: which class is built where the configuration names none.
    batch, length : int
        Sequences of a pass and tokens of each.
    side : int
        Rows and columns of an image, for image models. [pixels]

    Raises
    ------
    MissingPart
        If torch or transformers is not installed.
    BadInput
        If the library has no such architecture, or cannot trace it.
    """
    torch, library = _module("torch", name), _module("transformers", name)
    release = f"transformers {library.__version__}"
    with _quiet(library):
        model = _built(torch, library, fields, name, kind)
        weights = sum(one.numel() for one in model.parameters())
        experts = _without_experts(model)
        counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
        try:
            with counter, torch.no_grad():
                model(**_inputs(torch, model, batch, length, side))
        except Exception as error:  # whatever the model's own code raises
            reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            raise BadInput(f"{name}: {release} cannot be traced without weights: {reason}") from error
    counts: dict[str, float] = {}
    for operation, flops in counter.get_flop_counts().get("Global", {}).items():
        counts[str(operation).rpartition(".")[2]] = float(flops)
    return MetaTrace(
        release,
        float(weights),
        sum(counts.get(one, 0.0) for one in _PRODUCTS),
        sum(counts.get(one, 0.0) for one in _ATTENTION),
        counts.get("convolution", 0.0),
        experts,
    )


def traced_transformer(fields: Mapping[str, Any], name: str) -> MetaTrace:
    """Return the count of torch for the transformer of a diffusers pipeline: its weights.

    Raises
    ------
    MissingPart
        If torch or diffusers is not installed.
    BadInput
        If the library has no such architecture.
    """
    torch, library = _module("torch", name), _module("diffusers", name)
    release = f"diffusers {library.__version__}"
    kind = getattr(library, str(fields.get("_class_name")), None)
    if kind is None:
        raise BadInput(f"{name}: {release} has no architecture {str(fields.get('_class_name'))[:60]!r}")
    with _quiet(library), torch.device("meta"):
        try:
            model = kind.from_config(dict(fields))
        except Exception as error:  # whatever the model's own code raises
            raise BadInput(f"{name}: {release} cannot build it: {str(error)[:120]}") from error
    return MetaTrace(release, float(sum(one.numel() for one in model.parameters())))


def _module(package: str, name: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingPart(
            f"{name}: to trace it on a meta device needs the package {package}", _INSTALL
        ) from None


@contextlib.contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """Keep a library's advice off the console."""
    library.utils.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _built(torch: Any, library: Any, fields: Mapping[str, Any], name: str, kind: str) -> Any:
    """Return a model without weights."""
    values = {key: value for key, value in fields.items() if key not in _STORED}
    release = f"transformers {library.__version__}"
    configurations = importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    architecture = str(values.get("model_type"))
    if architecture not in configurations:
        raise BadInput(f"{name}: {release} has no architecture {architecture[:60]!r}")
    try:
        config = configurations[architecture].from_dict(values)
        with torch.device("meta"):
            return _class_of(library, values, config, kind)._from_config(
                config, attn_implementation="eager", dtype=torch.bfloat16
            )
    except BadInput:
        raise
    except Exception as error:  # whatever the library makes of a configuration
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise BadInput(f"{name}: {release} cannot build it: {reason}") from error


#: Tables of the library's classes by kind of model.
_CLASSES: Final = {
    "language": "MODEL_FOR_CAUSAL_LM_MAPPING",
    "vision": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING",
    "encoder": "MODEL_MAPPING",
}
_TRANSLATING: Final = "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING"


def _class_of(library: Any, values: Mapping[str, Any], config: Any, kind: str) -> Any:
    """Return the class a configuration names; else that of its kind, or the plain one."""
    stated = values.get("architectures") or []
    if stated and hasattr(library, str(stated[0])):
        return getattr(library, str(stated[0]))
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    usual = _TRANSLATING if getattr(config, "is_encoder_decoder", False) else _CLASSES[kind]
    for mapping in (getattr(auto, usual), auto.MODEL_MAPPING):
        if type(config) in mapping:
            return mapping[type(config)]
    raise BadInput(f"no model of {type(config).__name__} in transformers")


def _without_experts(model: Any) -> float:
    """Replace experts by identities, as the routing of tokens is unknown; return their weights."""
    weights = 0.0
    for module in model.modules():
        if "Experts" in type(module).__name__:
            weights += sum(float(one.numel()) for one in module.parameters() if one.dim() >= _GROUPED)
            module.forward = _passed_on
    return weights


#: Dimensions of the weights of several experts' products: experts, rows, columns.
_GROUPED: Final = 3


def _passed_on(hidden: Any, *_: Any, **__: Any) -> Any:
    return hidden


def _inputs(torch: Any, model: Any, batch: int, length: int, side: int) -> dict[str, Any]:
    """Return the inputs of a pass."""
    if side:
        channels = getattr(model.config, "num_channels", 3)
        return {"pixel_values": torch.zeros(batch, channels, side, side, device="meta", dtype=torch.bfloat16)}
    parameters = inspect.signature(model.forward).parameters
    ids = torch.zeros(batch, length, dtype=torch.long, device="meta")
    places = torch.arange(length, device="meta")[None].expand(batch, length)
    mask = torch.zeros(batch, 1, length, length, device="meta", dtype=torch.bfloat16)
    inputs = {"input_ids": ids, "position_ids": places, "use_cache": False, "logits_to_keep": 1}
    if getattr(model.config, "is_encoder_decoder", False):
        inputs = {"input_ids": ids, "decoder_input_ids": ids, "use_cache": False}
    elif "logits_to_keep" in parameters:  # a decoder's: where nothing is said it looks at values to make one
        inputs["attention_mask"] = mask
    return {key: value for key, value in inputs.items() if key in parameters}
