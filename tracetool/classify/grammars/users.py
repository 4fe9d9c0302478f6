"""A user's own kernels: read by the words of their name, and said to be (``basis`` is ``words``).

Only words that name a structure count; verbs of one line of arithmetic do too. A name without any stays unknown.
"""

from __future__ import annotations

import re
from itertools import pairwise

from tracetool.classify.grammar import Attributes, Grammar, Rule, Token
from tracetool.classify.reading import typed, words
from tracetool.classify.symbols import Symbol

#: Words, or pairs of neighbouring words joined, to family and op; the first that occurs in the order listed answers.
_WORDS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("allreduce", "allgather", "alltoall", "reducescatter"), "collective", "collective"),
    (("attention", "attn", "flashattn", "flashattention", "fmha", "mla", "sdpa"), "attention", "attention"),
    (("moe", "expert", "experts"), "moe", "moe"),
    (("layernorm", "rmsnorm", "batchnorm", "groupnorm", "instancenorm", "layer_norm", "rms_norm", "batch_norm", "group_norm", "normalize", "normalization", "qknorm", "norm2d"), "norm", "norm"),
    (("softmax", "logsoftmax"), "softmax", "softmax"),
    (("spmv", "spmm", "spgemm", "csr", "csc", "coo", "ell", "sparse", "sptrsv", "sddmm"), "sparse", "sparse"),
    (("gemv", "matvec", "mat_vec", "matrixvector", "mv", "vecmat"), "gemv", "gemv"),
    (("gemm", "sgemm", "dgemm", "hgemm", "hgemm", "cgemm", "zgemm", "igemm", "matmul", "mat_mul", "mmul", "mm", "matrixmul", "matrixmult", "matrix_mul", "matrix_multiply", "matrix_multiplication", "matrix_mult", "matrixmultiply", "matmult", "mat_mult", "bmm", "addmm", "wmma", "wgmma", "linear", "fullyconnected", "syrk", "syr2k", "trmm", "symm", "dense"), "gemm", "gemm"),
    (("conv", "conv1d", "conv2d", "conv3d", "convolution", "convolve", "im2col", "depthwise", "winograd", "dgrad", "wgrad", "fprop", "deconv"), "conv", "conv_fwd"),
    (("fft", "ifft", "dft", "fftshift"), "fft", "fft"),
    (("rope", "rotary"), "rope", "rope"),
    (("quantize", "dequantize", "quant", "dequant", "quantization"), "quantize", "quantize"),
    (("sort", "bitonic", "radix", "radixsort", "mergesort", "quicksort", "topk", "oddeven", "odd_even", "partition"), "sort", "sort"),
    (("scan", "prefix", "prefixsum", "cumsum", "prescan"), "scan", "scan"),
    (("pool", "maxpool", "avgpool", "pooling", "upsample", "interpolate", "resize", "bilinear"), "pooling", "pool"),
    (("histogram", "hist", "reduce", "reduction", "sum", "dot", "dotproduct", "norm", "nrm2", "argmax", "argmin", "max", "min", "mean", "variance", "average", "std", "covar", "covariance", "corr", "correlation", "accumulate", "asum", "count"), "reduction", "reduce"),
    (("rand", "random", "rng", "curand", "dropout", "noise", "bernoulli", "lcg"), "rng", "distribution"),
    (("adam", "adamw", "sgd", "optimizer", "lamb", "adagrad"), "optimizer", "step"),
    (("sampling", "sample", "sampler", "multinomial"), "sampling", "sampling"),
    (("ssm", "mamba", "lstm", "gru", "rnn", "rwkv"), "ssm", "scan"),
    (("stencil", "jacobi", "laplacian", "laplace", "heat", "fdtd", "diffusion", "advect", "advection", "diverge", "divergence", "gradient", "grad", "hotspot", "wave", "sobel", "blur", "gaussian", "hdiff", "vadv", "poisson", "navier", "lbm", "relaxation", "seidel", "sweep", "tendencies", "flux", "halo", "update_velocity", "finite"), "stencil", "stencil"),
    (("embedding", "gather", "scatter", "index", "lookup", "spmspv", "hash", "join", "probe"), "gather_scatter", "index"),
    (("copy", "transpose", "permute", "memcpy", "memset", "fill", "cat", "concat", "cast", "pad", "reshape", "zero", "set", "init", "initialize", "transfer", "pack", "unpack", "swap", "convert", "upload", "clear", "load", "store", "rearrange", "reorder"), "copy", "copy"),
    (("add", "addition", "sub", "subtract", "mul", "multiply", "div", "divide", "axpy", "saxpy", "daxpy", "axpby", "scal", "scale", "relu", "gelu", "silu", "sigmoid", "tanh", "activation", "swiglu", "elementwise", "pointwise", "triad", "vecadd", "vectoradd", "vector_add", "vec_add", "exp", "sqrt", "square", "saxpby", "waxpby", "map", "apply", "bias", "fma", "update", "increment", "inc", "clamp", "abs", "threshold", "mandelbrot", "blend", "ax", "vadd", "plus", "minus"), "elementwise", "pointwise"),
)  # fmt: skip
_BY_WORD: dict[str, tuple[int, str, str]] = {}
for _rank, (_names, _family, _op) in enumerate(_WORDS):
    for _name in _names:
        _BY_WORD.setdefault(_name.replace("_", ""), (_rank, _family, _op))
_SILENT = re.compile(r"triton__?\d*d|kernel_?\d*$|[a-z]$|fusion|Kernel2?$|device_kernel$")
#: Names longer than this are no user's.
_LONGEST = 200


def _read(found: re.Match[str], symbol: Symbol) -> Attributes | None:
    head = symbol.head[:_LONGEST]
    if _SILENT.match(head):
        return None
    parts = [w for w in words(head) if not w.isdigit()]
    joined = [*parts, *(a + b for a, b in pairwise(parts)), head.lower()]
    hits = sorted(_BY_WORD[w] for w in joined if w in _BY_WORD)
    if not hits:
        return None
    _, family, op = hits[0]
    return {"family": family, "op": op, "dtype": typed(symbol), "basis": "words", "library": None}


GRAMMAR = Grammar(
    library="",
    title="a user's own kernel, read by its words",
    source="words of the field, each naming a structure",
    gate=r".",
    rules=(Rule(r"\w", "other", sign=_read),),
    tokens=(Token(r"\w+", "word of the name"),),
    examples={"matrixMulShared(float*, float*, float*, int)": "gemm", "jacobi_step(double*, double*, int)": "stencil", "vectorAdd": "elementwise"},
    rank=90,
)  # fmt: skip
