"""Number formats of rows: bytes per element and the pipe that multiplies them."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Bools, Floats, Texts
from tracetool.core.dtype import BYTES
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.gpu import Gpu

#: Pipe of a product in each format; fp32 inputs stay on the FP32 pipe unless tf32 is asked for.
PRODUCT_PIPE = {
    "fp64": "tensor_fp64", "fp32": "fp32", "tf32": "tensor_tf32", "fp16": "tensor_fp16",
    "bf16": "tensor_bf16",
    "fp8": "tensor_fp8", "fp8_block": "tensor_fp8", "int8": "tensor_int8", "uint8": "tensor_int8",
    "nvfp4": "tensor_fp4", "mxfp4": "tensor_fp4", "int4": "tensor_fp16",
}  # fmt: skip
#: Format of a product's result.
RESULT = {
    "fp8": "bf16",
    "fp8_block": "bf16",
    "nvfp4": "bf16",
    "mxfp4": "bf16",
    "int4": "bf16",
    "int8": "int32",
    "tf32": "fp32",
}


def _mapped(words: Texts, table: dict[str, float], default: float) -> Floats:
    words = np.asarray(words, dtype=object)
    values = np.full(len(words), default)
    for name in table.keys() & set(words.tolist()):
        values[words == name] = table[name]
    return values


def element_bytes(words: Texts, default: float = 4.0) -> Floats:
    """Return bytes per element of each format; ``default`` where it is not known. Shape (n,). [B]"""
    return _mapped(words, BYTES, default)


def result_bytes(words: Texts) -> Floats:
    """Return bytes per element of a product's result. Shape (n,). [B]"""
    return _mapped(words, {k: BYTES[RESULT.get(k, k)] for k in BYTES}, 4.0)


def product_rate(words: Texts, gpu: Gpu) -> Floats:
    """Return the rate of products in each format. Shape (n,). [FLOP/clk/SM]"""
    return _mapped(words, {k: gpu.rate(p) for k, p in PRODUCT_PIPE.items()}, gpu.rate("fp32"))


def on_tensor(words: Texts, gpu: Gpu) -> Bools:
    """Return which formats are multiplied on tensor cores of this GPU. Shape (n,)."""
    table = {k: float(_has_unit(p, gpu)) for k, p in PRODUCT_PIPE.items()}
    return _mapped(words, table, 0.0) > 0


def _has_unit(pipe: str, gpu: Gpu) -> bool:
    """Whether a product of this pipe, or of the one it is converted to, runs on tensor cores."""
    if not pipe.startswith("tensor_"):
        return False
    vector = {"tensor_fp64": "fp64", "tensor_tf32": "fp32", "tensor_bf16": "fp32"}.get(pipe, "fp16")
    return gpu.rate(pipe) > gpu.rate(vector)


def dtype_of(rows: OperatorColumns, default: str = "fp32") -> Texts:
    """Return each row's format. Shape (n,)."""
    return rows.text("dtype", default)
