"""Number formats: their names, sizes and spellings in profilers."""

from __future__ import annotations

from typing import Final

#: Bytes per element, scales of block formats included: nvfp4 has one fp8 scale per 16 elements, mxfp4 and
#: mxfp8 one of 8 bits per 32 (OCP Microscaling Formats, 2023, section 5), int4_wo one of 16 bits per 128,
#: fp8_block one fp32 scale per 128 elements and int8_wo and sq one per column (negligible). Of formats whose
#: weights differ from their activations (:data:`ACTIVATIONS`), a weight.
BYTES: Final[dict[str, float]] = {
    "fp64": 8.0, "complex128": 16.0, "complex64": 8.0,
    "fp32": 4.0, "tf32": 4.0, "int32": 4.0, "int64": 8.0, "int16": 2.0,
    "fp16": 2.0, "bf16": 2.0,
    "fp8": 1.0, "fp8_block": 1.0, "int8": 1.0, "uint8": 1.0, "bool": 1.0,
    "nvfp4": 0.5625, "mxfp4": 0.53125, "int4": 0.5, "mxfp8": 1.03125,
    "int4_wo": 0.515625, "int8_wo": 1.0, "sq": 1.0, "w4a16_mxfp4": 0.53125, "w4a8_mxfp4_mxfp8": 0.53125,
}  # fmt: skip

#: Format of the activations where the weights have another: weights alone in 4 or 8 bits (``_wo``),
#: SmoothQuant (``sq``: both in int8, scales by token and channel), mxfp4 weights with activations of 16 or 8
#: bits.
ACTIVATIONS: Final[dict[str, str]] = {
    "int4_wo": "bf16", "int8_wo": "bf16", "sq": "int8", "w4a16_mxfp4": "bf16", "w4a8_mxfp4_mxfp8": "mxfp8",
}  # fmt: skip

#: Floats of 16 bits. By definition.
HALF: Final = ("bf16", "fp16")

#: Spellings profilers and libraries write, lower case, to ours.
SPELLINGS: Final[dict[str, str]] = {
    "float": "fp32", "float32": "fp32", "f32": "fp32", "single": "fp32", "at::float": "fp32",
    "double": "fp64", "float64": "fp64", "f64": "fp64",
    "c10::half": "fp16", "half": "fp16", "float16": "fp16", "f16": "fp16", "__half": "fp16",
    "c10::bfloat16": "bf16", "bfloat16": "bf16", "__nv_bfloat16": "bf16", "hip_bfloat16": "bf16",
    "long int": "int64", "long": "int64", "int64_t": "int64", "int": "int32", "int32_t": "int32",
    "short": "int16", "short int": "int16", "signed char": "int8", "char": "int8", "int8_t": "int8",
    "unsigned char": "uint8", "uint8_t": "uint8", "byte": "uint8", "bool": "bool",
    "c10::float8_e4m3fn": "fp8", "c10::float8_e4m3fnuz": "fp8", "c10::float8_e5m2": "fp8",
    "c10::float8_e5m2fnuz": "fp8", "float8_e4m3fn": "fp8", "e4m3": "fp8", "e5m2": "fp8",
    "float8_e4m3": "fp8", "float8_e5m2": "fp8", "float8_e4m3fnuz": "fp8", "float8_e5m2fnuz": "fp8",
    "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_e4m3fn": "fp8", "w4a16": "int4_wo", "w8a16": "int8_wo",
    "c10::float4_e2m1fn_x2": "nvfp4", "e2m1": "nvfp4",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
}  # fmt: skip


def canonical_dtype(text: str | None) -> str | None:
    """Return our name of a number format, or None if it is not known.

    >>> canonical_dtype("c10::BFloat16"), canonical_dtype("torch.float8_e4m3fn"), canonical_dtype("Scalar")
    ('bf16', 'fp8', None)
    """
    if not text:
        return None
    low = text.strip().lower().removeprefix("torch.")
    return low if low in BYTES else SPELLINGS.get(low)
