"""CUTLASS 2.x, 3.x and 4.x: generated names inside ``Kernel<...>``, template policies, and CuTe DSL names.

2.x ``cutlass[_80]_tensorop_[in_]{acc}{mma}{gemm|fprop|dgrad|wgrad}_[out_]{M}x{N}_{K}x{S}_{layout}_align{n}``; 3.x
``cutlass3x_sm90_tensorop_{acc}{MxNxK}gemm_{A}_{B}_{acc}_{C}_{D}_{MxNxK}[_{cluster}]_{stages}_{layout}_align{n}_{schedule}``.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import number_format
from tracetool.kernels.symbols import Symbol

_FORMAT = r"(?:f16|bf16|tf32|f32|f64|s8|u8|s4|u4|s32|i8|e4m3|e5m2|b1|cf32|cf64)"
_FLAT2 = re.compile(
    r"cutlass_(?:(?P<arch>\d{2,3})_)?(?P<opclass>simt|(?:[a-z0-9]{1,12}_){0,2}tensorop)_(?:(?P<a>"
    + _FORMAT
    + r")_)?(?P<acc>g?[a-z])(?P<mma>\d{1,6})?(?P<kind>[a-z_]{0,20}?gemm|fprop|dgrad|wgrad|[a-z]{0,8}syrk|[a-z]{0,8}trmm)"
)
_TILE2 = re.compile(r"_(\d+)x(\d+)_(\d+)x(\d+)(?:_|$)")
_OUT2 = re.compile(rf"_({_FORMAT})_(?:\d+x\d+|\w+?_\d+x\d+)")
_LAYOUT = re.compile(r"_([nt]{2}[nt]?|nhwc|ndhwc|nchw)(?:_|$)")
_ALIGN = re.compile(r"_align(\d+)")
_FLAT3 = re.compile(
    r"cutlass3x_(?P<arch>sm\d+)_(?P<opclass>[a-z]{0,12}tensorop|simt)_"
    r"(?P<head>[a-z0-9]{0,40}?(?:gemm|fprop|dgrad|wgrad)[a-z0-9]{0,20}?)_(?P<rest>\w{1,600})"
)
_MMA3 = re.compile(r"\d+x\d+x\d+")
_SCHEDULES = ("pingpong", "cooperative", "stream_k", "warpspecialized", "2sm", "1sm")
_C = r"(?:cute::|anon::)*(?:C|Int|_)<(\d+)>"
_TUPLE = re.compile(rf"(?:tuple<)?{_C}, {_C}, {_C}")
_BARE = re.compile(r"(?:Shape|tuple)<(?:cute::)?_(\d+), (?:cute::)?_(\d+), (?:cute::)?_(\d+)")
_SHAPE2 = re.compile(r"GemmShape<(\d+), (\d+), (\d+)>")
_SKETCHED = re.compile(r"\bC, (\d+), (?:C, )?(\d+), (?:C, )?(\d+)\b")
_SKETCHED_SHAPE = re.compile(r"\bGemmShape, (\d+), (\d+), (\d+)\b")
_POLICY = re.compile(r"Mainloop\w*<(\d+)")
_ATTENTION = re.compile(r"FlashAttn|Fmha|fmha|Attention|Mla\b")
_CONV = re.compile(r"conv::|Conv[123]d|ImplicitGemmConvolution|DirectConvolution")
_GROUPED = re.compile(r"[Gg]roup(?:ed|Problem)|GemmGrouped|MoeFC|moe")
_DIRECTIONS = {"fprop": "fwd", "dgrad": "bwd_data", "wgrad": "bwd_weight"}
_MMA = {
    "884": "8x8x4", "1688": "16x8x8", "16816": "16x8x16", "16832": "16x8x32", "16864": "16x8x64", "8816": "8x8x16", "8832": "8x8x32",
    "1684": "16x8x4", "168256": "16x8x256", "161616": "16x16x16",
}  # fmt: skip
_ACC = {"s": "fp32", "h": "fp16", "d": "fp64", "i": "int32", "c": "complex64", "z": "complex128"}


def _family_and_direction(kind: str) -> Attributes:
    for word, direction in _DIRECTIONS.items():
        if kind.endswith(word):
            return {
                "family": "conv",
                "op": f"conv_{direction}",
                "direction": direction,
                "algo": "implicit_gemm",
            }
    return {"family": "gemm", "op": "sparse_gemm" if kind.startswith("sp") or "spgemm" in kind else "gemm"}


def _flat2(match: re.Match[str], text: str) -> Attributes:
    tile, layout, align = (p.search(text, match.end("kind")) for p in (_TILE2, _LAYOUT, _ALIGN))
    shown = _OUT2.match(text, match.end("kind"))
    if shown is None and tile:
        shown = re.search(rf"_({_FORMAT})$", text[match.end("kind") : tile.start()])
    acc = _ACC.get(match["acc"][-1], "fp32")
    out_dtype = number_format(shown[1]) if shown else None
    dtype = number_format(match["a"]) or out_dtype
    if match["acc"][-1] == "i":
        dtype = "int8" if dtype in (None, "int32") else dtype
    elif dtype is None:
        dtype = "tf32" if match["mma"] and "tensorop" in match["opclass"] and acc == "fp32" else acc
    out: Attributes = {
        **_family_and_direction(match["kind"]), "dtype": dtype, "acc_dtype": acc, "opclass": match["opclass"],
        "out_dtype": "fp32" if out_dtype == "tf32" or (out_dtype is None and dtype == "tf32") else out_dtype or acc,
        "arch": f"sm{match['arch']}" if match["arch"] else None, "layout": layout[1] if layout else None,
        "align": int(align[1]) if align else None,
        "epilogue": "relu" if "_relu" in text else "bias" if "_bias" in text else None,
        "mma": _MMA.get(match["mma"] or ""),
    }  # fmt: skip
    if tile:
        out.update(tile_m=int(tile[1]), tile_n=int(tile[2]), tile_k=int(tile[3]), stages=int(tile[4]))
    return out


def _flat3(match: re.Match[str]) -> Attributes:
    mma = _MMA3.search(match["head"])
    tokens = match["rest"].split("_")
    formats: list[str] = []
    while tokens and not _MMA3.fullmatch(tokens[0]):
        formats.append(tokens.pop(0))
    sizes: list[tuple[int, ...]] = []
    while tokens and _MMA3.fullmatch(tokens[0]):
        a, b, c = tokens.pop(0).split("x")
        sizes.append((int(a), int(b), int(c)))
    operands = [number_format(f.rpartition("x")[2] if "x" in f else f) for f in formats]
    stages = int(tokens[0]) if tokens and tokens[0].isdigit() else 0
    layout = next((p for p in tokens if re.fullmatch(r"[nt]{2,3}", p)), None)
    align = _ALIGN.search(match["rest"])
    schedule = [s for s in _SCHEDULES if s in match["rest"]]
    out: Attributes = {
        **_family_and_direction(match["head"]), "arch": match["arch"], "opclass": match["opclass"], "mma": mma[0] if mma else None,
        "dtype": operands[0] if operands else None,
        "b_dtype": operands[1] if len(operands) > 1 and operands[1] != operands[0] else None,
        "acc_dtype": operands[2] if len(operands) > 2 else None, "out_dtype": operands[4] if len(operands) > 4 else None,
        "beta": "zero" if len(formats) > 3 and formats[3] == "void" else None, "stages": stages or None,
        "layout": layout[:2] if layout else None, "out_layout": layout[2:] or None if layout else None,
        "align": int(align[1]) if align else None, "ctas_per_mma": 2 if "2sm" in schedule else 1 if "1sm" in schedule else None,
        "k_sharing": "stream_k" if "stream_k" in schedule else None,
        "persistent": True if {"pingpong", "cooperative", "stream_k"} & set(schedule) else None,
        "epilogue": "bias_relu" if "_bias" in match["rest"] and "relu" in match["rest"] else "bias" if "_bias" in match["rest"] else None,
    }  # fmt: skip
    if "tf32" in match["head"]:
        out["dtype"] = "tf32"
    if sizes:
        out.update(tile_m=sizes[0][0], tile_n=sizes[0][1], tile_k=sizes[0][2])
    if len(sizes) > 1:
        out["cluster"] = f"{sizes[1][0]}x{sizes[1][1]}"
    return out


def _policy(text: str) -> Attributes:
    """Read tile, cluster and stages of a spelled-out template."""
    out: Attributes = {}
    tuples = _TUPLE.findall(text) or _BARE.findall(text) or _SKETCHED.findall(text)
    shapes = [tuple(int(x) for x in t) for t in tuples]
    small = [s for s in shapes if max(s) <= 16]
    large = [s for s in shapes if max(s) > 16 and min(s) >= 8]
    if large:
        out.update(tile_m=large[0][0], tile_n=large[0][1], tile_k=large[0][2])
    elif shape := _SHAPE2.search(text) or _SKETCHED_SHAPE.search(text):
        out.update(tile_m=int(shape[1]), tile_n=int(shape[2]), tile_k=int(shape[3]))
    if small:
        out["cluster"] = f"{small[0][0]}x{small[0][1]}"
    stages = _POLICY.search(text)
    out["stages"] = int(stages[1]) if stages else None
    for word, name in (("half_t", "fp16"), ("bfloat16_t", "bf16"), ("float_e4m3_t", "fp8"), ("float_e2m1_t", "nvfp4"), ("tfloat32_t", "tf32"), ("int8_t", "int8")):  # fmt: skip
        if word in text:
            out["dtype"] = name
            break
    return out


def _wrapped(match: re.Match[str], symbol: Symbol) -> Attributes | None:
    inside = symbol.inside or symbol.head
    if flat := _FLAT3.search(inside):
        return _flat3(flat)
    if flat := _FLAT2.search(inside):
        return _flat2(flat, inside.split("(")[0].split("::")[0])
    if _ATTENTION.search(inside):
        return None
    if not symbol.inside:
        return {"family": "gemm", "op": None, "basis": "library"}
    out = _policy(inside)
    if _CONV.search(inside):
        direction = next((v for k, v in _DIRECTIONS.items() if k in inside.lower()), "fwd")
        out.update(family="conv", op=f"conv_{direction}", direction=direction, algo="implicit_gemm")
    elif _GROUPED.search(inside):
        out.update(family="moe", op="grouped_gemm")
        out["dtype"] = out.get("dtype") or ("fp8" if "fp8" in inside else None)
    elif "reduction" in inside.lower() and "emm" not in inside:
        out.update(family="splitk_reduce", op="splitk_reduce")
    elif "emm" not in inside:
        out.update(family="gemm", op=None, basis="library")
    return out


def _flat(match: re.Match[str], symbol: Symbol) -> Attributes | None:
    flat = _FLAT3.match(symbol.head)
    if flat:
        return _flat3(flat)
    flat2 = _FLAT2.match(symbol.head)
    return _flat2(flat2, symbol.head) if flat2 else None


_DSL_TYPE = re.compile(r"tensorptr([a-z]+\d+)")
#: Where the arguments begin behind the name of a function, and the package whose name holds a word of another.
_DSL_ARGUMENTS = re.compile(r"_?(?:tensorptr|tiledmma|tiledcopy|copyatom).*|flashinfer")


def _dsl(match: re.Match[str], symbol: Symbol) -> Attributes:
    name = _DSL_ARGUMENTS.sub("", match["name"].lower())
    dtype = _DSL_TYPE.search(symbol.head)
    family, op = "other", None
    for words, answer in (
        (("gdn", "kda", "delta", "mamba", "ssd", "_ssu", "selective_state"), ("ssm", "scan")),
        (("flash", "attention", "fmha", "mla"), ("attention", "flash_fwd")),
        (("allreduce", "all_reduce", "allgather", "all_gather", "all_to_all"), ("collective", None)),
        (("topk", "top_k"), ("sort", "topk")),
        (("norm",), ("norm", None)),
        (("grouped", "moe"), ("moe", "grouped_gemm")),
        (("gemm", "matmul"), ("gemm", "gemm")),
        (("softmax",), ("softmax", "softmax")),
        (("cross_entropy", "_ce_", "loss"), ("other", "loss")),
        (("rope", "rotary"), ("rope", "rope")),
        (("quant", "scale"), ("quantize", "quantize")),
        (("reduc",), ("reduction", None)),
        (("elementwise", "swiglu", "silu", "gelu", "_add", "_mul_"), ("elementwise", None)),
    ):
        if any(w in name for w in words):
            family, op = answer
            break
    return {"family": family, "op": op, "dtype": number_format(dtype[1]) if dtype else None}


GRAMMAR = Grammar(
    library="cutlass",
    title="CUTLASS 2.x to 4.x, the CuTe DSL included",
    source="NVIDIA/cutlass, python/cutlass_library/{gemm,conv2d}_operation.py (procedural names) and include/cutlass/gemm/dispatch_policy.hpp",
    gate=r"cutlass|(?:^|::)Kernel2$|(?:^|::)device_kernel$",
    rules=(
        Rule(r"cutlass(?:3x)?_\w", "gemm", sign=_flat),
        Rule(r"kernel_cutlass_(?P<name>\w+?)(?:_object|$)", "other", sign=_dsl),
        Rule(r"(?:[Kk]ernel2?|device_kernel)$", "gemm", "gemm", sign=_wrapped),
        Rule(r"(?:\w+::)*cutlass\w*::(?:\w+::)*(?:gemm|GemmSplitK|Gemm\w*)", "gemm", "gemm", where="scope", sign=_wrapped),
        Rule(r"(?:\w+::)*cutlass\w*::(?:\w+::)*(?:\w*[Rr]educ)", "splitk_reduce", "splitk_reduce", where="scope"),
    ),
    tokens=(
        Token(r"cutlass(?:3x)?", "generated by the CUTLASS library"),
        Token(r"sm\d+|Sm\d+|7[05]|8[069]|90", "architecture"),
        Token(r"GemmUniversal\w*|Gemm\w*", "product spelled out as a template: problem, main loop, epilogue"),
        Token(r"Mainloop\w+", "load pipeline; its first argument is the number of stages"),
        Token(r"Kernel\w+", "how warps share loads and products"),
        Token(r"half_t|bfloat16_t|float_e\dm\d_t|tfloat32_t", "number format of the operands"),
        Token(r"\w*tensorop|simt", "matrix unit, or plain cores; sp: structured sparsity, bs: block-scaled operands, wmma: older interface"),
        Token(r"[shdi]\d+\w*|\w*gemm", "accumulator letter, matrix instruction, kind; s1688 without a format is tf32"),
        Token(r"\d+x\d+x\d+", "block tile M x N x K, then cluster"),
        Token(r"\d+x\d+", "2.x: block tile M x N, then K step x stages"),
        Token(r"void", "C is not read"),
        Token(r"align\d+", "elements per access; below 128 bits the copies are slower"),
        Token(r"[nt]{2,3}|nhwc", "layouts of the operands"),
        Token(r"warpspecialized|pingpong|cooperative", "how producer and consumer warps share the tile; persistent"),
        Token(r"[12]sm", "blocks one matrix instruction spans"),
    ),
    examples={
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x4_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x4_tn_align8::Params)": "gemm",
        "cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_void_bf16_128x128x64_2x1x1_0_tnt_align8_warpspecialized_pingpong_epi_tma": "gemm",
        "cutlass_tensorop_s16816dgrad_optimized_f16_128x128_64x3_nhwc_align8": "conv",
    },
    rank=15,
)  # fmt: skip
