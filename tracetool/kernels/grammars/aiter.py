"""AITER, FlyDSL and Opus: AMD's inference kernels written in assembly and small languages.

``aiter::{kind}_{T}_[hd{D}]_[causal]_...``: attention ``fmha_{fwd|bwd}_hd{D}[x{Dv}]_{T}``, experts ``fmoe_[stage1_]{T}_{quant}_{g1u1|g1u0}_..._{M}x{N}``
(g1u1: gate and up fused), products ``{T}gemm_..._{M}x{N}``. ``flydsl_gemm.._a{T}_w{T}_{out}_t{M}x{N}x{K}_split_k{n}``.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import format_in, number_format, typed_as
from tracetool.kernels.symbols import Symbol

_PAIR = re.compile(r"_(\d+)x(\d+)(?=_|E?$)")
_QUANT = re.compile(
    r"(?:pertoken|blockscale|per1x\d+|pertensor|noquant)(MXfp4|Fp8|Int8|Bf16|Int4|Fp4)", re.IGNORECASE
)


def _attention(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    dims = re.search(r"_hd(\d+)(?:x(\d+))?", text)
    back = "bwd" in text
    helper = re.search(r"(odo|dq_convert|dq_shuffle|post|pre)", text) if back else None
    return {
        "op": ("preprocess" if helper and helper[1] == "odo" else "convert" if helper else "flash_bwd") if back else "flash_fwd",
        "direction": "bwd" if back else "fwd",
        "head_dim": int(dims[1]) if dims else None,
        "head_dim_v": int(dims[2]) if dims and dims[2] else None,
        "dtype": format_in(text),
        "causal": True if re.search(r"causal|_mask|_br(?:_|$)", text) else False if dims else None,
    }  # fmt: skip


def _mla(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    return {
        "op": "mla_prefill" if "prefill" in text or "pfl" in text else "mla_decode",
        "dtype": format_in(text),
        "phase": "prefill" if "prefill" in text or "pfl" in text else "decode",
    }


def _moe(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    tiles, quant = _PAIR.findall(text), _QUANT.search(text)
    return {
        "op": "moe_gemm",
        "tile_m": int(tiles[-1][0]) if tiles else None,
        "tile_n": int(tiles[-1][1]) if tiles else None,
        "dtype": format_in(text),
        "b_dtype": number_format(quant[1].lower()) if quant else None,
        "gated": "g1u1" in text if "g1u" in text else None,
        "epilogue": "silu" if "silu" in text else "gelu" if "gelu" in text else None,
        "persistent": True if re.search(r"_ps(?:_|$)", text) else None,
    }  # fmt: skip


def _gemm(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    tiles = _PAIR.findall(text)
    large = [t for t in tiles if int(t[0]) >= 16]
    layout = re.search(r"_([nt]{2})_", text)
    return {
        "tile_m": int(large[0][0]) if large else None,
        "tile_n": int(large[0][1]) if large else None,
        "dtype": number_format(match["t"].lower()) or format_in(text),
        "layout": layout[1] if layout else None,
        "k_sharing": "split_k" if "splitk" in text.lower() else None,
    }


_FLY = re.compile(r"_t(\d+)x(\d+)x(\d+)")
#: What FlyDSL builds, by the words of its modules' names; the first that occurs answers.
_FLY_WORDS = (
    (r"split_?k_reduce", "splitk_reduce"), (r"all_?reduce|dispatch_combine", "collective"), (r"moe", "moe"),
    (r"attn|fmha|mla|paged", "attention"), (r"gemm|bmm|matmul|wmma|mfma|preshuffle", "gemm"), (r"norm", "norm"),
    (r"softmax", "softmax"), (r"rope", "rope"), (r"quant", "quantize"),
)  # fmt: skip
_FLY_SPLIT = re.compile(r"_(?:split_k|sk)(\d+)")


def _flydsl(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    tile, split = _FLY.search(text), _FLY_SPLIT.search(text)
    operands = re.search(r"_a([a-z0-9]+)_w([a-z0-9]+)_([a-z0-9]+)_t", text)
    low = text.lower()
    family = next((f for words, f in _FLY_WORDS if re.search(words, low)), "gemm" if tile else "other")
    out: Attributes = {
        "family": family,
        "op": "gemm" if family == "gemm" else family,
        "dtype": number_format(operands[1]) if operands else format_in(text),
    }
    if tile:
        out.update(tile_m=int(tile[1]), tile_n=int(tile[2]), tile_k=int(tile[3]))
    if split:
        out["split_k"] = int(split[1])
        out["k_sharing"] = "split_k" if int(split[1]) > 1 else None
    if operands:
        out.update(
            b_dtype=number_format(operands[2]) if operands[2] != operands[1] else None,
            out_dtype=number_format(operands[3]),
        )
    return out


def _opus(match: re.Match[str], symbol: Symbol) -> Attributes:
    return {
        "threads": int(match["t"]),
        "tile_m": int(match["m"]),
        "tile_n": int(match["n"]),
        "tile_k": int(match["k"]),
        "dtype": format_in(symbol.head),
    }


GRAMMAR = Grammar(
    library="aiter",
    title="AITER, FlyDSL and Opus: inference kernels of AMD",
    source="ROCm/aiter, hsa/*/ (kernel lists beside the code objects) and csrc; ROCm/FlyDSL",
    gate=r"aiter|^kn_|(?i:flydsl)|^mfma_(?:preshuffle|blockscale|moe[12])|^opus_|^f?moe_(?:stage|bf16|fp16|int8)|^fmha_(?:fwd|bwd)_hd|(?:^|_)(?:fmoe|mla_a16w16|mla_dec|mla_pfl|pa_bf16|pa_fp16|pa_a16w8)|^gqa_d\d+|^pa_prefill_\d+m|^dsa_v\d+_decode|opus_moe",
    rules=(
        Rule(r"\w*(?i:flydsl)\w*|mfma_(?:preshuffle|blockscale|moe[12])\w*", "gemm", sign=_flydsl),
        Rule(r"opus_gemm_(?P<t>\d+)x(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)", "gemm", "gemm", sign=_opus),
        Rule(r"(?:fmha_|gqa_d\d+)\w*", "attention", sign=_attention),
        Rule(r"mhc_(?!\w*(?:gemm|sqrsum))\w*", "elementwise", "hyper_connection", sign=typed_as()),
        Rule(r"mhc_\w*", "gemm", "gemm", sign=typed_as()),
        Rule(r"(?:pa_prefill|dsa_v\d+_decode)_\w*", "attention", sign=_mla),
        Rule(r"kn_entry_\dc_\w*", "rope", "rope", sign=typed_as()),
        Rule(r"kn_\w*(?:combine|reduce)\w*", "attention", "splitkv_combine", sign=typed_as()),
        Rule(r"kn_f?mla\w*", "attention", sign=_mla),
        Rule(r"(?:kn_)?mla_\w*reduce\w*|mla_\w*metadata\w*|\w*mla_reduce\w*", "attention", "splitkv_combine", sign=typed_as()),
        Rule(r"(?:kn_)?mla_\w*", "attention", sign=_mla),
        Rule(r"(?:pa_|paged_attention)\w*", "attention", "paged_decode", sign=typed_as(phase="decode", paged=True)),
        Rule(r"(?:f?moe_)(?:sort|align|topk|sum|smooth|quant|routing)\w*|\w*(?:topk_softmax|topk_softplus|topk_gating|grouped_topk|biased_topk|moe_align|moe_sum|moe_sort)\w*", "moe", "routing", sign=typed_as()),
        Rule(r"f?moe_\w*", "moe", sign=_moe),
        Rule(r"(?P<t>bf16|f16|fp16|f8|fp8|f4|i8|a8w8|a4w4)_?gemm\w*", "gemm", "gemm", sign=_gemm),
        Rule(r"\w*(?:all_?reduce|cross_device|reduce_scatter|allgather|local_device_load)\w*|(?:ar|ag|rs)_(?:ll_)?gfx\d+\w*", "collective", "all_reduce", sign=typed_as()),
        Rule(r"\w*(?:rms_?norm|layer_?norm|norm2d|Norm)\w*", "norm", "norm", sign=typed_as()),
        Rule(r"(?!\w*rope)\w*(?:reshape_and_cache|concat_and_cache|quant_and_cache|gather_indexer)\w*", "gather_scatter", "kv_cache", sign=typed_as()),
        Rule(r"\w*(?:quant|scaled|data_to_scale)\w*", "quantize", "quantize", sign=typed_as()),
        Rule(r"\w*(?:rope|rotary)\w*", "rope", "rope", sign=typed_as()),
        Rule(r"\w*(?:kv_cache|gather|indexer)\w*", "gather_scatter", "kv_cache", sign=typed_as()),
        Rule(r"operator_\w+", "elementwise", "pointwise", sign=typed_as()),
        Rule(r"\w*(?:act_and_mul|silu|gelu|activation|elementwise|binary|unary|add|mul)\w*", "elementwise", "pointwise", sign=typed_as()),
        Rule(r"\w*(?:sampl|argmax)\w*", "sampling", "sampling", sign=typed_as()),
        Rule(r"\w*(?:topk|sort)\w*", "sort", "topk", sign=typed_as()),
        Rule(r"\w*(?:wv_splitk|wvSpltK|LLGemm|skinny|(?i:gemv))\w*", "gemv", "gemv", sign=typed_as()),
        Rule(r"\w*gemm\w*", "gemm", "gemm", sign=typed_as()),
        Rule(r"\w*(?:attn|attention)\w*", "attention", "attention", sign=typed_as()),
    ),
    tokens=(
        Token(r"fmha|mla|pa", "attention: fused, latent, paged"),
        Token(r"fmoe", "expert product"),
        Token(r"hd\d+(?:x\d+)?", "head dimension of Q and K, and of V"),
        Token(r"mhc", "residual streams mixed by each token's own coefficients (manifold-constrained hyper-connections)"),
        Token(r"g1u[01]", "gate and up projections fused or not"),
        Token(r"rtne|rtna|rtz", "rounding to bf16"),
        Token(r"a16|a32", "width of the gradient's accumulator in memory"),
        Token(r"causal|mask|br", "masked above the diagonal"),
        Token(r"group", "sequences of different lengths"),
        Token(r"\d+x\d+", "block tile"),
        Token(r"t\d+x\d+x\d+", "block tile M x N x K"),
    ),
    examples={
        "_ZN5aiter36fmha_fwd_hd128_bf16_causal_rtz_groupE": "attention",
        "fmoe_bf16_pertokenFp8_g1u1_vs_silu_1tg_64x128": "moe",
        "mfma_preshuffle_2stages_fp8_cshuffle": "gemm",
        "void aiter::mhc_post_kernel<__hip_bfloat16, 256, 4>(__hip_bfloat16*)": "elementwise",
        "_ZN5aiter26mhc_pre_gemm_sqrsum_kernelIDF16bLi256ELi64ELi32ELi128EEEvPfS1_PT_S1_iiiiiii": "gemm",
        "flydsl_gemm2_abf16_wbf16_bf16_t64x128x64_split_k2_block_m_warp2": "gemm",
    },
    rank=7,
)  # fmt: skip
