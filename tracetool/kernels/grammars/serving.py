"""vLLM, SGLang and FlashInfer: the kernels of inference servers.

Names are plain words in the projects' namespaces: ``vllm::paged_attention_v{1|2}_kernel``, ``vllm::act_and_mul_kernel``, ``flashinfer::norm::RMSNormKernel``,
``BatchPrefillWithPagedKVCacheKernel``. Quantized products: Marlin, Machete, AWQ, GPTQ, ExLlama, AllSpark.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import numbers_of, typed, typed_as
from tracetool.kernels.symbols import Symbol


def _paged(match: re.Match[str], symbol: Symbol) -> Attributes:
    head = symbol.head
    numbers = numbers_of(symbol)
    dims = [n for n in numbers if n in (32, 64, 80, 96, 112, 120, 128, 192, 256, 576)]
    combine = "reduce" in head or "Merge" in head or "combine" in head.lower()
    decode = not re.search(r"[Pp]refill|Ragged|[Ee]xtend", head)
    return {
        "op": "splitkv_combine" if combine else "paged_decode" if decode else "prefill",
        "phase": None if combine else "decode" if decode else "prefill",
        "paged": True if "aged" in head or "mfma" in head else None,
        "head_dim": dims[0] if dims and not combine else None,
        "dtype": typed(symbol),
        "k_sharing": "split_k" if "v2" in head else None,
    }


def _marlin(match: re.Match[str], symbol: Symbol) -> Attributes:
    """Marlin's template lists threads, then M, N and K blocks in units of 16, then stages."""
    numbers = numbers_of(symbol)
    moe = "moe" in symbol.scope.lower()
    out: Attributes = {
        "dtype": typed(symbol),
        "b_dtype": "int4",
        "family": "moe" if moe else "gemm",
        "op": "moe_gemm" if moe else "quantized_gemm",
    }
    for i, threads in enumerate(numbers[:-4]):
        blocks = numbers[i + 1 : i + 4]
        if threads in (128, 256) and all(0 < b <= 32 for b in blocks):
            out.update(threads=threads, tile_m=blocks[0] * 16, tile_n=blocks[1] * 16, tile_k=blocks[2] * 16)
            break
    return out


GRAMMAR = Grammar(
    library="vllm",
    title="inference servers: vLLM, SGLang, FlashInfer, and their quantized products",
    source="vllm-project/vllm, csrc; sgl-project/sglang, sgl-kernel/csrc; flashinfer-ai/flashinfer, include/flashinfer; IST-DASLab/marlin",
    gate=r"vllm|sglang|sgl_|flashinfer|(?:^|_|:)mhc_|(?:^|::)\w*(?:paged_attention|PagedKV|BatchPrefill|BatchDecode|SinglePrefill|SingleDecode|Prefill|MergeState|VariableLengthMergeStates|PersistentVariable)|_C_cache_ops|_C::|"
    r"reshape_and_cache|rotary_embedding|(?:^|::)\w*(?:act_and_mul|silu_and_mul|gelu_and_mul)|rms_norm_kernel|[Mm]arlin|machete|awq_|gptq|exllama|gemm_half_q_half|reconstruct_|AllSpark|moe_align|moe_sum|topkGating|topk_softmax|"
    r"scaled_fp8_quant|scaled_int8_quant|per_token_(?:group_)?quant|dynamic_(?:per_token_)?scaled|static_scaled|cvt_fp16_to_fp4|cvt_warp|store_kvcache|resolve_future_token|clamp_position|hadamard|apply_shuffle_mul|copy_blocks|"
    r"swap_blocks|gather_cache|concat_and_cache|merge_attn_states|wvSp\w{0,3}K|LLGemm|RMSNormKernel|SamplingFrom|TopK\w*(?:Mask|Renorm)|TopPRenorm|ChainSpeculative|RotaryPosIds|qk_norm|qkNorm|causal_conv1d|selective_scan|ssm_|"
    r"groupnorm_kernel|fp8_blockwise|int8_scaled_mm|grouped_topk|moe_fused_gate|apply_repetition|build_tree|AppendPagedKV|lora_|bgmv|convert_(?:req|fp8)|prepare_moe|(?:pre|post)_reorder|ep_moe|shuffle_rows|rdwdot|ll4mi|moe_wna16|fused_qkv|mla_decode|cutlass_mla|prepare_batch|correct_attn|advance_step|permute_cols|get_group_gemm_starts|cp_gather|[Tt]op_?[Kk]_?[Pp]er_?[Rr]ow|(?:^|_)merge_states?(?:_|$)|fused_moe\w*_(?:gptq|awq)",
    rules=(
        Rule(r"_?mhc_\w*(?:gemm|sqrsum)\w*|_?mhc_fused\w*", "gemm", "gemm", sign=typed_as()),
        Rule(r"\w*mhc_\w*", "elementwise", "hyper_connection", sign=typed_as()),
        Rule(r"\w*AppendPagedKV\w*", "gather_scatter", "kv_cache", sign=typed_as()),
        Rule(r"\w*[Tt]op_?[Kk]_?[Pp]er_?[Rr]ow\w*", "sort", "topk", sign=typed_as()),
        Rule(r"\w*(?:marlin|awq|gptq)\w*repack\w*", "copy", "layout_transform", sign=typed_as()),
        Rule(r"\w*fused_moe\w*(?:gptq|awq)\w*", "moe", "moe_gemm", sign=typed_as(b_dtype="int4")),
        Rule(r"\w*(?:paged_att|ll4mi|PagedKV|WithKVCache|BatchPrefill|BatchDecode|SinglePrefill|SingleDecode|Prefill|MergeStates?|merge_(?:attn_)?states?|PersistentVariable|cutlass_mla|mla_decode|correct_attn)\w*", "attention", sign=_paged),
        Rule(r"\w*(?:[Mm]arlin|machete|AllSpark|moe_wna16)\w*", "gemm", sign=_marlin),
        Rule(r"\w*(?:awq_gemm|gemm_forward_4bit|gemm_half_q_half|gptq_gemm|wna16_gemm)\w*", "gemm", "quantized_gemm", sign=typed_as(b_dtype="int4")),
        Rule(r"\w*(?:int8_scaled_mm|fp8_blockwise|scaled_mm)\w*", "gemm", "quantized_gemm", sign=typed_as()),
        Rule(r"\w*(?:awq_dequant|dequantize|reconstruct_|gptq_shuffle|awq_|gptq_)\w*", "quantize", "dequantize", sign=typed_as()),
        Rule(r"\w*(?:wvSp\w{0,3}K|wv_splitk|LLGemm|gemv)\w*", "gemv", "gemv", sign=typed_as()),
        Rule(r"\w*(?:bgmv|sgmv|lora_)\w*", "gemm", "lora", sign=typed_as()),
        Rule(r"\w*(?:moe_align|moe_sum|topkGating|topk_?[Ss]oftmax|grouped_topk|moe_fused_gate|moe_permute|moe_unpermute|reorder|shuffle_rows|apply_shuffle|prepare_moe|get_group_gemm|ep_moe|expert|moe_sort|routing)\w*", "moe", "routing", sign=typed_as()),
        Rule(r"\w*(?:fused_moe|moe_gemm|moe)\w*", "moe", "moe_gemm", sign=typed_as()),
        Rule(r"\w*(?:reshape_and_cache|store_kvcache|AppendPagedKV|concat_and_cache|gather_cache|cp_gather|resolve_future|convert_req|indexer|embedding_lookup|prepare_batch|advance_step)\w*", "gather_scatter", "kv_cache", sign=typed_as()),
        Rule(r"\w*(?:rms_?norm|RMSNorm|layer_?norm|LayerNorm|group_?norm|qk_?[Nn]orm)\w*", "norm", "rms_norm", sign=typed_as()),
        Rule(r"\w*(?:rotary|Rotary|rope|Rope)\w*", "rope", "rope", sign=typed_as()),
        Rule(r"\w*(?:quant|cvt_|hadamard|convert_fp8|scaled_fp8|scaled_int8|block_scale)\w*", "quantize", "quantize", sign=typed_as()),
        Rule(r"\w*(?:act_and_mul|silu|gelu|swigluoai|activation|clamp_position|elementwise|add_kernel)\w*", "elementwise", "gated_act", sign=typed_as()),
        Rule(r"\w*(?:[Ss]ampl|TopK\w*Mask|TopP|top_p|Renorm|ChainSpeculative|repetition|penalt|build_tree|verify_tree|argmax)\w*", "sampling", "sampling", sign=typed_as()),
        Rule(r"\w*(?:causal_conv1d|selective_(?:scan|state)|checkpointing_ssu|ssm_|mamba|lightning_attention)\w*", "ssm", "scan", sign=typed_as()),
        Rule(r"\w*(?:copy_blocks|swap_blocks|permute_cols|transpose|copy)\w*", "copy", "copy", sign=typed_as()),
        Rule(r"\w*(?:all_?reduce|cross_device)\w*", "collective", "all_reduce", sign=typed_as()),
        Rule(r"\w*(?:topk|TopK|sort)\w*", "sort", "topk", sign=typed_as()),
        Rule(r"\w*(?:gemm|matmul|Gemm)\w*", "gemm", "gemm", sign=typed_as()),
        Rule(r"\w*(?:attention|attn|Attention)\w*", "attention", "attention", sign=typed_as()),
    ),
    tokens=(
        Token(r"paged_attention_v[12]\w*|paged_attention\w*", "decode over pages; v2 shares the keys between blocks and reduces"),
        Token(r"reshape_and_cache\w*", "writes keys and values into their pages"),
        Token(r"act_and_mul\w*|silu_and_mul\w*", "activation of one half times the other"),
        Token(r"fused_add_rms_norm\w*|FusedAddRMSNorm\w*", "residual added, then RMS norm"),
        Token(r"Marlin\w*|marlin\w*", "4-bit weights, 16-bit activations"),
        Token(r"\w*mhc_\w*", "residual streams mixed by each token's own coefficients"),
        Token(r"\w*topk\w*|moe_\w+", "expert choice and ordering"),
    ),
    examples={
        "void vllm::paged_attention_v2_kernel<__nv_bfloat16, __nv_bfloat16, 128, 16, 128, (vllm::Fp8KVCacheDataType)0, false, 512>(float*)": "attention",
        "void vllm::act_and_mul_kernel<c10::Half, &(c10::Half vllm::silu_kernel<c10::Half>(c10::Half const&)), true>(c10::Half*)": "elementwise",
        "_mhc_pre_big_fuse_kernel": "elementwise",
        "void flashinfer::sampling::TopPSamplingFromProbKernel<1024u, float>(float*)": "sampling",
    },
    rank=19,
)  # fmt: skip
