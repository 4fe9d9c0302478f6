"""Tensile: the generated matrix products of rocBLAS and hipBLASLt, and their helpers.

``Cijk_{A}_{B}_{types}[_BH][_Bias...][_GG][_HA_S][_SAV][_UserArgs]_MT{M}x{N}x{K}_[MI{m}x{n}[x{k}]x{b}_]S{N|E}_{tokens}``.
C has free indices i and j and batch index k, the sum runs over l; A is not transposed as ``Ailk`` and
transposed as ``Alik``, B not as ``Bljk`` and transposed as ``Bjlk``. The macro tile's M runs along the
library's M: a row-major framework's N.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.symbols import Symbol

_LETTERS = {
    "H": "fp16", "B": "bf16", "S": "fp32", "D": "fp64", "C": "complex64", "Z": "complex128", "I": "int32",
    "I8": "int8", "4xi8": "int8", "F8": "fp8", "B8": "fp8", "F8B8": "fp8", "B8F8": "fp8", "F8N": "fp8", "B8N": "fp8",
    "F6": "fp8", "F4": "nvfp4", "X": "tf32", "F8B8N": "fp8", "B8F8N": "fp8",
}  # fmt: skip
_CODE = re.compile(r"4xi8|F8B8N?|B8F8N?|F8N?|B8N?|I8|F6|F4|[HBSDCZIX]")
_TYPES = re.compile(r"_B[jl][jl]kC?_(.*?)(?=_(?:BH|Bias|GB|GG|MT|HA|AS|SAV|UserArgs|MX|Aux|AH|SA|Act)|$)")
_TILE = re.compile(r"_MT(\d+)x(\d+)(?:x(\d+))?")
_MI = re.compile(r"_MI(\d+)x(\d+)x(\d+)(?:x(\d+))?_")
_GROUP = re.compile(r"_WG(\d+)_(\d+)_(\d+)")
_GSU = re.compile(r"_GSU(\d+)(?:_|$)")
_SK = re.compile(r"_SK(\d+)(?:_|$)")
_PGR = re.compile(r"_PGR(\d+)(?:_|$)")
_ISA = re.compile(r"_ISA([0-9a-f]+)(?:_|$)")
_VW = re.compile(r"_(?:VW|VWA)(\d+)(?:_|$)")
#: What only a matrix product's own kernel states: its macro tile, or the language it was written in (K1, KLA, KLS).
_SOLUTION = re.compile(r"_MT\d+x\d+|_S[NE]_K(?:1|LA|LS)(?:_|$)")
_HELPER = re.compile(r"_(?:GA|GB|[A-Z]+GA|[A-Z]+GB|BetaOnly)(?:_|$)")
_POST = re.compile(r"_(?:PostGSU|GSUPost)(\d*)|_Post(\d*)(?:_|$)")


def _formats(text: str) -> Attributes:
    """Read the type field: operands A and B, result, compute; one letter where all are alike."""
    types = _TYPES.search(text)
    if types is None:
        return {}
    words = [w for w in types[1].split("_") if w]
    if not words:
        return {}
    codes = _CODE.findall(words[0])
    if not codes:
        return {}
    single = len(words[0]) <= 2 and len(codes) == 2 and codes[1] in "BH" and words[0] != "HH"
    if single or len(codes) == 1:
        dtype = _LETTERS.get(codes[0])
        out: Attributes = {"dtype": dtype, "out_dtype": dtype, "acc_dtype": dtype}
    elif codes[0] in ("HB", "SB", "DB", "CB", "ZB"):
        out = {}
    else:
        codes = codes if len(codes) > 2 else [codes[0], codes[0], codes[-1]]
        dtype = _LETTERS.get(codes[0])
        out = {"dtype": dtype, "out_dtype": _LETTERS.get(codes[-2]), "acc_dtype": _LETTERS.get(codes[-1])}
        if len(codes) > 3 and _LETTERS.get(codes[1]) != dtype:
            out["b_dtype"] = _LETTERS.get(codes[1])
    if "MX" in words[1:2] or "_MX_" in text:
        out["dtype"] = "tf32"
    return out


def _read(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    tile = _TILE.search(text)
    operands = match.groupdict()
    out: Attributes = _formats(text)
    if operands.get("a"):
        out["layout"] = ("n" if match["a"][0] == "i" else "t") + ("n" if match["b"][0] == "l" else "t")
    post = None if _SOLUTION.search(text) else _POST.search(text)
    if post:
        return {
            **out,
            "family": "splitk_reduce",
            "op": "postgsu_reduce",
            "split_k": int(digits) if (digits := post[1] or post[2]) else None,
        }
    if tile is None:
        if _HELPER.search(text) and not _SOLUTION.search(text):
            return {**out, "family": "splitk_reduce", "op": "beta_only"}
        return out
    mi, group, gsu, stream, prefetch, isa, vector = (
        p.search(text) for p in (_MI, _GROUP, _GSU, _SK, _PGR, _ISA, _VW)
    )
    out.update(tile_m=int(tile[1]), tile_n=int(tile[2]), tile_k=int(tile[3]) if tile[3] else None)
    if mi:
        out["mma"] = f"{mi[1]}x{mi[2]}x{mi[3]}" if mi[4] else f"{mi[1]}x{mi[2]}"
    out["opclass"] = "tensorop" if mi else "simt"
    if group:
        out["threads"] = int(group[1]) * int(group[2]) * int(group[3])
    if stream and stream[1] != "0":
        out.update(k_sharing="stream_k", persistent=True)
    elif gsu:
        out["split_k"] = int(gsu[1]) or None  # GSU0: chosen at run time
        out["k_sharing"] = "split_k" if gsu[1] not in ("0", "1") else None
    out["stages"] = int(prefetch[1]) if prefetch and prefetch[1] != "0" else 1 if prefetch else None
    out["arch"] = f"gfx{isa[1]}" if isa and isa[1] != "000" else None
    out["vec"] = int(vector[1]) if vector else None
    before = text[: tile.start()]
    out["epilogue"] = (
        "_".join(w for w, mark in (("bias", "_Bias"), ("aux", "_Aux"), ("amax", "_Amax")) if mark in before)
        or None
    )
    if "_GG" in before:
        out.update(family="moe", op="grouped_gemm")
    return out


GRAMMAR = Grammar(
    library="tensile",
    title="matrix products of rocBLAS and hipBLASLt and their helpers",
    source="ROCm/rocm-libraries, shared/tensile/Tensile/{SolutionStructs,Common}.py: parameter abbreviations and problem types; C index notation of the Tensile wiki",
    gate=r"^(?:Custom_)?[CD]ij[k-n]*_|rocblas|hipblaslt|^gemv[tn]_|Tensile",
    rules=(
        Rule(r"(?:Custom_)?Cijk_A(?P<a>ilk|lik)C?_B(?P<b>ljk|jlk)", "gemm", "gemm", sign=_read),
        Rule(r"(?:Custom_)?Cij[k-n]*_(?=\w*(?:_MT\d+x\d+|_S[NE]_K(?:1|LA|LS)(?:_|$)))", "gemm", "gemm", sign=_read),
        Rule(r"Cijk_\w*PostGSU", "splitk_reduce", "postgsu_reduce"),
        Rule(r"Cijk_\w+", "splitk_reduce", "beta_only"),
        Rule(r"Dijk_\w*Reduction", "reduction", "bias_gradient"),
        Rule(r"(?:rocblas_)?(?:gemv|gbmv|symv|hemv|ger|dgmm)\w*", "gemv", "gemv"),
        Rule(r"(?:rocblas_)?gemm\w*", "gemm", "gemm"),
        Rule(r"(?:rocblas_)?(?:scal|axpy|copy|swap|rot)\w*", "elementwise", "blas1"),
        Rule(r"(?:rocblas_)?(?:dot|nrm2|asum|iamax|reduction)\w*", "reduction", "dot"),
        Rule(r"rocblas_?\w*?(?:trsm|trsv|tbsv|tpsv)\w*", "other", "triangular_solve"),
        Rule(r"rocblas_?(?:syrk|symm|trmm|trtri|herk)\w*", "gemm", "blas3"),
        Rule(r"(?:rocblas|hipblaslt)\w*(?:transpose|set_matrix|get_matrix|geam|[Tt]ransform)\w*", "copy", "layout_transform"),
    ),
    tokens=(
        Token(r"Cijk|Dijk", "result with free indices i, j and batch k"),
        Token(r"A(?:ilk|lik)C?", "A not transposed (ilk) or transposed (lik), C conjugated"),
        Token(r"B(?:ljk|jlk)C?", "B not transposed (ljk) or transposed (jlk), C conjugated"),
        Token(r"(?:4xi8|F8|B8|I8|[HBSDCZIX])+", "number formats: A, B, result, compute (H fp16, B bf16, S fp32, D fp64, C/Z complex, I8, F8/B8)"),
        Token(r"BH", "high-precision accumulation"),
        Token(r"GB|GG", "GB pointers per batch entry; GG grouped products of different sizes"),
        Token(r"Bias\w*|Aux\w*|HAS?|AS|SAV|SAB|SCD|AmaxD", "fused behind the product: bias, auxiliary output, activation, scales"),
        Token(r"UserArgs", "called by hipBLASLt"),
        Token(r"MT\d+x\d+(?:x\d+)?", "macro tile M x N x K; M along a framework's N"),
        Token(r"MI\d+x\d+x\d+(?:x\d+)?", "matrix instruction M x N x K x blocks; newer names leave out K; absent: vector units"),
        Token(r"S[NE]", "assertions on sizes: none, or exact"),
        Token(r"GSU(?:\d+|AMB|ASB|\w+)?", "split of K between blocks: count (0: chosen at run time), then the algorithm: SB atomics, MB many buffers and a PostGSU kernel"),
        Token(r"SK\d+", "stream-K variant; persistent where not 0"),
        Token(r"WGM?\d+(?:_\d+_\d+)?", "WG threads x y z; WGM order in which blocks walk the tiles"),
        Token(r"SU\d+|SUM\d+|SUS\d+", "staggered start along K"),
        Token(r"PGR\d+|PLR\d+", "prefetch depth into shared memory, into registers"),
        Token(r"DTL[AB]\d|DTV[AB]\d", "loads straight to shared memory (L) or registers (V)"),
        Token(r"1?LDSB\d", "one or two shared-memory buffers"),
        Token(r"MIWT\d+|MIWG\d+", "matrix instructions per wave; wave layout"),
        Token(r"ISA\w+", "architecture, gfx number; 000 any"),
        Token(r"(?:GR|LR|GLV|S)?VW[AB]?n?\d+|[GL]RVW\d+", "elements per load or store"),
        Token(r"TT\d+", "tile per thread"),
        Token(r"K\d+|KL[AS]", "kernel language: assembly or source"),
    ),
    examples={
        "Cijk_Alik_Bljk_HHS_BH_Bias_HA_S_SAV_UserArgs_MT128x96x64_MI16x16x1_SN_LDSB1_GSU0_GSUAMB_ISA942_PGR2_SK3_WG32_8_1": "gemm",
        "Cijk_Ailk_Bljk_SB_MT64x32x16_SN_K1_GSU1_TT4_4_WG16_8_1": "gemm",
        "Cijk_Ailk_Bljk_BBS_BH_UserArgs_MT64x64x32_SN_K1_PGR6_SB1_TT2_2_WG16_16_3": "gemm",
        "Cijkl_Aimlk_Bmjlk_SB_MT64x64x8_SN_K1_TT4_4_WG16_16_1": "gemm",
        "Cijk_S_PostGSU8_VW2": "splitk_reduce",
    },
    rank=12,
)  # fmt: skip
