"""nvjet: the cuBLAS matrix products of Hopper and Blackwell.

``nvjet_[sm90_|sm100_|sm103_]{types}_{M}x{N}_{K}x{S}_{CM}x{CN}[_2cta]_{h|v}_{bz|badd|bx}[_bias][_splitK][_coopA|B][_algoN]_{ABC}``.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.symbols import Symbol

#: Letters of the type code: the first is operand A, the last the result, the last but one the accumulator.
_LETTERS = {"t": "bf16", "h": "fp16", "s": "fp32", "q": "fp8", "r": "fp8", "o": "nvfp4", "i": "int32", "b": "int8", "d": "fp64", "x": "tf32"}  # fmt: skip
_TAIL = re.compile(r"_([NT]{2,3})(?:$|_)")


def _read(match: re.Match[str], symbol: Symbol) -> Attributes:
    code, suffix = match["types"], match["rest"]
    formats = [_LETTERS.get(c) for c in code]
    layout = _TAIL.search(suffix)
    dtype = formats[0]
    if dtype == "fp32" and formats[-1] == "fp32":
        dtype = "tf32"
    return {
        "dtype": dtype,
        "b_dtype": formats[1] if len(code) > 3 and formats[1] != formats[0] else None,
        "acc_dtype": formats[-2] if len(code) > 2 else None,
        "out_dtype": formats[-1],
        "tile_m": int(match["m"]),
        "tile_n": int(match["n"]),
        "tile_k": int(match["k"]),
        "stages": int(match["s"]),
        "cluster": f"{match['cm']}x{match['cn']}" if match["cm"] else None,
        "ctas_per_mma": 2 if "_2cta" in suffix else 1,
        "beta": "add" if "_badd" in suffix else "zero" if "_bz" in suffix else None,
        "epilogue": "bias" if "_bias" in suffix else None,
        "k_sharing": "split_k" if "_splitK" in suffix else None,
        "split_k": None if "_splitK" in suffix else 1,
        "layout": layout[1] if layout else None,
        "arch": match["arch"] or "sm90",
        "opclass": "tensorop",
        "algo": "block_scaled" if "_Avec" in suffix else None,
    }


GRAMMAR = Grammar(
    library="cublas",
    title="nvjet: cuBLAS matrix products of Hopper and Blackwell",
    source="names and launches in public traces; shared memory equals (M + N) * K * bytes * stages within a few kB",
    gate=r"^nvjet",
    rules=(
        Rule(
            r"nvjet_(?:(?P<arch>sm\d+)_)?(?P<types>[a-z]+)_(?P<m>\d+)x(?P<n>\d+)_(?P<k>\d+)x(?P<s>\d+)(?:_(?P<cm>\d+)x(?P<cn>\d+))?(?P<rest>.*)",
            "gemm", "gemm", sign=_read,
        ),
        Rule(r"nvjet", "gemm", "gemm"),
    ),
    tokens=(
        Token(r"nvjet", "generated matrix product of cuBLAS for Hopper and later"),
        Token(r"sm\d+", "architecture; absent on Hopper"),
        Token(r"[thsqroibdx]{3,5}", "types: first letter operand A, last but one accumulator, last result (t bf16, h fp16, s fp32, q e4m3, o fp4)"),
        Token(r"\d+x\d+", "in order: block tile M x N (M along a framework's N), K step x stages (K is 128 bytes), cluster M x N"),
        Token(r"2cta", "one matrix instruction spans two blocks, which share the B tile"),
        Token(r"[hv]", "order in which blocks walk the tiles"),
        Token(r"bz|badd|bx", "bz: beta is zero, C is not read; badd: C is read and added"),
        Token(r"bias", "bias fused behind the product"),
        Token(r"splitK", "K shared between blocks; a splitKreduce kernel follows"),
        Token(r"coop[AB]", "two consumer warp groups share that operand"),
        Token(r"algo\d+", "variant"),
        Token(r"[AB]vec\d+\w+", "block-scaled operand: elements per scale and the scale's format"),
        Token(r"[NT]{3}", "op(A), op(B), layout of C"),
    ),
    examples={
        "nvjet_tst_192x192_64x4_1x2_h_bz_coopB_TNN": "gemm",
        "nvjet_sm100_hss_64x32_64x16_4x1_v_bz_splitK_TNT": "gemm",
    },
    rank=10,
)  # fmt: skip
