"""Composable Kernel and ck_tile: AMD's templates for products, convolutions, attention and norms.

``kernel_gemm_xdl_cshuffle_v3<GridwiseGemm..<..., BlockSize, M, N, K, ...>>``: the block size is followed by the block tile.
Instances in tuning tables: ``{a8w8|bf16...}_{threads}x{M}x{N}x{K}_{mfma}x{mfma}_...``.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.symbols import Symbol

_BLOCK = re.compile(r", (64|128|192|256|384|512), (\d{2,3}), (\d{2,3}), (\d{2,3}), (?:\d+, ){0,3}\d")
_TILE = re.compile(r"TileGemmShape<(?:ck_tile::)?sequence<(\d+), (\d+), (\d+)>")
_FMHA = re.compile(r"TileFmha\w*Shape<(?:ck_tile::)?sequence<([\d, ]+)>")
_SKETCH_TILE = re.compile(r"TileGemmShape, sequence, (\d+), (\d+), (\d+)")
_TYPES = (
    ("_Float16", "fp16"),
    ("half", "fp16"),
    ("DF16_", "fp16"),
    ("bf16", "bf16"),
    ("unsigned short", "bf16"),
    ("ushort", "bf16"),
    ("f8", "fp8"),
    ("_BitInt(8)", "fp8"),
    ("signed char", "int8"),
    ("int8", "int8"),
    ("float", "fp32"),
    ("double", "fp64"),
)
_FLAGS = re.compile(r"(?:Causal|Mask<true|SimplifiedGenericAttentionMask<true|MASK)")


def _dtype(text: str) -> str | None:
    at = [(text.find(word), name) for word, name in _TYPES if word in text]
    sixteen = [(p, n) for p, n in at if n != "fp32"]
    return min(sixteen or at)[1] if at else None


def _instance(match: re.Match[str], symbol: Symbol) -> Attributes:
    kind = match["kind"]
    sizes = re.search(r"_(\d+)x(\d+)x(\d+)x(\d+)(?=_)", symbol.head[match.end("kind") - 1 :])
    tile = re.search(r"_(\d+)x(\d+)x(\d+)_\d+x\d+x\d+_", symbol.head)
    out: Attributes = {
        "dtype": {"a8w8": "fp8" if "blockscale" in symbol.head else None, "a4w4": "mxfp4", "bf16": "bf16", "f16": "fp16", "a16w16": "bf16"}.get(kind),
        "algo": "block_scaled" if "blockscale" in symbol.head else None,
        "op": "batched_gemm" if "batched" in symbol.head else "gemm",
    }  # fmt: skip
    if "cktile" in symbol.head and tile:
        out.update(tile_m=int(tile[1]), tile_n=int(tile[2]), tile_k=int(tile[3]))
    elif sizes:
        out.update(threads=int(sizes[1]), tile_m=int(sizes[2]), tile_n=int(sizes[3]), tile_k=int(sizes[4]))
    return out


def _template(match: re.Match[str], symbol: Symbol) -> Attributes:
    inside = symbol.inside or symbol.scope
    low = symbol.head.lower()
    text = low if low not in ("kentry", "kernel") else inside[:4000].lower()
    out: Attributes = {"dtype": _dtype(inside[:4000])}
    family, op = "other", "ck"
    for pattern, answer in (
        (r"fmha.*bwd|bwd.*fmha", ("attention", "flash_bwd")), (r"fmha|attention", ("attention", "flash_fwd")),
        (r"rmsnorm", ("norm", "rms_norm")), (r"layernorm|batchnorm|groupnorm|normalization|welford", ("norm", "norm")), (r"softmax", ("softmax", "softmax")),
        (r"moe.?sorting|topk.?softmax|moe_smoothquant", ("moe", "routing")), (r"moe|groupedgemm|grouped_gemm|fusedmoe", ("moe", "grouped_gemm")),
        (r"conv.*(?:bwd|backward).?weight|conv.*wrw", ("conv", "conv_bwd_weight")), (r"conv.*(?:bwd|backward)", ("conv", "conv_bwd_data")), (r"conv", ("conv", "conv_fwd")),
        (r"gemm|matmul|contraction|tsmm", ("gemm", "gemm")), (r"smoothquant|quant", ("quantize", "quantize")), (r"reduce", ("reduction", "reduce")),
        (r"elementwise|transpose|permute|im2col|copy", ("elementwise", "pointwise")), (r"pool", ("pooling", "pool")),
    ):  # fmt: skip
        if re.search(pattern, text):
            family, op = answer
            break
    out.update(family=family, op=op)
    tile = _TILE.search(inside) or _SKETCH_TILE.search(inside)
    if family in ("gemm", "moe", "conv"):
        block = _BLOCK.search(inside)
        if tile:
            out.update(tile_m=int(tile[1]), tile_n=int(tile[2]), tile_k=int(tile[3]))
        elif block:
            out.update(
                threads=int(block[1]), tile_m=int(block[2]), tile_n=int(block[3]), tile_k=int(block[4])
            )
        if family == "conv":
            out["direction"] = op.removeprefix("conv_")
    fmha = _FMHA.search(inside)
    if fmha:
        sizes = [int(x) for x in fmha[1].split(",")]
        if len(sizes) >= 6:
            out.update(tile_m=sizes[0], tile_n=sizes[1], head_dim=sizes[5])
        out["causal"] = True if _FLAGS.search(inside) else None
    return out


GRAMMAR = Grammar(
    library="composable_kernel",
    title="Composable Kernel and ck_tile",
    source="ROCm/composable_kernel, include/ck/tensor_operation/gpu/grid and include/ck_tile/ops; instance names of ROCm/aiter gemm codegen",
    gate=r"(?:^|::)ck(?:_tile)?::|^kernel_\w*(?:xdl|dl|wmma|cshuffle|normalization|elementwise|reduce|welford|grouped|batched|softmax|contraction)|(?:^|::)kentry$|^(?:a8w8|a4w4|bf16|f16|a16w16)_\w*\d+x\d+x\d+",
    rules=(
        Rule(r"(?P<kind>a8w8|a4w4|a16w16|bf16|f16)_", "gemm", sign=_instance),
        Rule(r"(?!kernel_cutlass_)\w+", "other", sign=_template),  # those are CUTLASS's, in Python
    ),
    tokens=(
        Token(r"xdl|wmma|dl", "matrix cores of CDNA, of RDNA, or dot instructions"),
        Token(r"tsmm", "product of a tall and skinny matrix, K split between blocks"),
        Token(r"cshuffle\w*", "results pass through shared memory for wide stores"),
        Token(r"a8w8|a4w4|bf16", "formats of activations and weights"),
        Token(r"\d+x\d+x\d+x\d+", "threads, then block tile M x N x K"),
        Token(r"blockscale|rowwise|batched|bpreshuffle", "scales per block or row, batch, weights reordered beforehand"),
        Token(r"intrawave|interwave|v\d", "pipeline schedule and version"),
        Token(r"kentry", "entry of ck_tile: the kernel is its argument"),
    ),
    examples={
        "a8w8_rowwise_256x64x128x128_16x16_2x4_8x32x1_8x32x1_1x32x1x8_8x8x1_1x1_intrawave_v3": "gemm",
        "void kernel_tsmm_dl_v1r3<GridwiseTsmmDl_km_kn_mn, _Float16, _Float16, (InMemoryDataOperationEnum)1>": "gemm",
        "void ck_tile::kentry<2, ck_tile::Layernorm2dFwd<ck_tile::Layernorm2dFwdPipelineOnePass<float>>>(float)": "norm",
    },
    rank=13,
)  # fmt: skip
