"""Words of the field, each naming a structure: how a user's own kernel is read when no library's grammar knows it."""

from __future__ import annotations

import re
from itertools import pairwise

from tracetool.classify.reading import words

#: Words, or pairs of neighbouring words joined, to family and op; the first listed that occurs answers.
_WORDS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("allreduce", "allgather", "alltoall", "reducescatter"), "collective", "collective"),
    (("attention", "attn", "flashattn", "flashattention", "fmha", "mla", "sdpa"), "attention", "attention"),
    (("moe", "expert", "experts"), "moe", "moe"),
    (("layernorm", "rmsnorm", "batchnorm", "groupnorm", "instancenorm", "layer_norm", "rms_norm", "batch_norm", "group_norm", "normalize", "normalization", "qknorm", "norm2d"), "norm", "norm"),
    (("softmax", "logsoftmax"), "softmax", "softmax"),
    (("sptrsv", "sptrsm", "csrsv", "csrsm"), "sparse", "triangular_solve"),
    (("trsm", "trsv", "trisolve", "triangular_solve", "triangular_solver", "lower_solve", "upper_solve", "solve_lower", "solve_upper", "forward_substitution", "backward_substitution", "back_substitution"), "other", "triangular_solve"),
    (("spmv", "spmm", "spgemm", "csr", "csc", "coo", "ell", "sparse", "sddmm"), "sparse", "sparse"),
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
    (("stencil", "jacobi", "laplacian", "laplace", "heat", "fdtd", "diffusion", "advect", "advection", "diverge", "divergence", "gradient", "grad", "hotspot", "wave", "sobel", "blur", "gaussian", "hdiff", "vadv", "poisson", "navier", "lbm", "relaxation", "seidel", "sweep", "tendencies", "flux", "halo", "update_velocity", "finite", "fd"), "stencil", "stencil"),
    (("embedding", "gather", "scatter", "index", "lookup", "spmspv", "hash", "join", "probe"), "gather_scatter", "index"),
    (("copy", "transpose", "permute", "memcpy", "memset", "fill", "cat", "concat", "cast", "pad", "reshape", "zero", "set", "init", "initialize", "transfer", "pack", "unpack", "swap", "convert", "upload", "clear", "load", "store", "rearrange", "reorder"), "copy", "copy"),
    (("add", "addition", "sub", "subtract", "mul", "multiply", "div", "divide", "axpy", "saxpy", "daxpy", "axpby", "scal", "scale", "relu", "gelu", "silu", "sigmoid", "tanh", "activation", "swiglu", "elementwise", "pointwise", "triad", "vecadd", "vectoradd", "vector_add", "vec_add", "exp", "sqrt", "square", "saxpby", "waxpby", "map", "apply", "bias", "fma", "update", "increment", "inc", "clamp", "abs", "threshold", "mandelbrot", "blend", "ax", "vadd", "plus", "minus"), "elementwise", "pointwise"),
)  # fmt: skip
_BY_WORD: dict[str, tuple[int, str, str]] = {}
for _rank, (_names, _family, _op) in enumerate(_WORDS):
    for _name in _names:
        _BY_WORD.setdefault(_name.replace("_", ""), (_rank, _family, _op))
#: Words that say what a kernel does only as its first one, the verb: a set of levels is no copy.
_VERBS = frozenset(("set",))
_SILENT = re.compile(r"triton__?\d*d|kernel_?\d*$|[a-z]$|fusion|Kernel2?$|device_kernel$")
#: Names longer than this are no user's.
_LONGEST = 200


def by_words(name: str) -> tuple[str, str] | None:
    """Return family and op a plain name's words tell, None where they tell nothing.

    >>> by_words("matrixMulShared"), by_words("jacobi_step"), by_words("foo")
    (('gemm', 'gemm'), ('stencil', 'stencil'), None)
    """
    if _SILENT.match(name):
        return None
    head = name[:_LONGEST]
    parts = [w for w in words(head) if not w.isdigit()]
    parts = parts[:1] + [w for w in parts[1:] if w not in _VERBS]
    joined = [*parts, *(a + b for a, b in pairwise(parts)), head.lower()]
    hits = sorted(_BY_WORD[w] for w in joined if w in _BY_WORD)
    return hits[0][1:] if hits else None
