"""Number formats of rows: bytes per element and the pipe that multiplies them."""

from __future__ import annotations

import numpy as np

from tracetool.core.arrays import Bools, Floats, Texts
from tracetool.core.dtype import ACTIVATIONS, BYTES
from tracetool.core.operators import OperatorColumns, distinct_texts
from tracetool.core.work import Work
from tracetool.hardware.architecture import load_architecture
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.priors import prior_number

#: Pipe of a product in each format; fp32 inputs stay on the FP32 pipe unless tf32 is asked for.
PRODUCT_PIPE = {
    "fp64": "tensor_fp64", "fp32": "fp32", "tf32": "tensor_tf32", "fp16": "tensor_fp16",
    "bf16": "tensor_bf16",
    "fp8": "tensor_fp8", "fp8_block": "tensor_fp8", "int8": "tensor_int8", "uint8": "tensor_int8",
    "nvfp4": "tensor_fp4", "mxfp4": "tensor_fp4", "int4": "tensor_fp16", "mxfp8": "tensor_fp8",
    "int4_wo": "tensor_bf16", "int8_wo": "tensor_bf16", "sq": "tensor_int8", "w4a16_mxfp4": "tensor_bf16",
    "w4a8_mxfp4_mxfp8": "tensor_fp8",
}  # fmt: skip
#: Pipes of narrow formats: where a GPU has none of its own, libraries convert weights to 16 bits on the way
#: to the tensor cores and leave activations in 16 bits (IST-DASLab/marlin).
_NARROW = frozenset({"tensor_fp8", "tensor_fp4"})
#: Pipes that libraries use wherever a GPU has them, were its vectors as fast. By definition of their kernels.
_ALWAYS_ON_MATRIX = frozenset({"tensor_fp16", "tensor_bf16", "tensor_int8"})
#: Share of the FP32 pipe's rate that products of BF16 reach where no unit multiplies these. [1]
_EMULATED_BF16 = prior_number("formats.emulated_bf16")
#: Formats of 64 bits, and pairs of them.
_DOUBLE = ("fp64", "complex128")
#: Format of a product's result.
RESULT = {
    "fp8": "bf16",
    "fp8_block": "bf16",
    "nvfp4": "bf16",
    "mxfp4": "bf16",
    "int4": "bf16",
    "mxfp8": "bf16",
    **dict.fromkeys(ACTIVATIONS, "bf16"),
    "int8": "int32",
    "tf32": "fp32",
}


def _mapped(words: Texts, table: dict[str, float], default: float) -> Floats:
    distinct, place = distinct_texts(np.asarray(words, dtype=object))
    return np.array([table.get(word, default) for word in distinct], dtype=np.float64)[place]


def element_bytes(words: Texts, default: float = 4.0) -> Floats:
    """Return bytes per element of each format; ``default`` where it is not known. Shape (n,). [B]"""
    return _mapped(words, BYTES, default)


def activation_bytes(words: Texts, gpu: Gpu, default: float = 4.0) -> Floats:
    """Return bytes per element of a product's activations; formats of weights alone differ. Shape (n,). [B]

    Where the GPU multiplies no 8- or 4-bit floats, activations stay in 16 bits; ``default`` where the format
    is not known.
    """
    sizes = {word: BYTES[ACTIVATIONS.get(word, word)] for word in BYTES}
    return _mapped(words, {w: BYTES["bf16"] if _converted(w, gpu) else b for w, b in sizes.items()}, default)


def dequantized(words: Texts, gpu: Gpu) -> Bools:
    """Return the formats whose weights are converted before tensor cores multiply them. Shape (n,)."""
    narrower = {word for word, activation in ACTIVATIONS.items() if BYTES[word] < BYTES[activation]}
    if gpu.rate("tensor_fp4") > gpu.rate("tensor_fp8"):  # such tensor cores take 4 bits times 8
        narrower.discard("w4a8_mxfp4_mxfp8")
    return _mapped(words, {w: float(w in narrower or _converted(w, gpu)) for w in BYTES}, 0.0) > 0


def multiplied_format(words: Texts, gpu: Gpu) -> Texts:
    """Return the format products are multiplied in: BF16 where weights become 16 bits wide. Shape (n,).

    >>> from tracetool.hardware.load import load_gpu
    >>> [str(multiplied_format(np.array(["fp8"], object), load_gpu(g))[0]) for g in ("a100-sxm", "h100-sxm")]
    ['bf16', 'fp8']
    """
    distinct, place = distinct_texts(np.asarray(words, dtype=object))
    return np.array(["bf16" if _converted(word, gpu) else word for word in distinct], dtype=object)[place]


def _converted(word: str, gpu: Gpu) -> bool:
    """Whether a GPU has no tensor cores for a format of 8 or 4 bits, so that weights become 16 bits wide."""
    return _is_missing(PRODUCT_PIPE.get(word, ""), gpu)


def _is_missing(pipe: str, gpu: Gpu) -> bool:
    """Whether tensor cores do the products of a pipe of 8 or 4 bits in 16."""
    return pipe in _NARROW and gpu.rate(pipe) <= gpu.rate("tensor_fp16")


def result_bytes(words: Texts) -> Floats:
    """Return bytes per element of a product's result. Shape (n,). [B]"""
    return _mapped(words, {k: BYTES[RESULT.get(k, k)] for k in BYTES}, 4.0)


def product_rate(words: Texts, gpu: Gpu) -> Floats:
    """Return the rate of products in each format. Shape (n,). [FLOP/clk/SM]"""
    pipes = {word: gpu.pipe_of(_pipe(word, gpu)) for word in PRODUCT_PIPE}
    rates = {word: gpu.rate(pipe) * gpu.product_share(pipe) for word, pipe in pipes.items()}
    if gpu.pipe_of("tensor_bf16") == "fp32":
        rates["bf16"] *= _EMULATED_BF16
    return _mapped(words, rates, gpu.rate("fp32") * gpu.product_share("fp32"))


def tensor_clocks(work: Work, words: Texts, gpu: Gpu) -> Floats:
    """Return the clocks that one SM's tensor cores take at their peak for the counts of rows. Shape (n,)."""
    clocks = work.tensor_flops / product_rate(words, gpu)
    if not work.tensor_fp8_flops.any():
        return np.asarray(clocks)
    narrow = work.tensor_fp8_flops / product_rate(np.array(["fp8"], dtype=object), gpu)
    return np.asarray((work.tensor_flops - work.tensor_fp8_flops) / product_rate(words, gpu) + narrow)


def _pipe(word: str, gpu: Gpu) -> str:
    """Return the pipe of a product in a format: activations of 16 bits are FP16 where no unit takes BF16."""
    pipe = PRODUCT_PIPE[word]
    is_free = pipe == "tensor_bf16" and word != "bf16" and gpu.pipe_of(pipe) != pipe
    return "tensor_fp16" if is_free else pipe


def full_rate_share(words: Texts, gpu: Gpu) -> Floats:
    """Return the share of its architecture's matrix rate that a GPU is left with, by format. Shape (n,). [1]

    >>> from tracetool.hardware.load import load_gpu
    >>> full_rate_share(np.array(["bf16", "int8"], object), load_gpu("rtx-4090")).tolist()
    [0.5, 1.0]
    """
    return _mapped(words, {word: _share_left(_pipe(word, gpu), gpu) for word in PRODUCT_PIPE}, 1.0)


def _share_left(pipe: str, gpu: Gpu) -> float:
    taken, full = gpu.pipe_of(pipe), load_architecture(gpu.architecture).shared["compute"]
    if not taken.startswith("tensor_") or taken not in full:
        return 1.0
    return min(gpu.rate(taken) / full[taken].value, 1.0)


def sustained_share(reached: Floats | float, left: Floats) -> Floats:
    """Return the share of a reduced matrix rate that kernels reach. Shape (n,). [1]

    What kernels lose to issue and barriers are clocks, beside those of the products. Where products take
    longer since the maker leaves tensor cores a part of their rate, the same clocks are a smaller share.

    Parameters
    ----------
    reached : float or array
        What they reach of the full rate. [1]
    left : array, shape (n,)
        Share of the full rate that is left; see :func:`full_rate_share`. [1]

    >>> sustained_share(0.8, np.array([1.0, 0.5, 0.25])).round(3).tolist()
    [0.8, 0.889, 0.941]
    """
    return np.asarray(reached / (1.0 - (1.0 - left) * (1.0 - reached)))


def on_tensor(words: Texts, gpu: Gpu) -> Bools:
    """Return which formats are multiplied on tensor cores of this GPU. Shape (n,)."""
    table = {word: float(_has_unit(_pipe(word, gpu), gpu)) for word in PRODUCT_PIPE}
    return _mapped(words, table, 0.0) > 0


def _has_unit(pipe: str, gpu: Gpu) -> bool:
    """Whether a product of this pipe, or of the one it is converted to, runs on tensor cores."""
    if not pipe.startswith("tensor_"):
        return False
    pipe = "tensor_fp16" if _is_missing(pipe, gpu) else pipe
    vector = {"tensor_fp64": "fp64", "tensor_tf32": "fp32", "tensor_bf16": "fp32"}.get(pipe, "fp16")
    own = gpu.flops_per_clock_sm.get(pipe, 0.0)
    # TF32 is asked for to have tensor cores, also where they are no faster, as on GeForce cards
    asked_for = pipe == "tensor_tf32" and own >= gpu.rate(vector)
    return asked_for or (pipe in _ALWAYS_ON_MATRIX and own > 0.0) or gpu.rate(pipe) > gpu.rate(vector)


def on_fp64_pipe(words: Texts) -> Bools | None:
    """Return the formats that run on the FP64 pipe where not on tensor cores, None if none. Shape (n,)."""
    double = _mapped(words, dict.fromkeys(_DOUBLE, 1.0), 0.0) > 0
    return double if double.any() else None


def vector_flops(double: Bools | None, flops: Floats) -> dict[str, Floats]:
    """Return operations outside tensor cores as counts of the pipes they run on, each of shape (n,). [FLOP]

    ``double`` are the rows on the FP64 pipe, none where it is None; see :func:`on_fp64_pipe`.
    """
    if double is None:
        return {"fp32_flops": flops}
    return {"fp32_flops": np.where(double, 0.0, flops), "fp64_flops": np.where(double, flops, 0.0)}


def packed_share(words: Texts, gpu: Gpu) -> Floats | None:
    """Return the FP32 operations whose lanes one of each format takes outside tensor cores; None: all 1. (n,)

    Vectors take two products of FP16 at once on some GPUs, for the energy of about one of FP32.

    >>> from tracetool.hardware.load import load_gpu
    >>> [packed_share(np.array(["fp16"], object), load_gpu(g)) for g in ("mi50", "gtx-1080", "h100-sxm")]
    [array([0.5]), None, None]
    """
    single = gpu.rate("fp32") * gpu.product_share("fp32")
    rate = product_rate(words, gpu)
    packed = ~on_tensor(words, gpu) & (rate > single)
    return np.where(packed, single / rate, 1.0) if packed.any() else None


def dtype_of(rows: OperatorColumns, default: str = "fp32") -> Texts:
    """Return each row's format. Shape (n,)."""
    return rows.text("dtype", default)
