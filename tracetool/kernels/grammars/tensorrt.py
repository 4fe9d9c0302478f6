"""TensorRT and TensorRT-LLM: fused plug-in kernels, generated products, reformats.

Myelin, TensorRT's compiler, joins the first letters of the operators it fused: ``__myl_[bb0_8_]MeanSubMulMeanAddSqrt..``; its fused attention is
``[__mye<n>]_gemm_mha_v2``, in decode ``_gemv_mha_v1``. Generated batched products: ``bmm_{out}_{A}{B}_{acc}_t{M}x{N}x{K}[u{n}]_s{S}_et.._m{mma}_cga{x}x{y}x{z}_..._[swiGlu]_..._{sm}``.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import number_format, typed_as
from tracetool.kernels.symbols import Symbol

_FORMATS = re.compile(r"(MxE4m3|MxE2m1|MxInt4|E4m3|E2m1|E5m2|Bfloat16|Fp16|Fp32|Int4)")
_NAMES = {"Bfloat16": "bf16", "Fp16": "fp16", "Fp32": "fp32", "E4m3": "fp8", "MxE4m3": "fp8", "E5m2": "fp8", "E2m1": "nvfp4", "MxE2m1": "mxfp4", "Int4": "int4", "MxInt4": "int4"}  # fmt: skip


def _generated(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    tokens = text.split("_")
    operands = _FORMATS.findall(tokens[2]) if len(tokens) > 2 else []
    tile = re.search(r"_t(\d+)x(\d+)x(\d+)", text)
    stages, mma = re.search(r"_s(\d+)_", text), re.search(r"_m(\d+x\d+x\d+)", text)
    cluster, arch = re.search(r"_cga(\d+)x(\d+)", text), re.search(r"_(sm\d+)", text)
    layout = re.search(r"_([TN]{2})_", text)
    out: Attributes = {
        "out_dtype": _NAMES.get(tokens[1]),
        "dtype": _NAMES.get(operands[-1]) if operands else None,  # activations are the second operand
        "b_dtype": _NAMES.get(operands[0]) if len(operands) > 1 else None,
        "acc_dtype": _NAMES.get(tokens[3]) if len(tokens) > 3 else None,
        "stages": int(stages[1]) if stages else None,
        "mma": mma[1] if mma else None,
        "cluster": f"{cluster[1]}x{cluster[2]}" if cluster else None,
        "arch": arch[1] if arch else None,
        "layout": layout[1].lower() if layout else None,
        "gated": True if "swiGlu" in text or "geGlu" in text else None,
        "epilogue": "swiglu" if "swiGlu" in text else None,
        "family": "moe" if match["kind"] == "bmm" else "gemm",
        "op": "moe_gemm" if match["kind"] == "bmm" else "gemm",
    }  # fmt: skip
    if tile:
        out.update(tile_m=int(tile[1]), tile_n=int(tile[2]), tile_k=int(tile[3]))
    return out


#: An operator in a name of Myelin, by its first three letters (Fc by both); later versions write four.
_FUSED = re.compile(r"MM|[A-Z][a-z]+")
_MOVES = frozenset(("tra", "res", "mov", "sli", "con", "cas", "rep", "pad", "squ", "uns", "shu"))


def _myelin(match: re.Match[str], symbol: Symbol) -> Attributes:
    """Read a kernel of fused operators by those that shape its work, first of all what multiplies."""
    operators = [word[:3].lower() for word in _FUSED.findall(match["ops"])]
    all_operators = set(operators)
    family, op = "elementwise", "pointwise"
    for needed, answer in (
        ({"fc"}, ("gemm", "gemm")), ({"mm"}, ("gemm", "gemm")), ({"gem"}, ("gemm", "gemm")), ({"cor"}, ("conv", "conv_fwd")), ({"top"}, ("sort", "topk")),
        ({"mea", "sqr"}, ("norm", "norm")), ({"max", "exp", "sum"}, ("softmax", "fused_softmax")), ({"gat"}, ("gather_scatter", "index")),
        ({"sca"}, ("gather_scatter", "index")), ({"mea"}, ("reduction", "reduce")), ({"sum"}, ("reduction", "reduce")), ({"dqu"}, ("quantize", "dequantize")),
    ):  # fmt: skip
        if needed <= all_operators:
            family, op = answer
            break
    else:
        if "Maxr" in match["ops"] or "Minr" in match["ops"]:
            family, op = "reduction", "reduce"
        elif all_operators and all_operators <= _MOVES:
            family, op = "copy", "layout_transform"
    return {"family": family, "op": op, "fused_ops": "_".join(operators) or None}


def _format(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    return {
        "dtype": number_format(
            "fp16" if "FP16" in text else "int8" if "INT8" in text else "fp32" if "FP32" in text else None
        )
    }


GRAMMAR = Grammar(
    library="tensorrt_llm",
    title="TensorRT and TensorRT-LLM",
    source="NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels and trtllmGenKernels; NVIDIA/TensorRT, plugin",
    gate=r"tensorrt|trtllm|(?:^|::)(?:bmm|gemm)_(?:Bfloat16|Fp16|Fp32|E4m3|E2m1|MxE4m3|MxE2m1)|moe::dev|nvinfer|genericReformat|__my[el]|^myelin|^mha_v2|_(?:gemm|gemv)_mha_v\d|generatedNativePointwise|cuInt8|cuEltwise|permutationKernelPLC|CUTENSOR|cutensor|masked_multihead_attention|mmha_|xqa|applyBiasRopeUpdateKVCache|invokeRms|dequant|computeSeqAndPadding|doActivationKernel|expandInputRows|finalizeMoe|fusedBuildExpert|blockExpertPrefixSum|globalExpertPrefixSum|computeExpert|indexBagging|^kernel_mha(?:_|$)",
    rules=(
        Rule(r"(?P<kind>bmm|gemm)_(?:Bfloat16|Fp16|Fp32|E4m3|E2m1|Mx\w+?)_", "moe", sign=_generated, fixed={"library": "trtllm_gen"}),
        Rule(r"\w*(?:masked_multihead|mmha_|xqa|MultiBlock\w*Attention)\w*|kernel_mha(?:_\w+)?$", "attention", "paged_decode", sign=typed_as(phase="decode")),
        Rule(r"\w*_gemm_mha_v\d\w*|__myl_\w*[Mm]ha\w*", "attention", "flash_fwd", fixed={"library": "tensorrt"}),
        Rule(r"\w*_gemv_mha_v\d\w*", "attention", "decode", fixed={"library": "tensorrt", "phase": "decode"}),
        Rule(r"__myl_(?:bb\d+_\d+_)?(?P<ops>[A-Z][A-Za-z]+)\w*", "elementwise", sign=_myelin, fixed={"library": "tensorrt"}),
        Rule(r"\w*(?:[Rr]outing|finalize|[Ee]xpert|expandInput|fusedBuild|moe\w*(?:Sort|Permute))\w*", "moe", "routing", sign=typed_as()),
        Rule(r"(?:\w+::)*moe::dev::(?:routing|finalize|permute)", "moe", "routing", where="scope", sign=typed_as()),
        Rule(r"(?:\w+::)*moe::dev::activation", "elementwise", "gated_act", where="scope", sign=typed_as()),
        Rule(r"\w*(?:quanti[sz]e|Quant|cvt_|dequant)\w*", "quantize", "quantize", sign=typed_as()),
        Rule(r"\w*(?:[Rr]ms[Nn]orm|[Ll]ayer[Nn]orm|RMSNorm|Norm)\w*", "norm", "rms_norm", sign=typed_as()),
        Rule(r"\w*(?:[Rr]ope|UpdateKVCache|[Rr]otary)\w*", "rope", "rope", sign=typed_as()),
        Rule(r"(?:trt_)?\w*_xmma_pooling\w*", "pooling", "pool", sign=_format),
        Rule(r"\w*(?:[Ss]ampl|top[KP]|TopK|TopP|beam|penalty)\w*", "sampling", "sampling", sign=typed_as()),
        Rule(r"\w*(?:[Aa]ll_?[Rr]educe|lamport|userBuffer)\w*", "collective", "all_reduce", sign=typed_as()),
        Rule(r"\w*(?:A2A|[Aa]ll_?[Tt]o_?[Aa]ll)\w*", "collective", "all_to_all", sign=typed_as()),
        Rule(r"\w*(?:copyVectorized|copyPacked|Reformat|permutationKernel|[Tt]ranspose|copy|[Cc]py|[Cc]ast|[Cc]onvert|cuInt8)\w*", "copy", "layout_transform", sign=typed_as()),
        Rule(r"\w*(?:gemv|cudaCoreGemm|weight_only|fpA_intB)\w*", "gemm", "quantized_gemm", sign=typed_as()),
        Rule(r"\w*(?:contraction|gemm|matmul|Gemm)\w*", "gemm", "gemm", sign=typed_as()),
        Rule(r"\w*(?:conv|Conv)\w*", "conv", "conv_fwd", sign=typed_as()),
        Rule(r"\w*(?:[Ss]oft[Mm]ax)\w*", "softmax", "softmax", sign=typed_as()),
        Rule(r"\w*(?:[Rr]educe|Sum|Max)\w*", "reduction", "reduce", sign=typed_as()),
        Rule(r"\w*(?:gather|[Ee]mbedding|lookup|indexBagging|Seq)\w*", "gather_scatter", "index", sign=typed_as()),
        Rule(r"(?:__myl_|myelin|generatedNative|cuEltwise)\w*|\w*(?:[Aa]ctivation|[Pp]ointwise|[Ee]ltwise|elementwise|Bias|[Gg]elu)\w*", "elementwise", "pointwise", sign=typed_as()),
    ),
    tokens=(
        Token(r"bmm|gemm", "generated product; bmm: one per expert"),
        Token(r"t\d+x\d+x\d+u?\d*", "block tile M x N x K, unrolled K"),
        Token(r"s\d+", "stages"),
        Token(r"et\d+x\d+", "epilogue tile"),
        Token(r"m\d+x\d+x\d+", "matrix instruction"),
        Token(r"cga\d+x\d+x\d+", "cluster"),
        Token(r"swiGlu", "gated activation fused"),
        Token(r"dynBatch|bN|bM", "how experts are batched"),
        Token(r"(?:[A-Z][a-z]+)+", "Myelin: operators fused, in order, by their first letters (Fc product, Corr convolution, Tran transposition)"),
        Token(r"schedP\w+|rM|rN|tma\w*|transOut|clmp|biasM", "schedule, routing side, loads, output orientation"),
    ),
    examples={
        "bmm_Bfloat16_E4m3E4m3_Fp32_t128x32x256u2_s4_et64x32_m64x32x32_cga1x1x1_16dp256b_rM_TN_transOut_schedS_bN_dynBatch_sm100f": "moe",
        "void tensorrt_llm::kernels::generalRmsNorm<__nv_bfloat16, false>(__nv_bfloat16 const*)": "norm",
    },
    rank=6,
)  # fmt: skip
