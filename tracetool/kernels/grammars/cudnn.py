"""cuDNN: convolutions as implicit products, Winograd and Fourier; norms, pooling, layout helpers, attention.

``{arch}_scudnn_{M}x{N}_[winograd_...][relu|stridedB][_splitK]_{small|medium|large|interior}_{layout}_v{n}``: ``stridedB`` reads a
strided operand (a gradient; of the weights with ``splitK``). ``cudnn_generated_fort_native_sdpa_{sm}_flash_{fprop|bprop}_..._f16_knob_{n}_{M}x{N}x{D}``:
``f16`` there means any 16-bit format.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import typed, typed_as
from tracetool.kernels.symbols import Symbol

_PREFIX = r"(?:cudnn_(?:infer_|train_|ops_|cnn_)?)?"
_LAYOUT = re.compile(r"_([nt]{2})(?:_v\d+)?$")


def _scudnn(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    winograd, strided = "winograd" in text, "stridedB" in text
    split = "splitK" in text
    direction = "bwd_weight" if strided and split else "bwd_data" if strided else "fwd"
    if "dgrad" in text or "wgrad" in text:
        direction = "bwd_data" if "dgrad" in text else "bwd_weight"
    layout = _LAYOUT.search(text)
    return {
        "op": "winograd" if winograd else "implicit_gemm",
        "direction": direction,
        "algo": "winograd" if winograd else "implicit_gemm",
        "dtype": {"s": "fp32", "h": "fp16", "d": "fp64", "i": "int8"}.get(match["t"][-1]),
        "acc_dtype": {"s": "fp32", "h": "fp16", "d": "fp64", "i": "int32"}.get(match["t"][-1]),
        "tile_m": int(match["m"]) if match["m"] else None,
        "tile_n": int(match["n"]) if match["n"] else None,
        "arch": match["arch"],
        "epilogue": "relu" if "_relu" in text else None,
        "k_sharing": "split_k" if split else "slice_k" if "_sliced" in text else None,
        "layout": layout[1] if layout else None,
        "opclass": "tensorop" if re.search(r"_[shi]\d+cudnn", text) else "simt",
    }


_ENGINE = {"dgrad": "bwd_data", "wgrad": "bwd_weight", "bwd_data": "bwd_data", "bwd_filter": "bwd_weight"}


def _engine(match: re.Match[str], symbol: Symbol) -> Attributes:
    direction = next((v for k, v in _ENGINE.items() if k in symbol.head.lower()), "fwd")
    algo = (
        "explicit_gemm"
        if "explicit" in symbol.head and "implicit" not in symbol.head
        else "direct"
        if re.search(r"[Dd]epthwise|[Gg]rouped|[Dd]irect|small", symbol.head)
        else "implicit_gemm"
    )
    return {"op": f"conv_{direction}", "direction": direction, "algo": algo, "dtype": typed(symbol)}


def _winograd(match: re.Match[str], symbol: Symbol) -> Attributes:
    direction = (
        "bwd_weight"
        if "wgrad" in symbol.head.lower()
        else "bwd_data"
        if "dgrad" in symbol.head.lower()
        else "fwd"
    )
    return {"op": "winograd_transform", "algo": "winograd", "direction": direction, "dtype": typed(symbol)}


def _norm(match: re.Match[str], symbol: Symbol) -> Attributes:
    back = "bn_bw" in symbol.head or "ackward" in symbol.head or "_bwd" in symbol.head
    return {
        "op": "batch_norm_bwd" if back else "batch_norm_fwd",
        "direction": "bwd" if back else "fwd",
        "dtype": typed(symbol),
    }


def _sdpa(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    tile = re.search(r"_(\d+)x(\d+)x(\d+)_", text)
    arch = re.search(r"_(sm\d+)_", text)
    back = "bprop" in text
    return {
        "op": "flash_bwd" if back else "flash_fwd",
        "direction": "bwd" if back else "fwd",
        "arch": arch[1] if arch else None,
        "tile_m": int(tile[1]) if tile else None,
        "tile_n": int(tile[2]) if tile else None,
        "head_dim": int(tile[3]) if tile else None,
        "mma": "wgmma" if "wgmma" in text else "wmma" if "wmma" in text else None,
    }


GRAMMAR = Grammar(
    library="cudnn",
    title="cuDNN convolutions, norms, pooling and attention",
    source="names in public traces; algorithm names of the cuDNN developer guide (IMPLICIT_GEMM, PRECOMP, WINOGRAD, WINOGRAD_NONFUSED, FFT)",
    gate=r"ToFoldedNhwc|foldedNhwcTo|kernel_helper_stage|op_generic_tensor|op_tensor\d|reduce_wgrad|compute\w*Offsets|cudnn|scudnn|hcudnn|icudnn|cask_|winograd|convolve_|wgrad_alg|dgrad_engine|fft2d_|computeOffsets|kern_precompute|^fmha_v2_cudnn|nchwToNhwc|nhwcToNchw|"
    r"flip_filter|compute_gemm_pointers|nhwcAddPadding|pooling_fw|pooling_bw|bn_(?:fw|bw)_|conv2d_grouped|conv2d_c1_k1|implicit_convolve|dgrad2d|wgrad2d|LSTM_|RNN_|elemWiseRNN|GRU_",
    rules=(
        Rule(rf"{_PREFIX}(?:cask_)?(?P<arch>kepler|maxwell|pascal|volta|turing|ampere|hopper)_(?:fp16_|int8_)?(?P<t>[shdi])(?:\d+)?cudnn_(?:\w*?_)??(?P<m>\d+)x(?P<n>\d+)", "conv", "implicit_gemm", sign=_scudnn),
        Rule(rf"{_PREFIX}(?P<arch>\w+?)_(?P<t>[shdi])(?:\d+)?cudnn(?P<m>)(?P<n>)", "conv", "implicit_gemm", sign=_scudnn),
        Rule(r"cudnn_generated_fort_native_sdpa|cudnn_generated_\w*(?:flash|sdpa)", "attention", "flash_fwd", sign=_sdpa),
        Rule(r"cudnn_generated\w*(?:norm|ln_)", "norm", "norm"),
        Rule(r"cudnn_generated\w*(?:conv|fprop|dgrad|wgrad)", "conv", sign=_engine),
        Rule(r"cudnn_generated\w*(?:matmul|gemm)", "gemm", "gemm"),
        Rule(r"cudnn_generated\w*", "elementwise", "pointwise"),
        Rule(r"(?:\w+::)*winograd\w*::\w+", "copy", where="scope", sign=_winograd),
        Rule(r"\w*[Ww]inograd\w*(?:Filter|Data|Output|Transform|Delta|Wgrad|offsets)\w*", "copy", sign=_winograd),
        Rule(r"\w*[Ww]inograd\w*", "conv", "winograd", sign=typed_as(algo="winograd")),
        Rule(r"fft2d_[rc]2[rc]\w*", "copy", "fft_transform", sign=typed_as(algo="fft")),
        Rule(r"(?:flip|pad)_filter\w*", "copy", "layout_transform"),
        Rule(r"compute_gemm_pointers\w*", "other", "pointers"),
        Rule(r"(?:\w+::)*init_device_workspace_kernel", "copy", "workspace", where="scope"),
        Rule(r"reduce_wgrad\w*", "splitk_reduce", "splitk_reduce", sign=typed_as()),
        Rule(r"kernel_helper_stage\w*", "copy", "conv_offsets"),
        Rule(r"(?:compute\w*Offsets\w*|kern_precompute_indices|generateWinograd)\w*", "copy", "conv_offsets"),
        Rule(r"bn_(?:fw|bw)\w*|batch_?norm\w*|\w*BatchNorm\w*", "norm", "batch_norm", sign=_norm),
        Rule(r"\w*pooling_(?:fw|bw)\w*|\w*[Pp]ooling\w*", "pooling", "pool", sign=typed_as()),
        Rule(r"\w*softmax\w*", "softmax", "softmax", sign=typed_as()),
        Rule(r"(?:LSTM|GRU|RNN|elemWiseRNN|elementWise_f|persist)\w*", "ssm", "rnn", sign=typed_as()),
        Rule(r"lrn\w*", "norm", "lrn", sign=typed_as()),
        Rule(r"\w*(?:dgrad|wgrad|fprop|conv(?!ert)(?:olve)?\w*|bwd_data|bwd_filter)\w*", "conv", sign=_engine),
        Rule(r"\w*(?:nchwToNhwc|nhwcToNchw|n(?:chw|hwc)ToFolded\w*|foldedNhwc|tensorTransform|nhwcAddPadding|convertTensor|transpose|reorder|im2col|region_transform|calc_bias|copy)\w*", "copy", "layout_transform", sign=typed_as()),
        Rule(r"(?:scalePackedTensor|setTensor|fill)\w*", "elementwise", "scale", sign=typed_as()),
        Rule(r"\w*(?:reduce|Reduce|bias_grad|BiasGrad|splitK)\w*", "reduction", "reduction", sign=typed_as()),
        Rule(r"(?:op_generic_tensor|op_tensor|add_tensor|addTensor|cudnn_elementwise|activation|dropout)\w*", "elementwise", "pointwise", sign=typed_as()),
        Rule(r"(?:\w+::)*(?:cudnn|cask)\w*::(?:ops|detail)", "elementwise", where="scope", sign=typed_as()),
    ),
    tokens=(
        Token(r"infer|train", "the part of cuDNN it was built for"),
        Token(r"kepler|maxwell|pascal|volta|turing|ampere|hopper", "architecture the kernel was compiled for"),
        Token(r"[shdi]\d*cudnn", "accumulator letter and, on tensor cores, the matrix instruction"),
        Token(r"\d+x\d+", "block tile of the implicit product"),
        Token(r"winograd", "Winograd algorithm: fewer multiplications, 2.25 times for 2x2 outputs of 3x3 filters"),
        Token(r"tile\d+[a-z]?", "how the block covers images, rows and columns of the Winograd domain"),
        Token(r"stridedB", "strided second operand: a gradient"),
        Token(r"splitK", "the summed dimension is shared between blocks: gradient of the weights"),
        Token(r"small|medium|large|interior", "index width, or all blocks full"),
        Token(r"relu|exp", "activation slot of the epilogue, used or not"),
        Token(r"fprop|dgrad|wgrad|bprop", "forward, gradient of the data, of the weights, of both"),
        Token(r"nchw|nhwc|nchwToNhwcKernel|nhwcToNchwKernel", "tensor layout"),
        Token(r"f16", "any 16-bit format (in attention names)"),
    ),
    examples={
        "volta_scudnn_128x64_stridedB_splitK_medium_nn_v1": "conv",
        "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 256, true, 1>(float)": "norm",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0": "attention",
    },
    rank=14,
)  # fmt: skip
