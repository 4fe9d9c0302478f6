"""FlashAttention 1 to 4, the memory-efficient kernels, and TensorRT-LLM's generated attention.

FlashAttention-2 ``Flash_fwd_kernel_traits<head_dim, block_M, block_N, warps, ..., T>`` then Booleans: for ``flash_fwd_kernel``
dropout, causal, local, ...; for ``flash_fwd_splitkv_kernel`` causal first. ``fmha_cutlass{F|B}_{T}_{aligned|notaligned}_{q}x{k}_{rf|gmem}``.
``fmhaSm100[a]Kernel_Q[kv]{T}..O{T}H{d}[HV{d}]{PagedKv|...}{Dense|Causal|...}[P{page}][MultiCtasKv]Q{tq}Kv{tkv}{Persistent|Static}{Context|...ForGen}``.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import format_in, number_format, typed
from tracetool.kernels.symbols import Symbol, split_arguments

_TRAITS = re.compile(r"[Ff]lash_(?:fwd|bwd|kernel)?_?(?:kernel_)?traits\w*(?:<|, )(\d+), (\d+), (\d+), (\d+)")
_TRAITS_FORMAT = re.compile(r"\b(?:cutlass::)?(half_t|bfloat16_t|float_e4m3_t)\b")
_COMBINE = re.compile(r"> ?>?, (?:\(int\))?(\d+), (?:\(int\))?(\d+), (?:\(bool\))?(?:true|false|0|1)\s*$")
_TUPLE = re.compile(r"(?:C|Int|_)<(\d+)>, (?:cute::)?(?:C|Int|_)<(\d+)>, (?:cute::)?(?:C|Int|_)<(\d+)>")
_FA3_FLAGS = re.compile(r"arch::Sm\d+, ((?:(?:true|false)(?:, )?)+)")


def _fa2(match: re.Match[str], symbol: Symbol) -> Attributes:
    inside, head = symbol.inside, symbol.head
    back, split = "bwd" in head, "splitkv" in head
    out: Attributes = {
        "op": "splitkv_combine" if "combine" in head
        else ("preprocess" if "dot_do_o" in head or "clear" in head else "convert" if "convert" in head else "flash_bwd") if back
        else "flash_fwd_splitkv" if split else "flash_fwd",
        "direction": "bwd" if back else "fwd",
        "split_k": None,
        "k_sharing": "split_k" if split else None,
    }  # fmt: skip
    traits = _TRAITS.search(inside)
    if traits:
        out.update(
            head_dim=int(traits[1]), tile_m=int(traits[2]), tile_n=int(traits[3]), warps=int(traits[4])
        )
    combine = _COMBINE.search(inside) if out["op"] == "splitkv_combine" else None
    if combine:  # its own rows per block, and two to that power parts at most
        out.update(tile_m=int(combine[1]), tile_n=None, split_k=2 ** min(int(combine[2]), 10))
    type_argument = _TRAITS_FORMAT.search(inside)
    out["dtype"] = number_format(type_argument[1]) if type_argument else None
    flags = [a == "true" for a in symbol.arguments[1:] if a in ("true", "false")]
    if traits and flags and out["op"] in ("flash_fwd", "flash_bwd", "flash_fwd_splitkv"):
        out["causal"] = flags[0] if split else flags[1] if len(flags) > 1 else None
        out["dropout"] = None if split else flags[0]
    return out


def _fa3(match: re.Match[str], symbol: Symbol) -> Attributes:
    inside = symbol.inside
    text = inside or symbol.scope
    back = "Bwd" in text or "Backward" in text
    out: Attributes = {
        "op": "splitkv_combine" if "Combine" in text else "preprocess" if "Preprocess" in text else "convert" if "Postprocess" in text
        else "flash_bwd" if back else "flash_fwd",
        "direction": "bwd" if back else "fwd",
        "persistent": True if "Persistent" in text else None,
        "dtype": format_in(text[:2000]),
    }  # fmt: skip
    tile = _TUPLE.findall(text)
    large = [t for t in tile if int(t[0]) >= 32]
    if large:
        out.update(tile_m=int(large[0][0]), tile_n=int(large[0][1]), head_dim=int(large[0][2]))
    flags = _FA3_FLAGS.search(text)
    if flags:
        out["causal"] = flags[1].startswith("true")
    return out


def _memory_efficient(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    back = match["d"] in ("B", "bwd")
    tile = re.search(r"_(\d+)x(\d+)_", text)
    largest = re.search(r"_k(\d+)(?:_|$)", text)
    dtype = re.search(r"fmha_cutlass[FB]_(\w+?)_(?:not)?aligned", text)
    arguments = symbol.arguments
    return {
        "op": "mem_efficient_bwd" if back else "mem_efficient_fwd",
        "direction": "bwd" if back else "fwd",
        "dtype": number_format(dtype[1]) if dtype else typed(symbol) if arguments else None,
        "tile_m": int(tile[1]) if tile else None,
        "tile_n": int(tile[2]) if tile else None,
        "head_dim": int(largest[1]) if largest and int(largest[1]) <= 1024 else None,
        "arch": "sm" + text.rpartition("_sm")[2] if "_sm" in text else None,
        "dropout": True if "_dropout" in text else None,
    }


_GENERATED = re.compile(
    r"Q(?:kv|Kv)?(?P<q>E4m3|E5m2|Bfloat16|Fp16|E2m1|Fp8)(?:Kv?(?P<kv>E4m3|E2m1|Bfloat16|Fp16))?\w*?O(?P<o>E4m3|E2m1|Bfloat16|Fp16)H(?:Qk)?(?P<d>\d+)(?:HV?(?:v)?(?P<dv>\d+))?(?P<rest>\w*)"
)
_GENERATED_FORMAT = {
    "E4m3": "fp8",
    "E5m2": "fp8",
    "Fp8": "fp8",
    "Bfloat16": "bf16",
    "Fp16": "fp16",
    "E2m1": "nvfp4",
}


def _generated(match: re.Match[str], symbol: Symbol) -> Attributes:
    stated = _GENERATED.search(symbol.head)
    if stated is None:
        return {
            "op": "prefill" if "Context" in symbol.head else "decode" if "ForGen" in symbol.head else None
        }
    suffix = stated["rest"]
    tile = re.search(r"Q(\d+)Kv(\d+)", suffix)
    decode = "ForGen" in suffix
    return {
        "op": "decode" if decode else "prefill",
        "phase": "decode" if decode else "prefill",
        "dtype": _GENERATED_FORMAT[stated["q"]],
        "b_dtype": _GENERATED_FORMAT.get(stated["kv"] or ""),
        "out_dtype": _GENERATED_FORMAT[stated["o"]],
        "head_dim": int(stated["d"]),
        "head_dim_v": int(stated["dv"]) if stated["dv"] else None,
        "causal": True if "Causal" in suffix else None,
        "paged": True if "PagedKv" in suffix else None,
        "k_sharing": "split_k" if "MultiCtasKv" in suffix else None,
        "tile_m": int(tile[1]) if tile else None,
        "tile_n": int(tile[2]) if tile else None,
        "persistent": True if "Persistent" in suffix else None,
        "arch": match["arch"].lower(),
    }


def _fmha_v2(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    arch = re.search(r"_(sm\d+)", text)
    causal = "causal" in text
    named = re.search(r"_d(\d+)", text) or re.search(r"_(?:S|\d+)_(\d+)_", text)
    return {
        "op": "fmha_v2_bwd" if "bwd" in text else "fmha_v2_fwd",
        "dtype": format_in(text),
        "head_dim": int(named[1]) if named else None,
        "arch": arch[1] if arch else None,
        "causal": True if causal else None,
    }


def _selected(match: re.Match[str], symbol: Symbol) -> Attributes:
    """Read attention over the keys that an index selects, as FlashMLA has it."""
    phase = "decode" if "decode" in symbol.head else "prefill"
    combine = "merge" in symbol.head or "combine" in symbol.head
    return {
        "op": "splitkv_combine" if combine else f"mla_{phase}",
        "dtype": format_in(symbol.head),
        "phase": phase,
    }


def _wrapped(match: re.Match[str], symbol: Symbol) -> Attributes | None:
    """Read attention wrapped in a library's ``device_kernel`` or ``Kernel``."""
    inside = symbol.inside
    if not re.search(r"FlashAttn|flash::|Fmha|fmha|FMHA|AttentionKernel|Mla\b|MLA", inside):
        return None
    if "FlashAttn" in inside or "flash::" in inside:
        return _fa3(match, symbol)
    mla = "Mla" in inside or "MLA" in inside
    first = split_arguments(inside)[:1]
    return {
        "op": "mla_decode" if mla else "flash_bwd" if "Bwd" in inside else "flash_fwd",
        "dtype": format_in("".join(first)[:2000]),
        "phase": "decode" if mla else None,
    }


GRAMMAR = Grammar(
    library="flash_attn",
    title="FlashAttention 1 to 4, memory-efficient attention (xFormers, PyTorch), TensorRT-LLM attention",
    source="Dao-AILab/flash-attention, csrc/flash_attn/src and hopper/; pytorch/pytorch, aten/src/ATen/native/transformers/cuda/mem_eff_attention; NVIDIA/TensorRT-LLM, cpp/kernels/fmha_v2",
    gate=r"[Ff]lash|fmha|Fmha|FMHA|AttentionKernel|attention_kernel_batched|[Mm]la_|device_kernel$|(?:^|::)Kernel2?$|compute_attn_1rowblock|sparse_(?:attn|mla)_",
    rules=(
        Rule(r"fmhaSm(?P<arch>\d+)[af]?Kernel", "attention", sign=_generated, fixed={"library": "trtllm_gen"}),
        Rule(r"fmha_cutlass(?P<d>[FB])_", "attention", sign=_memory_efficient, fixed={"library": "pytorch_mem_efficient"}),
        Rule(r"attention_kernel_(?P<d>\w*)batched\w*", "attention", sign=_memory_efficient),
        Rule(r"flash_(?:fwd|bwd)\w*|compute_\w*(?:dq_dk_dv|attn_1rowblock)\w*", "attention", sign=_fa2),
        Rule(r"fmha_(?:fwd|fprop|bwd|dgrad)\w*_(?:kernel|loop)?\w*", "attention", sign=_fmha_v2),
        Rule(r"fmha_v2\w*|fmha_mhca\w*", "attention", sign=_fmha_v2, fixed={"library": "tensorrt"}),
        Rule(r"(?:FlashAttn|FlashAttention)\w*", "attention", sign=_fa3),
        Rule(r"kernel_cutlass_\w*[Ff]lash(?!infer)\w*", "attention", sign=_fa3),
        Rule(r"(?:device_kernel|[Kk]ernel2?)$", "attention", sign=_wrapped),
        Rule(r"(?:\w+::)*(?:flash|pytorch_flash|flash_attn\w*)::\w+", "attention", where="scope", sign=_fa3),
        Rule(r"(?:flash_mla|mla_|flash_fwd_mla|get_mla)\w*", "attention", "mla_decode", sign=_fa3, fixed={"phase": "decode"}),
        Rule(r"\w*[Ff]lash_?[Aa]tt\w*", "attention", sign=_fa3),
        Rule(r"\w*sparse_(?:attn|mla)_\w*", "attention", sign=_selected),
        Rule(r"\w*(?:[Ff]mha|FMHA)\w*", "attention", "fmha", sign=_fmha_v2),
    ),
    tokens=(
        Token(r"flash_fwd_kernel|flash_bwd\w*", "forward over blocks of queries; backward over blocks of keys"),
        Token(r"flash_fwd_splitkv\w*", "keys shared between blocks; a combine kernel follows"),
        Token(r"Flash_(?:fwd|bwd)_kernel_traits", "head dimension, block of queries, block of keys, warps"),
        Token(r"true|false", "forward: dropout, causal, local, ...; split: causal, local, ..."),
        Token(r"fmha_cutlass[FB]", "memory-efficient attention, forward or backward"),
        Token(r"(?:not)?aligned", "whether rows are aligned to vector accesses"),
        Token(r"rf|gmem", "where the output is accumulated: registers or global memory"),
        Token(r"\d+x\d+", "block of queries x block of keys"),
        Token(r"fmhaSm\d+[af]?Kernel", "generated attention of TensorRT-LLM, architecture"),
    ),
    examples={
        "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64, 64, 256, 4, false, false, cutlass::bfloat16_t, Flash_kernel_traits<64, 64, 256, 4, cutlass::bfloat16_t> >, true, false, false, true, true, false, true, false>(flash::Flash_fwd_params)": "attention",
        "fmha_cutlassB_f16_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<cutlass::half_t>::Params)": "attention",
        "fmhaSm100aKernel_QkvBfloat16OBfloat16H128PagedKvDenseP32MultiCtasKvVarSeqQ8Kv128StaticSwapsAbForGen": "attention",
    },
    rank=8,
)  # fmt: skip
