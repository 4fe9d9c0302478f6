"""Transformer Engine, Apex, DeepSpeed, DeepGEMM, FBGEMM, bitsandbytes: fused kernels of training stacks."""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import numbers_of, typed, typed_as
from tracetool.kernels.symbols import Symbol

#: ``GemmType`` of DeepGEMM, demangled or mangled; 0 is one product, 4 a batch of them, the rest are groups of rows.
_GEMM_TYPE = re.compile(r"GemmType(?:\)|E)(\d)")


def _deepgemm(match: re.Match[str], symbol: Symbol) -> Attributes:
    """DeepGEMM's template lists the majors, sizes fixed at compile time (N, K, groups), then the block tile M, N, K and stages."""
    numbers = numbers_of(symbol)
    if "fp8_fp4" in symbol.head:  # granularities of scales and the alignment of K come first
        numbers = numbers[5:]
    kind = _GEMM_TYPE.search(symbol.raw)
    out: Attributes = {"dtype": typed(symbol), "op": "gemm", "arch": match["arch"]}
    for i in range(len(numbers) - 2):
        m, n, k = numbers[i : i + 3]
        if m in (64, 128, 192, 256) and 8 <= n <= 256 and k in (64, 128):
            out.update(tile_m=m, tile_n=n, tile_k=k)
            break
    if (kind and kind[1] not in "04") or re.search(r"[Gg]rouped|Masked|contiguous|mega_moe", symbol.text):
        out.update(family="moe", op="grouped_gemm")
    if "mqa" in symbol.head or "logits" in symbol.head:
        out.update(family="attention", op="index_logits")
    return out


GRAMMAR = Grammar(
    library="training",
    title="Transformer Engine, Apex, DeepSpeed, DeepGEMM, FBGEMM, bitsandbytes",
    source="NVIDIA/TransformerEngine, transformer_engine/common; NVIDIA/apex, csrc; deepspeedai/DeepSpeed, csrc; deepseek-ai/DeepGEMM, deep_gemm/include; pytorch/FBGEMM, fbgemm_gpu/codegen; bitsandbytes-foundation/bitsandbytes, csrc/kernels.cu",
    gate=r"transformer_engine|deep_gemm|fbgemm|split_embedding|(?:^|::)(?:ln_fwd|ln_bwd|rmsnorm_|cuApplyLayerNorm|cuComputePart|cuApplyRMS|scaled_(?:masked_|upper)|attn_softmax)|apex|deepspeed|(?:^|::)k(?:Optimizer|Quantize|Dequantize|gemm|Estimate|Precondition)\w*|bounds_check_indices|linearize_index|permute_[12]D|permute_pooled|recat_|jagged|dense_embedding|batched_unary|FP8rowwise|_float_to|sm\d+_\w*gemm_1d|block_bucketize|lxu_|lru_|lfu_|adam_cuda|delinearize|sparse_async|unpack_embedding",
    rules=(
        Rule(r"(?P<arch>sm\d+)_\w*(?:gemm|mqa|bmm|logits|prefix|mega_moe)\w*", "gemm", sign=_deepgemm, fixed={"library": "deepgemm"}),
        Rule(r"(?:\w+::)*deep_gemm::(?P<arch>)\w*(?:transpose|pack|cast|layout)", "copy", "layout_transform", where="scope", fixed={"library": "deepgemm"}),
        Rule(r"(?:\w+::)*deep_gemm::(?P<arch>)\w+", "gemm", where="scope", sign=_deepgemm, fixed={"library": "deepgemm"}),
        Rule(r"(?:split|dense|ssd|batch_index_select_dim0)_embedding\w*backward\w*|\w*embedding\w*grad\w*", "gather_scatter", "embedding_bwd", sign=typed_as(direction="bwd", library="fbgemm")),
        Rule(r"\w*(?:embedding|bounds_check_indices|linearize|permute_[12]D|permute_indices|_offsets_range|FP8rowwise|jagged|block_bucketize|lxu_|lru_|lfu_|delinearize|index_select|keyed_jagged|invert_permute|expand_into)\w*", "gather_scatter", "embedding", sign=typed_as(library="fbgemm")),
        Rule(r"moe_\w*permute\w*", "moe", "routing", sign=typed_as()),
        Rule(r"\w*(?:permute_pooled|recat_|batched_unary|permute|_copy_)\w*", "copy", "permute", sign=typed_as(library="fbgemm")),
        Rule(r"(?:ln|rmsnorm|layernorm|ln_parallel)_(?:fwd|bwd)\w*|cu(?:Apply|Compute)\w+|\w*(?:[Ll]ayer[Nn]orm|[Ll]ayernorm|rms_?norm|RMSNorm|layer_norm)\w*", "norm", "norm", sign=typed_as()),
        Rule(r"(?:scaled_(?:masked_|upper_triang_)?\w*softmax|attn_softmax)\w*|\w*softmax\w*", "softmax", "scaled_softmax", sign=typed_as()),
        Rule(r"\w*(?:[Aa]dam|Lamb|SGD|Lion|Adagrad)\w*|kOptimizer\w*|kPrecondition\w*", "optimizer", "step", sign=typed_as()),
        Rule(r"kgemm_4bit\w*|kgemm\w*", "gemv", "quantized_gemv", sign=typed_as(b_dtype="int4", library="bitsandbytes")),
        Rule(r"\w*(?:[Qq]uanti[sz]e|cast_transpose|cast_mxfp8|fp8_quant|kEstimate|_float_to|to_float|compute_scale|amax|rowwise_scal)\w*", "quantize", "quantize", sign=typed_as()),
        Rule(r"\w*(?:dropout)\w*", "rng", "dropout", sign=typed_as()),
        Rule(r"\w*(?:rope|rotary)\w*", "rope", "rope", sign=typed_as()),
        Rule(r"\w*(?:swiglu|geglu|gelu|relu|silu|glu_|act_)\w*", "elementwise", "activation", sign=typed_as()),
        Rule(r"\w*(?:transpose|pad_|memset|copy|unpermute)\w*", "copy", "transpose", sign=typed_as()),
        Rule(r"\w*(?:moe|expert|topk|permut)\w*", "moe", "routing", sign=typed_as()),
        Rule(r"\w*(?:gemm|matmul)\w*", "gemm", "gemm", sign=typed_as()),
        Rule(r"\w*(?:attention|attn|fmha|fused_attn|cu_seqlens)\w*", "attention", "helper", sign=typed_as()),
        Rule(r"\w*(?:reduce|norm|sum)\w*", "reduction", "reduce", sign=typed_as()),
        Rule(r"(?:\w+::)*(?:transformer_engine|fbgemm_gpu|deepspeed)::\w+", "elementwise", "pointwise", where="scope", sign=typed_as()),
    ),
    tokens=(
        Token(r"ln_fwd_\w+|ln_bwd_\w+|rmsnorm_\w+", "layer or RMS norm"),
        Token(r"cast_transpose\w*", "cast to fp8, rows and columns both written"),
        Token(r"split_embedding\w*", "table-batched embedding; backward codegen fuses the optimiser"),
        Token(r"sm\d+_\w*gemm\w*", "DeepGEMM: fp8 with scales per 128 elements"),
        Token(r"kgemm_4bit\w*|kDequantize\w*|kQuantize\w*", "bitsandbytes: 4-bit and 8-bit blocks"),
    ),
    examples={
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, 0u, 7168u, 2048u, 1u, 128u, 112u, 128u, 128u, 128u, 5u>(float*)": "gemm",
        "void transformer_engine::normalization::ln_fwd_tuned_kernel<transformer_engine::normalization::Kernel_traits<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, unsigned int, 4096u, 1u>>(float*)": "norm",
        "void kgemm_4bit_inference_naive<__half, 128, 16>(int, int, int, __half*)": "gemv",
    },
    rank=25,
)  # fmt: skip
