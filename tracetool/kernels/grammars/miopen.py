"""MIOpen: AMD convolutions (implicit product, Winograd, direct), batch norm, pooling, layout helpers.

``igemm_{fwd|bwd|wrw}_gtcx{2|3}_{nhwc|nchw}_{T}_bx{b}_ex{e}_bt{M}x{N}x{K}_wt{m}x{n}x{k}_ws.._wr.._ta.._tb.._[gkgs]``; ``gks`` shares K between
blocks. ``miopenSp3AsmConv_v.._gfx9_{T}_..f{m}x{r}`` is Winograd F(m, r).
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import format_in, number_format, typed_as
from tracetool.kernels.symbols import Symbol

_DIRECTIONS = {"fwd": "fwd", "bwd": "bwd_data", "wrw": "bwd_weight"}


def _igemm(match: re.Match[str], symbol: Symbol) -> Attributes:
    text = symbol.head
    tile = re.search(r"_bt(\d+)x(\d+)x(\d+)", text)
    wave = re.search(r"_wt(\d+)x(\d+)x(\d+)", text)
    dtype = re.search(r"_(bf16|fp16|fp32|int8|fp8|half|float)(?:x\d+)?(?:_|$)", text)
    layout = re.search(r"_(n[chw]{3,4}c?|n[a-z]{3})_", text)
    direction = _DIRECTIONS[match["d"]]
    out: Attributes = {
        "op": f"conv_{direction}",
        "direction": direction,
        "algo": "implicit_gemm",
        "dtype": number_format(dtype[1]) if dtype else None,
        "layout": layout[1] if layout else None,
        "mma": f"{wave[1]}x{wave[2]}x{wave[3]}" if wave else None,
        "k_sharing": "split_k" if "gks" in text.split("_")[-1] or "gkgs" in text else None,
        "opclass": "tensorop" if wave else "simt",
    }
    if tile:
        out.update(tile_m=int(tile[1]), tile_n=int(tile[2]), tile_k=int(tile[3]))
    return out


def _conv(match: re.Match[str], symbol: Symbol) -> Attributes:
    low = symbol.head.lower()
    direction = (
        "bwd_weight"
        if "wrw" in low or "wrweights" in low or "bwdw" in low
        else "bwd_data"
        if "bwd" in low or "dgrad" in low
        else "fwd"
    )
    winograd = re.search(r"_f(\d)x(\d)|winograd", low)
    transform = "xform" in low or "transform" in low
    wino = "sp3asmconv" in low or winograd is not None
    return {
        "op": "winograd_transform" if wino and transform else "winograd" if wino else f"conv_{direction}",
        "direction": direction,
        "algo": "winograd"
        if wino
        else "implicit_gemm"
        if "implicitgemm" in low or "igemm" in low
        else "direct",
        "winograd_tile": int(winograd[1]) if winograd and winograd[1] else None,
        "dtype": format_in(symbol.head),
    }


def _norm(match: re.Match[str], symbol: Symbol) -> Attributes:
    back = "Bwd" in symbol.head or "bwd" in symbol.head or "ackward" in symbol.head
    return {"op": "batch_norm_bwd" if back else "batch_norm_fwd", "direction": "bwd" if back else "fwd"}


GRAMMAR = Grammar(
    library="miopen",
    title="MIOpen convolutions, batch norm, pooling and helpers",
    source="ROCm/rocm-libraries, projects/miopen/src/kernels and src/solver; igemm naming of ROCm/iGEMMgen",
    gate=r"^igemm_|[Mm][Ii][Oo]pen|MIOpen|^batched_transpose_|^SubTensorOp|^Op(?:1d|2d|3d|4d|5d|Tensor)|^gridwise_|^naive_conv|^gcnAsm|^mloPooling|^Conv[WU]|^general_4d|^Im2|^Col2Im|^conv_ck|^UniversalTranspose|^gfx\d+_conv|^winograd_|^tensorOp|^Softmax(?:Forward|Backward)|^pooling(?:Forward|Backward)|^reduce_calculation|^cast_tensor|^static_composable|^xform|^Reduce\w*Calculation|^LayernormFwd|^LayerNorm(?:Fwd|Bwd)|^T5LayerNorm|^Addlayernorm|^Groupnorm|^GroupNorm(?:Fwd|Bwd)|^SumForward|^Cat\d|^Adam(?:Pack|Term)|^transposed?_(?:NCHW|CNHW|packed)",
    rules=(
        Rule(r"igemm_(?P<d>fwd|bwd|wrw)_", "conv", sign=_igemm),
        Rule(r"(?:MIOpen|miopen)\w*(?:BatchNorm|BatchnormNorm|Batchnorm|LRN|LayerNorm)\w*|Layer[Nn]orm\w*|T5Layer\w*|Group[Nn]orm\w*|Addlayernorm\w*", "norm", "batch_norm", sign=_norm),
        Rule(r"(?:mlo|MIO|miopen|\w*)[Pp]ooling\w*|mloPool\w*", "pooling", "pool"),
        Rule(r"batched_transpose_\w+|transposed?_\w+|UniversalTranspose\w*|(?:MIOpen|miopen)?\w*(?:Im2d?Col|Im2Col|Col2Im)\w*|general_4d\w*|cast_tensor\w*|SubTensorOpWithCast\w*|SubTensorOpWithSubTensor\w*|Cat\d\w*", "copy", "layout_transform", sign=typed_as()),
        Rule(r"SubTensorOp\w*|Op(?:\dd|Tensor)\w*|tensorOp\w*|(?:MIOpen|miopen)\w*(?:Activ|Neuron|Act|Tensor|Scalar|Add|Set|Scale)\w*", "elementwise", "pointwise", sign=typed_as()),
        Rule(r"(?:MIOpen|miopen)?\w*Softmax\w*", "softmax", "softmax"),
        Rule(r"(?:MIOpen|miopen)\w*(?:Dropout|PRNG|Rand)\w*", "rng", "dropout"),
        Rule(r"(?:MIOpen|miopen)\w*Adam\w*|Adam\w*", "optimizer", "adam"),
        Rule(r"\w*(?:reduce|Reduce)_?\w*|SumForward\w*|(?:MIOpen|miopen)?ConvBwdB\w*", "reduction", "reduction"),
        Rule(r"(?:naive_conv|gridwise_|gcnAsm|miopenGcn|miopenSp3|miopenConv|MIOpenConv|Conv|conv_ck|gfx\d|winograd|static_composable|xform|miopen\w*[Cc]onv|MIOpen\w*[Cc]onv|miopenWino)\w*", "conv", sign=_conv),
        Rule(r"(?:MIOpen|miopen)\w*(?:RNN|LSTM|GRU)\w*", "ssm", "rnn"),
        Rule(r"(?:MIOpen|miopen)\w+", "other", "helper"),
    ),
    tokens=(
        Token(r"igemm", "implicit matrix product"),
        Token(r"fwd|bwd|wrw", "forward, gradient of the data, gradient of the weights"),
        Token(r"gtcx\d?|gtcn\d?", "matrix cores of CDNA generation; n: vector units"),
        Token(r"bt\d+x\d+x\d+", "block tile M x N x K"),
        Token(r"wt\d+x\d+x\d+", "matrix instruction M x N x K"),
        Token(r"gkgs|gks", "K is shared between blocks"),
        Token(r"bx\d+|ex\d+", "indices merged, tensor padded"),
        Token(r"f\dx\d", "Winograd outputs x filter"),
        Token(r"nhwc|nchw", "tensor layout"),
    ),
    examples={
        "igemm_wrw_gtcx2_nhwc_fp16_bx0_ex0_bt128x128x32_wt32x32x8_ws1x1_wr2x2_ta1x4x1x4_1x8x1x32_tb1x4x1x4_1x8x1x32_gkgs": "conv",
        "miopenSp3AsmConv_v21_1_2_gfx9_fp32_stride1_f3x2": "conv",
        "MIOpenBatchNormFwdInferSpatialEst": "norm",
    },
    rank=22,
)  # fmt: skip
