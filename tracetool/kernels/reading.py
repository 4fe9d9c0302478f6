"""Small readers grammars share: number formats and counts among template arguments."""

from __future__ import annotations

import re

from tracetool.kernels.dtypes import number_format
from tracetool.kernels.grammar import Attributes, Sign
from tracetool.kernels.symbols import Symbol

_FORMAT = re.compile(
    r"\b(?:c10::|cutlass::|__)?(?:nv_|hip_)?(?:BFloat16|bfloat16_t|bfloat16|bf16|__bf16|Half|half_t|half|fp16|float16|f16|fp8\w*|e4m3\w*|e5m2\w*|"
    r"e2m1\w*|float_e4m3_t|float_e5m2_t|float_e2m1_t|Float8_\w+|mxfp4|nvfp4|fp4|int8_t|int8|i8|tf32|float32|fp32|f32|float|double|fp64|f64)\b",
    re.IGNORECASE,
)
_FLAT = re.compile(
    r"(?:^|_)(bf16|bfloat16|fp16|f16|half|float16|fp8\w{0,6}|f8|e4m3|e5m2|mxfp4|mxfp8|nvfp4|fp4|e2m1|int8|i8|w8a8|tf32|fp32|f32|float32|float|double|fp64|f64)(?=_|$|x)"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words(name: str) -> list[str]:
    """Split a name at underscores, digits and capitals, lower case.

    >>> words("FusedAddRMSNorm_kernel2d")
    ['fused', 'add', 'rms', 'norm', 'kernel', '2', 'd']
    """
    return [w.lower() for w in _WORD.findall(name)]


def format_in(text: str) -> str | None:
    """Return the first number format spelled in a text.

    >>> format_in("vllm::rms_norm_kernel<c10::Half>"), format_in("fmoe_bf16_g1u1")
    ('fp16', 'bf16')
    """
    spelled = _FORMAT.search(text)
    if spelled:
        return number_format(spelled[0])
    flat = _FLAT.search(text)
    return number_format(flat[1]) if flat else None


def typed(symbol: Symbol) -> str | None:
    """Return the first number format among the template arguments, else in the head symbol."""
    for argument in symbol.arguments[:12]:
        dtype = number_format(argument) or (format_in(argument) if len(argument) < 400 else None)
        if dtype and dtype not in ("int32", "int64", "bool"):
            return dtype
    return format_in(symbol.head)


def typed_as(**fixed: str | int | bool | None) -> Sign:
    """Return a reader that states the number format and what is given."""

    def sign(match: re.Match[str], symbol: Symbol) -> Attributes:
        return {"dtype": typed(symbol), **fixed}

    return sign


def numbers_of(symbol: Symbol) -> list[int]:
    """Return the plain integers among the template arguments, in order."""
    return [int(a) for a in symbol.arguments if a.lstrip("-").isdigit() and len(a) < 10]
