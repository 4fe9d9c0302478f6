"""Number formats of weights, module by module, as ``quantization_config`` of a configuration states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tracetool.core.dtype import canonical_dtype
from tracetool.core.errors import BadInput
from tracetool.forecast.fields import Config

#: Format of experts alone: other modules stay as they are (``mxfp4`` of transformers and vLLM).
EXPERTS_ONLY: Final = "w4a16_mxfp4"
#: Format of products by method, for methods that have one alone. Experts in mxfp4 meet activations of 16
#: bits; libraries that quantize those too say so by ``w4a8_mxfp4_mxfp8``.
_METHODS: Final = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": EXPERTS_ONLY}
#: Formats of ModelOpt's and other tools' algorithms.
_ALGORITHMS: Final = {"fp8": "fp8", "nvfp4": "nvfp4", "w4a16_awq": "int4_wo", "w4a8_awq": "int4_wo"}
_WEIGHTS_ONLY: Final = {4: "int4_wo", 8: "int8_wo"}
#: Patterns with wildcards a configuration may hold.
_MOST_PATTERNS: Final = 200
#: What stands before ``layers`` in multimodal models.
_PREFIXES: Final = ("model.language_model.", "language_model.model.", "thinker.model.", "model.", "backbone.")


@dataclass(frozen=True)
class Formats:
    """Formats of a model's products.

    Parameters
    ----------
    dtype : str
        Format of converted modules; ``base`` that of the others.
    experts_only : bool
        Whether only experts are converted.
    names : frozenset of str
        Modules that are not converted, with all inside them.
    patterns : tuple of tuple of str
        The same with wildcards: texts that follow one another in a module's name.
    """

    base: str = "bf16"
    dtype: str = "bf16"
    experts_only: bool = False
    names: frozenset[str] = frozenset()
    patterns: tuple[tuple[str, ...], ...] = ()

    def of(self, module: str, layer: int | None = None) -> str:
        """Return the format of a module, e.g. ``mlp.down_proj`` of layer 3."""
        if self.dtype == self.base or (self.experts_only and ".experts" not in f".{module}"):
            return self.base
        full_name = module if layer is None else f"layers.{layer}.{module}"
        steps = full_name.split(".")
        if any(".".join(steps[: n + 1]) in self.names for n in range(len(steps))):
            return self.base
        if any(step in self.names for step in steps):
            return self.base
        return self.base if any(_follow(texts, full_name) for texts in self.patterns) else self.dtype


def _follow(texts: tuple[str, ...], name: str) -> bool:
    """Whether texts follow one another in a name, the first at its beginning."""
    if not name.startswith(texts[0]):
        return False
    place = len(texts[0])
    for text in texts[1:]:
        place = name.find(text, place)
        if place < 0:
            return False
        place += len(text)
    return True


def formats_of(config: Config) -> Formats:
    """Return the formats of a configuration.

    Raises
    ------
    BadInput
        If the method of quantization is not known; the field is named.
    """
    base = _base(config)
    if not config.has("quantization_config"):
        return Formats(base, base)
    settings = config.part("quantization_config")
    dtype = _dtype(settings)
    unconverted = settings.texts(
        "modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", most=20_000
    )
    names, patterns = [], []
    for text in unconverted:
        plain = _without_prefix(text.removeprefix("re:").replace("\\", "").strip("^$"))
        if "*" in plain or text.startswith("re:"):
            patterns.append(tuple(_without_prefix(t) if n == 0 else t for n, t in enumerate(_split(plain))))
        else:
            names.append(plain)
    if len(patterns) > _MOST_PATTERNS:
        raise settings.fault(
            "modules_to_not_convert", f"{len(patterns)} patterns are more than {_MOST_PATTERNS}"
        )
    return Formats(base, dtype, dtype == EXPERTS_ONLY, frozenset(names), tuple(patterns))


#: What configurations call the number format of activations; 8 bits and fewer are of weights.
_BASES: Final = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32", "auto": "bf16",
    "bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "float8_e4m3fn": "bf16", "uint8": "bf16", "int8": "bf16",
}  # fmt: skip


def _base(config: Config) -> str:
    """Return the number format of activations."""
    stated = config.text("torch_dtype", "dtype", default="bfloat16")
    base = _BASES.get(stated.removeprefix("torch.").lower())
    if base is None:
        field = "torch_dtype" if config.has("torch_dtype") else "dtype"
        raise config.fault(field, f"unknown number format {stated[:40]!r}", "bfloat16, float16 or float32")
    return base


def _split(pattern: str) -> list[str]:
    return pattern.replace(".*", "*").replace("*", "\0").split("\0")


def _without_prefix(name: str) -> str:
    return next((name[len(p) :] for p in _PREFIXES if name.startswith(p)), name)


#: Formats a served model may be asked for, as a configuration states them: ``torch_dtype`` of transformers,
#: ``quantization_config`` of vLLM, ModelOpt, GPTQ and AWQ.
_ASKED: Final[Mapping[str, Mapping[str, Any]]] = {
    "bf16": {"torch_dtype": "bfloat16"}, "fp16": {"torch_dtype": "float16"},
    "fp32": {"torch_dtype": "float32"},
    "fp8": {"quantization_config": {"quant_method": "fp8"}},
    "nvfp4": {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
    "int8_wo": {"quantization_config": {"quant_method": "gptq", "bits": 8}},
    "int4_wo": {"quantization_config": {"quant_method": "awq", "bits": 4}},
}  # fmt: skip
#: Formats a configuration may state in more than one way.
_ALIKE: Final = {"fp8_block": "fp8", EXPERTS_ONLY: "mxfp4"}


def with_format(config: Config, dtype: str) -> Config:
    """Return a configuration as one whose weights are in a number format, stored or converted when loaded.

    The same as editing ``torch_dtype`` or ``quantization_config``; one already in the format stays as it is.

    Raises
    ------
    BadInput
        If the format cannot be applied, or the checkpoint is quantized to another one.
    """
    asked = canonical_dtype(dtype) or dtype.lower()
    stated = formats_of(config)
    if stated.dtype != stated.base:
        if asked in {stated.dtype, _ALIKE.get(stated.dtype)}:
            return config
        raise BadInput(
            f"dtype: the checkpoint is quantized to {stated.dtype}, not {dtype[:40]}",
            "leave it out, or give the configuration of the checkpoint in 16 bits",
        )
    if asked not in _ASKED:
        raise BadInput(f"dtype: {dtype[:40]!r} cannot be served", f"give one of {', '.join(_ASKED)}")
    kept = {name: value for name, value in config.values.items() if name not in {"torch_dtype", "dtype"}}
    base = {"torch_dtype": config.values.get("torch_dtype", config.values.get("dtype"))}
    return Config({**kept, **base, **_ASKED[asked]}, config.source, config.path)


#: Formats of 16 bits a cache may be asked for: then it is that of the activations.
_WIDE_CACHE: Final = ("bf16", "fp16")


def cache_format(config: Config, asked: str = "") -> str:
    """Return the number format of the keys and values a request keeps.

    Parameters
    ----------
    config : Config
        States it by ``kv_cache_scheme`` (compressed-tensors) or ``kv_cache_quant_algo`` (ModelOpt); else the
        cache is that of the activations.
    asked : str
        ``fp8``, ``bf16`` or ``fp16``; ``auto`` or nothing for what the configuration states.

    Raises
    ------
    BadInput
        If it is neither of 16 bits nor FP8.
    """
    if asked in {"", "auto"}:
        return _stated_cache(config) or _base(config)
    dtype = canonical_dtype(asked) or asked.lower()
    if dtype != "fp8" and dtype not in _WIDE_CACHE:
        raise BadInput(f"kv_dtype: {asked[:40]!r} is not known", "give auto, bf16, fp16 or fp8")
    return dtype if dtype == "fp8" else _base(config)


def _stated_cache(config: Config) -> str:
    """Return the format of the cache that a configuration states, empty where it states none."""
    if not config.has("quantization_config"):
        return ""
    settings = config.part("quantization_config")
    if settings.has("kv_cache_scheme"):
        scheme = settings.part("kv_cache_scheme")
        bits, kind = scheme.size("num_bits"), scheme.text("type", default="float")
        if (bits, kind) != (8, "float"):
            raise scheme.fault(
                "num_bits", f"a cache of {bits} bits ({kind[:20]}) is not priced", "8 bits, float"
            )
        return "fp8"
    algorithm = settings.text("kv_cache_quant_algo", default="")
    if algorithm.lower() not in {"", "none", "auto", "fp8"}:
        raise settings.fault(
            "kv_cache_quant_algo", f"{algorithm[:40]!r} is not priced", "FP8, or leave it out"
        )
    return "fp8" if algorithm.lower() == "fp8" else ""


def _dtype(settings: Config) -> str:
    method = settings.text("quant_method", default="modelopt" if settings.has("quant_algo") else None)
    if method == "fp8" and settings.has("weight_block_size"):
        settings.sizes("weight_block_size", least=1, most=2)
        return "fp8_block"
    if method in _METHODS:
        return _METHODS[method]
    if method in {"awq", "gptq", "gptq_marlin", "awq_marlin", "bitsandbytes", "auto-round"}:
        bits = 4 if settings.flag("load_in_4bit") else settings.size("bits", "w_bit", default=8)
        if bits not in _WEIGHTS_ONLY:
            raise settings.fault("bits", f"{bits} is neither 4 nor 8")
        return _WEIGHTS_ONLY[bits]
    if method == "modelopt":
        algorithm = settings.text("quant_algo").lower()
        if algorithm not in _ALGORITHMS:
            raise settings.fault(
                "quant_algo", f"unknown algorithm {algorithm[:40]!r}", ", ".join(_ALGORITHMS)
            )
        return _ALGORITHMS[algorithm]
    if method in {"compressed-tensors", "compressed_tensors"}:
        return _compressed(settings)
    known_methods = (*_METHODS, "awq", "gptq", "compressed-tensors", "modelopt", "bitsandbytes")
    raise settings.fault(
        "quant_method", f"unknown method {method[:40]!r}", f"known: {', '.join(known_methods)}"
    )


def _compressed(settings: Config) -> str:
    """Return the format of compressed-tensors: of its first group, or of the whole."""
    if settings.has("config_groups"):
        groups = settings.part("config_groups")
        if not groups.values:
            raise settings.fault("config_groups", "is empty")
        settings = groups.part(next(iter(groups.values)))
    weights = settings.part("weights")
    bits, kind = weights.size("num_bits"), weights.text("type", default="int")
    both = settings.has("input_activations")
    if kind == "float":
        chosen = {4: "nvfp4", 8: "fp8"}.get(bits)
    else:
        chosen = "int8" if both and bits == 8 else _WEIGHTS_ONLY.get(bits)
    if chosen is None:
        raise weights.fault("num_bits", f"{bits} is neither 4 nor 8")
    return chosen
