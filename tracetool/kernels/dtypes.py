"""Number formats as libraries abbreviate them."""

from __future__ import annotations

import re
from typing import Final

from tracetool.core.dtype import canonical_dtype

#: Abbreviations of NVIDIA and AMD libraries and of CUTLASS, beside the spellings every package shares.
ABBREVIATIONS: Final[dict[str, str]] = {
    "fp16": "fp16", "f16": "fp16", "h": "fp16", "half_t": "fp16", "__half": "fp16", "half": "fp16", "_float16": "fp16",
    "nv_half": "fp16", "__half2": "fp16", "half2": "fp16", "df16_": "fp16", "fp16fp16": "fp16",
    "bf16": "bf16", "bfloat16_t": "bf16", "__hip_bfloat16": "bf16", "hip_bfloat16": "bf16", "nv_bfloat16": "bf16",
    "__nv_bfloat162": "bf16", "__bf16": "bf16", "bf16_t": "bf16", "rocblas_bfloat16": "bf16", "bfloat16": "bf16",
    "tf32": "tf32", "tfloat32_t": "tf32", "fp32": "fp32", "f32": "fp32", "s": "fp32", "float4": "fp32", "float2": "fp32",
    "xf32": "tf32", "fp64": "fp64", "f64": "fp64", "d": "fp64",
    "i8": "int8", "s8": "int8", "u8": "uint8", "int8": "int8", "i32": "int32", "s32": "int32", "i4": "int4", "s4": "int4",
    "e4m3": "fp8", "e5m2": "fp8", "f8": "fp8", "fp8": "fp8", "float_e4m3_t": "fp8", "float_e5m2_t": "fp8", "bf8": "fp8",
    "ue4m3": "fp8", "ue8m0": "fp8", "__nv_fp8_e4m3": "fp8", "__nv_fp8_e5m2": "fp8", "fp8_e4m3": "fp8", "e3m2": "fp8",
    "e2m3": "fp8", "mxfp8": "fp8", "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8", "f6": "fp8",
    "e2m1": "nvfp4", "f4": "nvfp4", "fp4": "nvfp4", "nvfp4": "nvfp4", "mxfp4": "mxfp4", "_Bool": "bool", "float_e2m1_t": "nvfp4", "mxe2m1": "mxfp4",
    "mxe4m3": "fp8", "c32": "complex64", "c64": "complex128", "cuComplex": "complex64", "cuDoubleComplex": "complex128",
    "int4": "int4", "uint4": "int4", "int8_t": "int8", "uint8_t": "uint8", "int64_t": "int64", "uint32_t": "int32",
    "unsigned long": "int64", "unsigned int": "int32", "long long": "int64",
}  # fmt: skip

_SCOPED = re.compile(r"(?:\w+::)*(\w+)")
_QUALIFIER = re.compile(r"\bconst\b|[*&]")


def number_format(text: str | None) -> str | None:
    """Return our name of a number format written as a type or an abbreviation, else None.

    >>> (
    ...     number_format("cutlass::half_t"),
    ...     number_format("c10::complex<double>"),
    ...     number_format("const float *"),
    ... )
    ('fp16', 'complex128', 'fp32')
    """
    if not text:
        return None
    plain = _QUALIFIER.sub("", text).strip()
    dtype = canonical_dtype(plain) or ABBREVIATIONS.get(plain) or ABBREVIATIONS.get(plain.lower())
    if dtype is None and "::" in plain:
        tail = _SCOPED.fullmatch(plain)
        if tail:
            dtype = canonical_dtype(tail[1]) or ABBREVIATIONS.get(tail[1].lower())
    if dtype is None and "complex<" in plain:
        dtype = "complex128" if "double" in plain else "complex64"
    return dtype
