"""Checks of a request: the model's mode where none is stated, and what the model or the GPU cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from tracetool.core.dtype import canonical_dtype
from tracetool.core.errors import BadInput
from tracetool.families import names
from tracetool.families.formats import multiplied_format, on_tensor, product_rate
from tracetool.forecast.case import DEFAULT_ISL, DEFAULT_OSL, SERVED, Case, with_mode, without_effect
from tracetool.forecast.model import Model
from tracetool.forecast.operator_model import OPERATORS, as_pass
from tracetool.forecast.passes import Forward, Parallel
from tracetool.forecast.quantization import EXPERTS_ONLY
from tracetool.hardware.gpu import Gpu

#: Mode where none is stated of kinds of models that no engine serves token by token.
_USUAL: Final[Mapping[str, str]] = {"diffusion": "generate", "encoder": "prefill", "vision": "prefill"}
#: Modes that decode.
_DECODING: Final = ("serve", "decode")


def as_asked(case: Case, model: Model, *, stated: bool) -> tuple[Case, tuple[str, ...]]:
    """Return the case as the model supports it, and notes on settings without effect.

    Parameters
    ----------
    case : Case
        With a mode; the usual one where ``stated`` is false.
    model : Model
        What it is asked of.
    stated : bool
        Whether somebody named the mode.

    Raises
    ------
    BadInput
        If the model is of operators and another mode than a pass was named, if it decodes nothing and a mode
        that decodes was, a batch is not whole, or a pipeline is asked for in a number format.
    """
    if model.kind == OPERATORS:
        return as_pass(case), ()
    usual = _USUAL.get(model.kind, str(case.mode))
    if not stated:
        case = with_mode(case, usual)
    elif case.mode in _DECODING and usual not in _DECODING:
        raise BadInput(f"mode: {case.mode}: the model decodes no tokens", f"ask with --mode {usual}")
    unread = without_effect(case)
    notes = [f"without effect on --mode {case.mode}: {', '.join(unread)}"] if unread else []
    if case.mode in SERVED and case.kv_dtype is not None and not model.cache_formats:
        notes.append(f"without effect on {model.name}, which keeps no keys and values: kv_dtype")
    if case.mode == "generate" and case.dtype not in (None, model.dtype):
        raise BadInput(
            f"dtype: {case.dtype[:40]} cannot be applied to a pipeline", f"its figures are in {model.dtype}"
        )
    if case.mode in SERVED and case.get("ep", 1) > 1 and not _has_experts(model):
        notes.append(f"without effect on {model.name}, which has no experts: ep")
        case = replace(case, ep=None)
    return case, tuple(notes)


def cautions(case: Case, model: Model, gpu: Gpu) -> tuple[str, ...]:
    """Return cautions: another model's sizes, a context beyond them, formats it or the GPU has no use for."""
    return (
        *_taken(model),
        *_unused_format(model),
        *_stated_cache(case, model),
        *_too_long(case, model),
        *_not_multiplied(case, model, gpu),
    )


def _taken(model: Model) -> tuple[str, ...]:
    """Return a note where a name stands for the sizes of another one."""
    return (f"{model.asked_as} has the sizes of {model.name}, which are taken",) if model.asked_as else ()


def _has_experts(model: Model) -> bool:
    rows = model.operators(Forward(prefill_requests=1.0, prefill_tokens=1.0, prefill_context=1.0), Parallel())
    return any(row["op"] == names.MOE for row in rows)


def _unused_format(model: Model) -> tuple[str, ...]:
    """Return a note where a configuration states a format that none of its modules takes."""
    if not model.unused_format:
        return ()
    of = model.unused_format
    what = f"{of}, a format of experts, of which it has none" if of == EXPERTS_ONLY else of
    counted = f"its weights are counted in {model.dtype.upper()}"
    return (f"without effect on {model.name}: quantization_config ({what}); {counted}",)


def _stated_cache(case: Case, model: Model) -> tuple[str, ...]:
    """Return a note where a configuration states that keys and values are kept in 8 bits."""
    if case.mode not in SERVED or case.kv_dtype not in (None, "auto") or "fp8" not in model.cache_formats:
        return ()
    return ("keys and values are kept in FP8, as its quantization_config states; others with --kv-dtype",)


def _too_long(case: Case, model: Model) -> tuple[str, ...]:
    tokens = case.get("isl", DEFAULT_ISL)
    if case.mode in ("serve", "decode"):
        tokens += case.get("osl", DEFAULT_OSL)
    if case.mode == "train":
        tokens = case.get("seq", 0.0)
    if case.mode not in (*SERVED, "train") or tokens <= model.most_tokens:
        return ()
    most = f"the {model.most_tokens:g} its configuration states (max_position_embeddings)"
    return (f"{tokens:g} tokens of a request are beyond {most}",)


def _not_multiplied(case: Case, model: Model, gpu: Gpu) -> tuple[str, ...]:
    """Return notes on the formats of products that a GPU has no units for, and multiplies as others."""
    if case.mode == "train":
        formats = {canonical_dtype(case.dtype) or model.dtype}
    elif case.mode in SERVED:
        formats = {model.dtype, *model.product_formats}
    else:
        return ()
    return tuple(note for dtype in sorted(formats) for note in _multiplied_otherwise(dtype, case, gpu))


def _multiplied_otherwise(dtype: str, case: Case, gpu: Gpu) -> tuple[str, ...]:
    """Return a note where a GPU multiplies a format at the rate of another."""
    words = np.array([dtype, "fp16"], object)
    if dtype in _FP32_ELSE:
        slow, fast = product_rate(words, gpu)
        if slow >= fast or on_tensor(words, gpu)[0]:
            return ()
        served = "engines serve such models in FP16 there, as with --dtype fp16"
        instead = "train in FP16 there, with --dtype fp16" if case.mode == "train" else served
        share = f"{100 * slow / fast:.0f} % of its rate of FP16"
        return (f"{gpu.name} multiplies {dtype.upper()} as FP32, at {share}: {instead}",)
    if multiplied_format(words, gpu)[0] != dtype:
        taken = "products are priced at the rate of 16 bits, with weights converted on the way"
        return (f"{gpu.name} has no tensor cores for {dtype.upper()}: {taken}",)
    if dtype in _BLOCK_SCALES and multiplied_format(np.array(["nvfp4"], object), gpu)[0] != "nvfp4":
        return (f"{gpu.name} has no tensor cores for {dtype.upper()}: products are priced as FP8's",)
    return ()


#: Formats that GPUs without tensor cores for them multiply as FP32.
_FP32_ELSE: Final = ("bf16", "tf32")
#: Formats of 8 bits whose scales tensor cores apply that multiply 4 bits too: Blackwell and CDNA 4 brought
#: both (NVIDIA PTX ISA 8.7, AMD CDNA 4 ISA). By definition of the formats (OCP Microscaling Formats, 2023).
_BLOCK_SCALES: Final = ("mxfp8",)
