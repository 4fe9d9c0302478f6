"""cuBLAS: the named tiled kernels (volta_, turing_, ampere_ ... _gemm_), and the small template kernels.

``{arch}_[{in}_]{acc}{mma}gemm_[{out}_]{M}x{N}[_slicedAxB][_ldgN][_relu][_stages_{K}x{S}]_{layout}``. The first tile
number runs along the library's M, which is a row-major framework's N: cuBLAS is column-major, so frameworks
swap the operands. ``sliced`` shares K between warps of one block (no extra blocks), ``splitK`` between blocks.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import number_format
from tracetool.kernels.symbols import Symbol

_ACCUMULATORS = {"s": "fp32", "h": "fp16", "d": "fp64", "i": "int32", "c": "complex64", "z": "complex128"}
_MMA = {
    "884": "8x8x4", "1688": "16x8x8", "16816": "16x8x16", "16832": "16x8x32", "8816": "8x8x16", "8832": "8x8x32",
    "1684": "16x8x4", "16864": "16x8x64", "161616": "16x16x16",
}  # fmt: skip
_STAGES = re.compile(r"_stages_(\d+)x(\d+)")
_SLICED = re.compile(r"_sliced(\d+)x(\d+)")
_LAYOUT = re.compile(r"_([nt]{2})(?:_|$)")
_LOADS = re.compile(r"_ldg(\d+)")


def _tiled(match: re.Match[str], symbol: Symbol) -> Attributes:
    suffix, acc = match["rest"], _ACCUMULATORS[match["acc"][-1]]
    stages, sliced, layout, loads = (p.search(suffix) for p in (_STAGES, _SLICED, _LAYOUT, _LOADS))
    out = number_format(match["out"])
    dtype = number_format(match["a"]) or number_format(match["mid"])
    if dtype is None:
        dtype = {"int32": "int8"}.get(acc) or (out if match["mma"] and out != "fp32" else None)
        dtype = dtype or ("tf32" if match["mma"] and acc == "fp32" else acc)
    return {
        "dtype": dtype,
        "acc_dtype": acc,
        "out_dtype": out or ("fp32" if dtype == "tf32" else acc if not match["a"] else dtype),
        "mma": _MMA.get(match["mma"] or ""),
        "arch": match["arch"],
        "tile_m": int(match["m"]),
        "tile_n": int(match["n"]),
        "tile_k": int(stages[1]) if stages else None,
        "stages": int(stages[2]) if stages else None,
        "layout": layout[1] if layout else None,
        "align": int(loads[1]) if loads else None,
        "epilogue": "relu" if "_relu" in suffix else None,
        "k_sharing": "split_k" if "splitK" in suffix else "slice_k" if sliced else None,
        "opclass": "tensorop" if match["mma"] and match["mma"] in _MMA else "simt",
        "op": "gemm_3m" if match["acc"].startswith("g") else "gemm",
        "library": "tensorrt" if symbol.head.startswith("trt_") else "cublas",
    }


def _typed(match: re.Match[str], symbol: Symbol) -> Attributes:
    """Read the first argument that is a number format."""
    kind = match.groupdict().get("t")
    dtype = next(
        (d for d in map(number_format, symbol.arguments) if d and not d.startswith(("int", "bool"))), None
    )
    return {
        "dtype": dtype or _ACCUMULATORS.get(kind or ""),
        "layout": (match.groupdict().get("layout") or "").lstrip("2") or None,
    }


def _reduce(match: re.Match[str], symbol: Symbol) -> Attributes:
    formats = [
        d for d in map(number_format, symbol.arguments) if d in ("fp32", "fp16", "bf16", "fp64", "int32")
    ]
    return {
        "dtype": "fp32" if "fp32" in formats else formats[0] if formats else None,
        "out_dtype": formats[-1] if formats else None,
    }


GRAMMAR = Grammar(
    library="cublas",
    title="cuBLAS and cuBLASLt kernels of Kepler to Ampere, gemv and helpers",
    source="names in public traces; CUTLASS naming (NVIDIA/cutlass, python/cutlass_library); grid checked on 30,000 fp32 launches",
    gate=r"gemm|epilogue::|gemv|splitKreduce|cublas|dot_kernel|reduce_1Block|(?:^|::)(?:axpy|scal|nrm2|asum|iamax|ger|trsm|trsv|syrk|symm|trmm|symv)_?\w*kernel",
    rules=(
        Rule(
            r"(?:trt_|cutlass_cudnn_|cudnn_(?:infer_|train_)?|cask_\w*?)?(?P<arch>kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell|sm\d{2,3})_"
            r"(?:(?P<a>fp16|bf16|tf32|fp32|int8|i8|fp64|fp8|e4m3|e5m2)_)?(?P<acc>g?[shdicz])(?P<mma>\d+)?gemm(?P<mid>)"
            r"(?:_(?P<out>fp16|bf16|tf32|fp32|int8|int32|i8|fp64))?_(?P<m>\d+)x(?P<n>\d+)(?P<rest>.*)",
            "gemm", sign=_tiled,
        ),
        Rule(r"splitKreduce", "splitk_reduce", "splitk_reduce", sign=_reduce),
        Rule(r"gemv(?P<layout>2?[TN]|NSP)?(?:_kernel)?", "gemv", "gemv", sign=_typed),
        Rule(r"(?:\w+::)*gemvx?::kernel", "gemv", "gemv", where="scope", sign=_typed),
        Rule(r"(?:\w+::)*(?:gemv|gbmv|symv|hemv|tpmv|ger)\w*", "gemv", "gemv", where="scope", sign=_typed),
        Rule(r"gemmSN_(?P<layout>[TN]{2})", "gemm", "gemm", sign=_typed),
        Rule(r"gemmk1|gemm_kernel\dx\d|[sdhcz]?gemm_largek|gemm_?Small", "gemm", "gemm", sign=_typed),
        Rule(r"(?P<t>[sdhcz])?gemm(?:Ex)?(?:_kernel)?(?:_\w+)?$", "gemm", "gemm", sign=_typed),
        Rule(r"magma_(?P<t>[sdcz])?gemm", "gemm", "gemm", sign=_typed, fixed={"library": "magma"}),
        Rule(r"dot_kernel|reduce_1Block|nrm2|asum|iamax", "reduction", "dot", sign=_typed),
        Rule(r"scal_kernel|axpy|copy_kernel|swap_kernel|rot_kernel", "elementwise", "blas1", sign=_typed),
        Rule(r"(?:\w+_)?(?:trsm|trsv)", "other", "triangular_solve", sign=_typed),
        Rule(r"(?:syrk|symm|trmm|herk|syr2k|potrf|getrf)", "gemm", "blas3", sign=_typed),
        Rule(r"(?:cublasLt::)?epilogue::impl", "elementwise", "epilogue", where="scope", sign=_typed),
        Rule(r"cublasLt::epilogue|cublasLt::\w*[Bb]ias\w*|cublasLt::\w*[Ee]pilogue", "elementwise", "epilogue", where="scope", sign=_typed),
        Rule(r"cublasLt::\w*[Tt]ransform\w*|cublas\w*[Tt]ranspose\w*", "copy", "layout_transform", where="scope", sign=_typed),
        Rule(r"cublas_gemm(?:_\d+)*$", "gemm", "gemm"),
        Rule(r"(?:\w+::)*cublas\w*::gemm::\w+", "gemm", "gemm", where="scope", sign=_typed),
    ),
    tokens=(
        Token(r"kepler|maxwell|pascal|volta|turing|ampere|hopper|sm\d+", "architecture the kernel was compiled for; it may run on a later one"),
        Token(r"fp16|bf16|tf32|int8|fp32", "number format: before the product the input, after it the output"),
        Token(r"g?[shdicz]\d*gemm", "accumulator letter (s fp32, h fp16, d fp64, i int32, c/z complex, g three-product complex) and matrix instruction (884 = 8x8x4, 1688 = 16x8x8, 16816 = 16x8x16)"),
        Token(r"\d+x\d+", "block tile: library's M (framework's N) x library's N (framework's M)"),
        Token(r"sliced\d+x\d+", "K shared by warps inside one block: no extra blocks, no extra DRAM traffic"),
        Token(r"ldg\d+", "elements per global load"),
        Token(r"f2f", "epilogue converts the number format"),
        Token(r"stages|\d+x\d+", "K step x buffers"),
        Token(r"splitK", "K shared between blocks; a reduction follows"),
        Token(r"relu", "activation slot of the epilogue, used or not"),
        Token(r"[nt]{2}", "op(A)op(B) in the column-major view"),
    ),
    examples={
        "ampere_sgemm_128x64_tn": "gemm",
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn": "gemm",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half, float, __half, true, true, false>(cublasLt::cublasSplitKParams<float>)": "splitk_reduce",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>(int)": "gemv",
    },
    rank=20,
)  # fmt: skip
