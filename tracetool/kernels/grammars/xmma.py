"""xmma: the generated tensor-core products and convolutions that cuBLAS, cuDNN and TensorRT share.

``{smXX}_xmma_{kind}_{IN}{OUT}_{MMA}{ACC}_{EPI}_{layout}_tilesize{M}x{N}x{K}_stage{S}_warpsize{A}x{B}x{C}...``. The pairs
read (input, output) (matrix operand, accumulator) (epilogue): ``f32f32_tf32f32_f32`` is fp32 in memory, tf32 in the unit.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import number_format
from tracetool.kernels.symbols import Symbol

_PAIR = r"(?:bf16|tf32|f16|f32|f64|e4m3|e5m2|i8|u8|i32|i4)"
_TYPES = re.compile(rf"_({_PAIR})({_PAIR})_({_PAIR})({_PAIR})(?:_({_PAIR}))?")
_PLAIN_TYPES = re.compile(rf"_({_PAIR})({_PAIR})_({_PAIR})(?=_)")
_TILE = re.compile(r"_tilesize(\d+)x(\d+)x(\d+)")
_STAGE = re.compile(r"_stage(\d+)")
_WARPS = re.compile(r"_warpsize(\d+)x(\d+)x(\d+)")
_GROUPS = re.compile(r"_warpgroupsize(\d+)x(\d+)x(\d+)")
_MMA = re.compile(r"_tensor(\d+x\d+x\d+)")
_GEMM_LAYOUT = re.compile(r"_([nt]{2})_([nt])(?:_|$)")
_CONV_LAYOUT = re.compile(r"_(n[cdhwx0-9]+)(?:krsc|kcrs|ctrs|[kcrst0-9x]*)_(n[cdhwx0-9]+)(?:_|$)")
_ALIGN = re.compile(r"_aligna(\d+)")
_CONV_GROUPS = re.compile(r"_g(\d+)_")
_SEGMENT = re.compile(r"_segment_k_(on|off)")
_DIRECTIONS = {"fprop": "fwd", "dgrad": "bwd_data", "wgrad": "bwd_weight", "deconv": "bwd_data"}


def _read(match: re.Match[str], symbol: Symbol) -> Attributes:
    text, kind = symbol.head, match["kind"]
    types, tile, stage, warps, groups, mma, align, shared = (
        p.search(text) for p in (_TYPES, _TILE, _STAGE, _WARPS, _GROUPS, _MMA, _ALIGN, _SEGMENT)
    )
    out: Attributes = {
        "arch": match["arch"],
        "library": "tensorrt"
        if text.endswith("_trt") or text.startswith("trt")
        else "cublas"
        if kind.startswith("gemm")
        else "cudnn",
        "mma": mma[1] if mma else None,
        "align": int(align[1]) if align else None,
        "stages": int(stage[1]) if stage else None,
        "opclass": "tensorop" if "_tensor" in text or "warpgroup" in text else None,
    }
    if tile:
        out.update(tile_m=int(tile[1]), tile_n=int(tile[2]), tile_k=int(tile[3]))
    if warps:
        out["warps"] = int(warps[1]) * int(warps[2]) * int(warps[3])
    elif groups:
        out["warps"] = 4 * int(groups[1]) * int(groups[2]) * int(groups[3])
        out["persistent"] = True  # Hopper's kernels take tiles in turn: seen with fewer blocks than tiles
    if types:
        memory, operand = number_format(types[1]), number_format(types[3])
        out.update(
            dtype="tf32" if operand == "tf32" else memory,
            out_dtype=number_format(types[2]),
            acc_dtype=number_format(types[4]),
        )
        if out["out_dtype"] == "tf32":
            out["out_dtype"] = "fp32"
    elif plain := _PLAIN_TYPES.search(text):
        out.update(
            dtype=number_format(plain[1]),
            out_dtype=number_format(plain[2]),
            acc_dtype=number_format(plain[3]),
        )
    if "split_k" in text or "splitK" in text:
        out["k_sharing"] = "split_k"
    elif shared and shared[1] == "on":
        out["k_sharing"] = "segment_k"
    if kind.startswith("gemm"):
        layout = _GEMM_LAYOUT.search(text)
        out.update(
            family="gemm",
            op="gemm",
            layout=layout[1] if layout else None,
            out_layout=layout[2] if layout else None,
        )
    else:
        layout, count = _CONV_LAYOUT.search(text), _CONV_GROUPS.search(text)
        direction = next((v for k, v in _DIRECTIONS.items() if kind.startswith(k)), "fwd")
        out.update(
            op="winograd" if "winograd" in text else f"conv_{direction}", direction=direction,
            algo="winograd" if "winograd" in text else "implicit_gemm",
            layout=layout[1] if layout else None, out_layout=layout[2] if layout else None,
            groups=int(count[1]) if count else None,
        )  # fmt: skip
    return out


def _sums(match: re.Match[str], symbol: Symbol) -> Attributes:
    """The kernel that follows one with ``segment_k_on``: it adds up what several blocks found of one tile."""
    types = _TYPES.search(symbol.head)
    return {
        "library": "cudnn" if "cudnn" in symbol.head else "cublas",
        "dtype": number_format(types[4]) if types else None,
        "out_dtype": number_format(types[2]) if types else None,
    }


GRAMMAR = Grammar(
    library="cublas",
    title="xmma kernels of cuBLAS, cuDNN and TensorRT",
    source="names in public traces; the pair order is consistent with every name seen, the vendor does not document it",
    gate=r"_xmma_",
    rules=(
        Rule(r"(?:trt_|cudnn_(?:infer_|train_)?)?(?P<arch>sm\d+|[a-z]+)_xmma_(?:\w+?_)??(?P<kind>pooling)", "pooling", "pool"),
        Rule(r"(?:trt_|cudnn_(?:infer_|train_)?)?sm\d+_xmma_\w+_execute_split_k_kernel\w*", "splitk_reduce", "splitk_reduce", sign=_sums),
        Rule(r"(?:trt_|cudnn_(?:infer_|train_)?)?(?P<arch>sm\d+|[a-z]+)_xmma_(?:\w+?_)??(?P<kind>gemm|fprop|dgrad|wgrad|deconv|conv)", "conv", sign=_read),
    ),
    tokens=(
        Token(r"sm\d+", "architecture the kernel was compiled for"),
        Token(r"xmma", "generated tensor-core kernel"),
        Token(r"gemm|fprop|dgrad|wgrad", "matrix product, or convolution forward, gradient of the data, gradient of the weights"),
        Token(r"implicit|indexed", "implicit GEMM; indexed: offsets precomputed"),
        Token(_TYPES.pattern.replace("_", "", 1), "(input, output)(matrix operand, accumulator)(epilogue)"),
        Token(r"[nt]{2}|[nt]", "op(A)op(B), then layout of C"),
        Token(r"tilesize\d+x\d+x\d+", "block tile M x N and K step"),
        Token(r"segment_k_(?:on|off)", "whether several blocks share the K of one tile"),
        Token(r"execute_split_k", "adds up the parts of tiles whose K was shared; a kernel of its own"),
        Token(r"stage\d+", "buffers of the load pipeline"),
        Token(r"warpsize\d+x\d+x\d+", "warps of a block along M, N, K"),
        Token(r"warpgroupsize\d+x\d+x\d+", "consumer warp groups of 128 threads along M, N, K; a producer group is added"),
        Token(r"tensor\d+x\d+x\d+", "matrix instruction M x N x K"),
        Token(r"g\d+", "convolution groups"),
        Token(r"align[ac]\d+", "elements the operand must be aligned to"),
    ),
    examples={
        "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x64x64_stage3_warpsize2x2x1_tensor16x8x16_kernel": "gemm",
        "sm90_xmma_wgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize1x1x1_g1_execute_segment_k_off_kernel__5x_cudnn": "conv",
        "sm90_xmma_wgrad_indexed_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize64x64x64_warpgroupsize1x1x1_g1_execute_split_k_kernel__5x_cudnn": "splitk_reduce",
    },
    rank=11,
)  # fmt: skip
