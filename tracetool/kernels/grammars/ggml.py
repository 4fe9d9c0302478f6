"""llama.cpp (ggml): quantized products and the kernels around them.

``mul_mat_q<type, ...>`` tiled product of quantized weights, ``mul_mat_vec_q<type, n>`` the same for few columns, ``flash_attn_ext_*``,
``rms_norm_f32<block>``, ``rope_{norm|neox}``, ``cpy_f32_f16``, ``quantize_q8_1``.
"""

from __future__ import annotations

from tracetool.kernels.grammar import Grammar, Rule, Token
from tracetool.kernels.name_readers import typed_as

GRAMMAR = Grammar(
    library="ggml",
    title="llama.cpp: kernels of ggml",
    source="ggml-org/llama.cpp, ggml/src/ggml-cuda",
    gate=r"^(?:mul_mat|quantize_(?:q8|mmq)|dequantize_|flash_attn_(?:ext|tile|vec|mask|stream|combine|mma)|k_(?:get_rows|bin_bcast|argsort|repeat|sum|compute|set_rows)|rms_norm_f32|norm_f32|rope_(?:norm|neox|multi|vision)|soft_max_f(?:32|16)|cpy_|convert_unary|scale_f32|silu_f32|gelu_f32|unary_(?:op|gated)|group_norm_f32|im2col_kernel|concat_|ssm_(?:scan|conv)|mmq_|argsort_f32|upscale_f32|pool2d_nchw|diag_mask|clamp_f32|acc_f32|timestep|conv_transpose|rwkv_wkv|gated_linear|topk_moe|mmf_|mul_mat_f|convert_unary|sum_rows|reduce_rows|ggml)",
    rules=(
        Rule(r"mul_mat_\w*fixup", "splitk_reduce", "splitk_reduce", sign=typed_as()),
        Rule(r"mul_mat_vec\w*", "gemv", "gemv", sign=typed_as()),
        Rule(r"mul_mat\w*|mmq_\w*|mmf_\w*", "gemm", "quantized_gemm", sign=typed_as()),
        Rule(r"flash_attn\w*combine\w*|flash_attn_stream_k_fixup", "attention", "splitkv_combine", sign=typed_as()),
        Rule(r"flash_attn\w*", "attention", "flash_fwd", sign=typed_as()),
        Rule(r"(?:de)?quantize\w*", "quantize", "quantize", sign=typed_as()),
        Rule(r"(?:rms_norm|norm|group_norm|l2_norm)\w*", "norm", "norm", sign=typed_as()),
        Rule(r"soft_max\w*", "softmax", "softmax", sign=typed_as()),
        Rule(r"rope\w*", "rope", "rope", sign=typed_as()),
        Rule(r"k_(?:get_rows|set_rows)\w*", "gather_scatter", "get_rows", sign=typed_as()),
        Rule(r"(?:k_argsort|argsort)\w*", "sort", "sort", sign=typed_as()),
        Rule(r"topk_moe\w*|\w*expert\w*", "moe", "routing", sign=typed_as()),
        Rule(r"(?:k_sum|sum_rows|reduce_rows|k_compute_batched)\w*", "reduction", "reduce", sign=typed_as()),
        Rule(r"(?:cpy|convert|concat|k_repeat|im2col|diag_mask|upscale)\w*", "copy", "copy", sign=typed_as()),
        Rule(r"(?:ssm|rwkv|gated_linear)\w*", "ssm", "scan", sign=typed_as()),
        Rule(r"conv\w*", "conv", "conv_fwd", sign=typed_as()),
        Rule(r"pool2d\w*", "pooling", "pool", sign=typed_as()),
        Rule(r"\w+", "elementwise", "pointwise", sign=typed_as()),
    ),
    tokens=(
        Token(r"mul_mat_q\w*|mul_mat_f\w*", "tiled product; q: quantized weights"),
        Token(r"mul_mat_vec\w*", "matrix times few vectors"),
        Token(r"flash_attn\w*", "attention; stream_k_fixup and combine join its parts"),
        Token(r"quantize_\w+", "activations to 8 bits for the product"),
        Token(r"k_bin_bcast\w*", "elementwise with broadcasting"),
    ),
    examples={"void mul_mat_q<(ggml_type)12, 64, 8, false>(char const*, char const*)": "gemm", "void rms_norm_f32<1024, true>(float const*, float*, int)": "norm"},
    rank=21,
)  # fmt: skip
