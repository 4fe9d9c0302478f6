"""Triton kernels written by hand: their function's name, with the tiles and formats some projects append.

``_matmul_ogs_{layout}_{out}x{in}x{weight}_{M}x{N}x{K}x{split_k}[_{act}]`` (triton_kernels); ``kernel_unified_attention_{2d|3d}``. Old stripped
names (``triton__0d1d2d3``) hold argument specializations only and stay unknown.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import format_in, number_format
from tracetool.kernels.symbols import Symbol


def _ogs(match: re.Match[str], symbol: Symbol) -> Attributes:
    return {
        "layout": match["layout"].lower(),
        "out_dtype": number_format(match["out"]),
        "dtype": number_format(match["a"]),
        "b_dtype": number_format(match["b"]),
        "tile_m": int(match["m"]),
        "tile_n": int(match["n"]),
        "tile_k": int(match["k"]),
        "split_k": int(match["s"]),
        "epilogue": match["act"] or None,
    }


def _formats(match: re.Match[str], symbol: Symbol) -> Attributes:
    return {"dtype": format_in(symbol.head)}


def _persistent(match: re.Match[str], symbol: Symbol) -> Attributes:
    return {"dtype": format_in(symbol.head), "persistent": True if "persistent" in symbol.head else None}


GRAMMAR = Grammar(
    library="triton",
    title="Triton kernels written by hand: tutorials, triton_kernels, vLLM, SGLang, FLA, Liger",
    source="triton-lang/triton, python/tutorials and python/triton_kernels; vllm-project/vllm, vllm/attention/ops; linkedin/Liger-Kernel",
    gate=r"^_?\w*(?:matmul|req_to_token|kv_indices|splitK_reduce|_fwd|_bwd|attn|attention|kernel|reduce_segments|routing|bitmatrix|topk|moe|swiglu|rope|norm|logits|chunk_|fused_recurrent|triton)\w*$",
    rules=(
        Rule(r"_p?_?matmul_ogs_(?P<layout>[NT]{3})_(?P<out>[a-z0-9]+?)x(?P<a>[a-z0-9]+?)x(?P<b>[a-z0-9]+)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)x(?P<s>\d+)(?:_(?P<act>\w+))?", "moe", "moe_gemm", sign=_ogs),
        Rule(r"_p?_?matmul_ogs\w*", "moe", "moe_gemm", sign=_formats),
        Rule(r"_?finalize_matmul\w*|_?reduce_grouped\w*|_?(?:combined_routing|routing_|expt_data|sum_bitmatrix|bitmatrix|compute_writeback|keyed_add|moe_align|count_expert|compute_expert|moe_sum|memset_metadata|ragged_metadata|unpermute_|row_id_map|make_chunk_sort|sort_chunks|ragged_\w*routing)\w*|\w*_routing_\w*|_?topk_forward|_?topk_backward|_?\w*expert_(?:histogram|scan|offsets)\w*|\w*ep_(?:scatter|gather)\w*", "moe", "routing", sign=_formats),
        Rule(r"(?:fused_moe|_?fused_moe_kernel|invoke_fused_moe|write_zeros_to_output|moe_kernel|_?grouped_gemm|_?grouped_matmul|t?gmm_|\w*moe\w*gemm|\w*_moe_\w*)\w*", "moe", "moe_gemm", sign=_persistent),
        Rule(r"_?\w*(?:reshape_and_cache|kv_cache|kv_buffer|set_kv|store_kv|write_kv)\w*", "gather_scatter", "kv_cache", sign=_formats),
        Rule(r"\w*(?:gemm|bmm|matmul)\w*_reduce_kernel\w*|\w*splitk_reduce\w*", "splitk_reduce", "splitk_reduce", sign=_formats),
        Rule(r"_splitK_reduce\w*|reduce_segments\w*|_?fwd_kernel_stage2\w*|_?merge_attn_states\w*|_?(?:fwd_)?combine\w*attn\w*|_?attn_reduce\w*", "attention", "splitkv_combine", sign=_formats),
        Rule(r"kernel_unified_attention\w*|_?kernel_paged_attention\w*|_?(?:paged_attn|paged_attention)\w*|_?fwd_grouped_kernel_stage1\w*|_?fwd_kernel_stage1\w*|_?decode_\w*att\w*|decode_attention\w*", "attention", "paged_decode", sign=_formats, fixed={"paged": True}),
        Rule(r"_?(?:\w*att\w*_)?bwd_preprocess\w*", "attention", "preprocess", sign=_formats, fixed={"direction": "bwd"}),
        Rule(r"_?(?:attn|attention|flash_attn|flash_attention|fwd_kernel|fwd_grouped_kernel|extend_attention|context_attention|mha|mqa|flex_attention|parallel_nsa|parallel_attn)\w*(?:bwd|backward|dkdv|dq|dk_dv)\w*|bwd_kernel_(?:fuse|dk|dq)\w*|_?bwd_kernel\w*|_?bwd_dq\w*|_?bwd_dk\w*", "attention", "flash_bwd", sign=_formats, fixed={"direction": "bwd"}),
        Rule(r"_?(?:attn|attention|flash_attn|flash_attention|flex_attention|extend_attention|context_attention|mha|parallel_nsa|parallel_attn)_?\w*|_?fwd_kernel\w*|_?fwd_grouped\w*|\w*_attn_fwd\w*|\w*attention_(?:fwd|kernel)\w*|\w*_mla_\w*|\w*flash_(?:attn|fwd)\w*", "attention", "flash_fwd", sign=_formats),
        Rule(r"_?\w*sampl\w*", "sampling", "sampling", sign=_formats),
        Rule(r"_?\w*mqa_logits\w*", "attention", "index_logits", sign=_formats),
        Rule(r"create_flashinfer_kv\w*|\w*kv_indices\w*|\w*page_table\w*|\w*req_to_token\w*", "gather_scatter", "kv_indices"),
        Rule(r"_?bmm_chunk_\w*", "ssm", "scan", sign=_formats),  # C times B of a chunk of Mamba-2
        Rule(r"matmul_kernel\w*|_?(?:matmul|gemm|mm)_(?:kernel|persistent|tma|bias|fp8|splitk|streamk|stream_k|a16w16|a8w8|afp4wfp4|int8|ogs)\w*|_?(?:bmm|addmm|batched_gemm|batched_matmul|streamk)\w*|_?gemm_\w*|\w*w8a8_block\w*matmul\w*|_?w8a8_(?:block|triton)\w*|\w*scaled_mm\w*|\w*_gemm_kernel\w*|\w*matmul_kernel\w*|\w*tinygemm\w*|_?sgmv\w*|_?bgmv\w*|_?lora_(?:expand|shrink)\w*|_?(?:quantized_matmul|dequant_matmul|awq_gemm|gptq_matmul)\w*", "gemm", "gemm", sign=_persistent),
        Rule(r"_?\w*(?:rms_?norm|layer_?norm|group_?norm|l2_?norm|_norm_(?:fwd|bwd|forward|backward)|norm_kernel|_fused_rms_|qk_norm|gated_norm)\w*", "norm", "norm", sign=_formats),
        Rule(r"_?\w*(?:cross_entropy|ce_(?:fwd|bwd|forward|backward)|kl_?div|tv_distance|_loss_|jsd)\w*", "other", "loss", sign=_formats),
        Rule(r"_?\w*(?:softmax)\w*", "softmax", "softmax", sign=_formats),
        Rule(r"_?\w*(?:rope|rotary)\w*", "rope", "rope", sign=_formats),
        Rule(r"_?\w*(?:swiglu|geglu|silu_and_mul|gelu_and_mul|act_and_mul|silu_mul|silu|gelu|relu|_act_)\w*|_(?:exact|approx)_(?:forward|backward)\w*|_D?W?f?_?D?W?_?d?fg_kernel", "elementwise", "gated_act", sign=_formats),
        Rule(r"_?\w*(?:quant)\w*", "quantize", "quantize", sign=_formats),
        Rule(r"_?\w*(?:reshape_and_cache|kv_cache|set_kv|set_mla_kv|store_kv|write_kv|cache_kernel|embedding|gather|scatter|index_)\w*", "gather_scatter", "index", sign=_formats),
        Rule(r"_?\w*(?:selective_scan|selective_state|chunk_scan|chunk_state|state_passing|chunk_cumsum|mamba|ssd_|fused_recurrent|chunk_gated|chunk_delta|delta_rule|causal_conv1d|chunk_fwd|chunk_bwd|recompute_w_u|solve_tril|gla_|wkv)\w*", "ssm", "scan", sign=_formats),
        Rule(r"_?\w*(?:topk|top_k_only|sort)\w*", "sort", "topk", sign=_formats),
        Rule(r"_?\w*(?:sampl|rejection|top_p|top_k_top_p|penalt|gumbel)\w*", "sampling", "sampling", sign=_formats),
        Rule(r"_?copy_\w*(?:page|tensor|block)?\w*kernel\w*|_?(?:copy|transpose|permute|cat|concat|fill|zero)_\w*", "copy", "copy", sign=_formats),
        Rule(r"_?\w*(?:adam|sgd|lion|optimizer)\w*", "optimizer", "step", sign=_formats),
    ),
    tokens=(
        Token(r"matmul_ogs|matmul", "matrix product; ogs: gathered and scattered rows of experts"),
        Token(r"[NT]{3}", "layouts of the operands and the result"),
        Token(r"\d+x\d+x\d+x\d+", "block tile M x N x K, split of K"),
        Token(r"persistent", "blocks stay and take tiles in turn"),
        Token(r"swiglu", "activation fused behind the product"),
        Token(r"tma|ws", "tensor memory accelerator, warp specialization"),
    ),
    examples={"_matmul_ogs_NTN_bf16xbf16xmxfp4_64x256x128x1_swiglu": "moe", "_attn_fwd_inner_kernel": "attention", "kernel_unified_attention_3d": "attention"},
    rank=60,
)  # fmt: skip
