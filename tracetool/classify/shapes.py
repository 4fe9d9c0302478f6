"""Operator calls to the numbers the model takes: m, n, k; rows, cols; q_len, kv_len; elements.

Argument orders are those of PyTorch's ``native_functions.yaml``. A call that is not listed here is read by
the kernel's family: element counts for streaming kernels, the reduced axes for reductions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from tracetool.classify.calls import Call, Numbers, Shape, numel, size_of
from tracetool.classify.fused import ITSELF, is_fused, read_fused
from tracetool.classify.readers import (
    Reader,
    attention,
    conv_gradient,
    convolution,
    packed_attention,
    product,
)


def _rows_of(shape: Shape, inner: int) -> Numbers:
    inner = max(1, inner)
    return {"rows": numel(shape) / inner, "cols": inner, "elements": numel(shape)}


def _layer_norm(x: int, normalized: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        shape = call.shape(x)
        inner = call.integers(normalized)
        return _rows_of(shape, math.prod(inner) if inner else shape[-1]) if shape else None

    return read


def _last_axis(x: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        shape = call.shape(x)
        return _rows_of(shape, shape[-1]) if shape else None

    return read


def _channels(x: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        shape = call.shape(x)
        return _rows_of(shape, numel(shape) // max(1, shape[1])) if shape and len(shape) > 1 else None

    return read


def _group_norm(x: int, batch: int, group: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        shape, count, groups = call.shape(x), call.integers(batch), call.integers(group)
        if not shape:
            return None
        rows = (count[0] if count else shape[0]) * (groups[0] if groups else 1)
        return _rows_of(shape, numel(shape) // max(1, rows))

    return read


def _axis(x: int, dim: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        shape, axes = call.shape(x), call.integers(dim)
        if not shape:
            return None
        axis = axes[0] if axes and -len(shape) <= axes[0] < len(shape) else -1
        return _rows_of(shape, shape[axis])

    return read


def _reduced(call: Call) -> Numbers | None:
    shape = call.shape(0)
    if not shape:
        return None
    axes = [a for a in call.integers(1) if -len(shape) <= a < len(shape)]
    inner = math.prod(shape[a] for a in {a % len(shape) for a in axes}) if axes else numel(shape)
    return _rows_of(shape, inner)


def _message(call: Call) -> Numbers | None:
    """Bytes of the largest tensor of a communication call."""
    sizes = [numel(s) * size_of(f or call.dtype) for s, f in call.tensors]
    return {"bytes": max(sizes)} if sizes and max(sizes) > 0 else None


_COMMUNICATES = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast_$|record_param_comms|multimem"
)


def _embedding(table: int, index: int) -> Reader:
    def read(call: Call) -> Numbers | None:
        weight, chosen = call.shape(table), call.shape(index)
        if not weight or chosen is None:
            return None
        width = numel(weight) // max(1, weight[0])
        return {
            "rows": numel(chosen),
            "cols": width,
            "elements": numel(chosen) * width,
            "reads": 1,
            "writes": 1,
        }

    return read


def _cat(call: Call) -> Numbers | None:
    total = sum(numel(s) for group in call.lists for s in group)
    return {"elements": total, "reads": 1, "writes": 1} if total else None


def _copied(call: Call) -> Numbers | None:
    """A copy writes its first argument and reads its second, each in its own format."""
    into, source = call.shape(0), call.shape(1)
    if not into or source is None:
        return None
    formats = [*call.formats, None, None]
    ratio = size_of(formats[1]) / size_of(formats[0])
    return {"elements": numel(into), "reads": ratio * numel(source) / max(1, numel(into)), "writes": 1}


def _pooled(x: int, *, backward: bool = False, indices: bool = False) -> Reader:
    """Pooling: the result is smaller by the stride of each axis; max pooling writes 64-bit places beside it."""

    def read(call: Call) -> Numbers | None:
        shape = call.shape(x)
        if not shape or len(shape) < 3:
            return None
        window, steps = call.integers(x + 1), call.integers(x + 2)
        step = steps[0] if steps else window[0] if window else 2
        shrink = float(max(1, step)) ** min(2, len(shape) - 2)
        places = 8.0 / size_of(call.dtype) if indices else 0.0
        if backward:
            return {"elements": numel(shape), "reads": (1.0 + places) / shrink, "writes": 1}
        return {"elements": numel(shape) / shrink, "reads": shrink, "writes": 1.0 + places}

    return read


def _tokens(first: int, count: int) -> Reader:
    """Servers' helpers work on the token tensors they are given, not on the caches and tables beside them."""

    def read(call: Call) -> Numbers | None:
        sizes = [numel(s) for s in (call.shape(i) for i in range(first, first + count)) if s]
        return {"elements": sum(sizes), "reads": 1, "writes": 1} if sizes else None

    return read


def _experts(call: Call) -> Numbers | None:
    """Tokens and the scores of every expert."""
    tokens, scores = call.shape(0), call.shape(1)
    if not tokens or not scores or len(tokens) != 2 or len(scores) != 2 or tokens[0] != scores[0]:
        return None
    return {"expert_count": scores[1], "model_width": tokens[1]}


def _foreach(call: Call) -> Numbers | None:
    groups = [g for g in call.lists if g]
    if not groups:
        return None
    return {"elements": sum(numel(s) for s in groups[0]), "reads": len(groups), "writes": 1}


def streaming(call: Call) -> Numbers | None:
    """Return the elements of the largest operand and how many of that size are read and written.

    Operands that are broadcast are counted by their share of the largest.
    """
    sizes = [(numel(s), size_of(f)) for s, f in call.tensors]
    if not sizes:
        return None
    largest = max(n for n, _ in sizes)
    if largest <= 0:
        return None
    reads = sum(n * b for n, b in sizes) / (largest * size_of(call.dtype))
    out = sum(1 for a, b in zip(sizes[:-1], sizes[-1:] * len(sizes), strict=False) if a == b)
    named_out = (
        len(call.tensors) > 2 and out and call.scalars and call.scalars[-1] == "" and len(call.scalars) > 2
    )
    return {
        "elements": largest,
        "reads": max(1.0, reads - (1 if named_out else 0)),
        "writes": 1,
        "dims": walked_dims([s for s, _ in call.tensors]),
    }


def walked_dims(shapes: list[Shape]) -> int:
    """Return the dimensions a kernel that computes offsets steps through: those that do not merge into one.

    Neighbouring dimensions merge where every operand spans both or neither; of operands all alike some lie
    apart in memory, else there were no offsets to compute: at least two remain, three where there are so many.

    >>> walked_dims([(16, 559, 1024), (1024,)]), walked_dims([(16, 16, 559, 64), (16, 16, 559, 64)])
    (2, 3)
    """
    depth = max((len(s) for s in shapes), default=0)
    spans = [
        tuple((1,) * (depth - len(s)) + s)[i] > 1 for s in shapes for i in range(depth)
    ]  # operand by operand
    axes = [tuple(spans[o * depth + i] for o in range(len(shapes))) for i in range(depth)]
    used = [a for a in axes if any(a)]
    runs = sum(1 for i, a in enumerate(used) if not i or a != used[i - 1])
    return max(runs, min(len(used), 3)) if runs == 1 else runs


_BATCH_NORMS = (
    "cudnn_batch_norm",
    "miopen_batch_norm",
    "native_batch_norm",
    "batch_norm",
    "_batch_norm_with_update",
)
READERS: Final[Mapping[str, tuple[str, Reader]]] = {
    "mm": ("gemm", product(0)), "bmm": ("gemm", product(0)), "matmul": ("gemm", product(0)), "mv": ("gemv", product(0)),
    "addmm": ("gemm", product(1)), "baddbmm": ("gemm", product(1)), "addbmm": ("gemm", product(1)), "addmv": ("gemv", product(1)),
    "linear": ("gemm", product(0, transposed=True)), "_scaled_mm": ("gemm", product(0)), "_int_mm": ("gemm", product(0)),
    "_addmm_activation": ("gemm", product(1)), "cutlass_scaled_mm": ("gemm", product(1)), "gemm_a16w16": ("gemm", product(0, transposed=True)),
    "convolution": ("conv", convolution(0, 1, 3, 4, 8)), "_convolution": ("conv", convolution(0, 1, 3, 4, 8)),
    "conv1d": ("conv", convolution(0, 1, 3, 4, 6)), "conv2d": ("conv", convolution(0, 1, 3, 4, 6)), "conv3d": ("conv", convolution(0, 1, 3, 4, 6)),
    "cudnn_convolution": ("conv", convolution(0, 1, 3, 2, 5)), "miopen_convolution": ("conv", convolution(0, 1, 4, 3, 6)),
    "cudnn_convolution_relu": ("conv", convolution(0, 1, 3, 4, 6)), "cudnn_convolution_add_relu": ("conv", convolution(0, 1, 5, 6, 8)),
    "cudnn_convolution_transpose": ("conv", convolution(0, 1, 4, 2, 6, transposed=True)),
    "miopen_depthwise_convolution": ("conv", convolution(0, 1, 4, 3, 6)), "_conv_depthwise2d": ("conv", convolution(0, 1, 4, 5, 99)),
    "cudnn_convolution_backward_input": ("conv", conv_gradient(1, 2, of_data=True)),
    "cudnn_convolution_backward_weight": ("conv", conv_gradient(1, 2, of_data=False)),
    "miopen_convolution_backward_input": ("conv", conv_gradient(1, 2, of_data=True)),
    "miopen_convolution_backward_weight": ("conv", conv_gradient(1, 2, of_data=False)),
    "convolution_backward": ("conv", convolution(1, 2, 4, 5, 9)), "_slow_conv2d_forward": ("conv", convolution(0, 1, 4, 5, 99)),
    "_flash_attention_forward": ("attention", attention(0, 8, heads_first=False, longest=5, starts=3)),
    "_flash_attention_backward": ("attention", attention(1, 11, heads_first=False, longest=8, starts=6)),
    "_efficient_attention_forward": ("attention", attention(0, 9, heads_first=False, longest=6, starts=4)),
    "_efficient_attention_backward": ("attention", attention(1, 14, heads_first=False, longest=7, starts=5)),
    "scaled_dot_product_attention": ("attention", attention(0, 5, heads_first=True)),
    "_scaled_dot_product_flash_attention": ("attention", attention(0, 4, heads_first=True)),
    "_scaled_dot_product_efficient_attention": ("attention", attention(0, 6, heads_first=True)),
    "_scaled_dot_product_cudnn_attention": ("attention", attention(0, 6, heads_first=True)),
    "_scaled_dot_product_flash_attention_backward": ("attention", attention(1, 11, heads_first=True)),
    "_flash_attn_forward": ("attention", attention(0, 5, heads_first=False)),
    "_flash_attn_varlen_forward": ("attention", attention(0, 9, heads_first=False, longest=5, starts=3)),
    "unified_attention": ("attention", packed_attention), "unified_attention_with_output": ("attention", packed_attention),
    "native_layer_norm": ("norm", _layer_norm(0, 1)), "layer_norm": ("norm", _layer_norm(0, 1)),
    "native_layer_norm_backward": ("norm", _layer_norm(0, 2)), "_fused_rms_norm": ("norm", _layer_norm(0, 1)),
    "rms_norm": ("norm", _layer_norm(0, 1)), "_fused_rms_norm_backward": ("norm", _layer_norm(0, 2)),
    "fused_add_rms_norm": ("norm", _last_axis(0)),
    "native_group_norm": ("norm", _group_norm(0, 3, 6)), "group_norm": ("norm", _group_norm(0, 99, 1)),
    "native_group_norm_backward": ("norm", _group_norm(0, 5, 8)),
    **{name: ("norm", _channels(0)) for name in _BATCH_NORMS},
    **{f"{name}_backward": ("norm", _channels(0)) for name in _BATCH_NORMS},
    "_softmax": ("softmax", _axis(0, 1)), "_log_softmax": ("softmax", _axis(0, 1)), "softmax": ("softmax", _axis(0, 1)),
    "log_softmax": ("softmax", _axis(0, 1)), "_safe_softmax": ("softmax", _axis(0, 1)),
    "_softmax_backward_data": ("softmax", _axis(0, 2)), "_log_softmax_backward_data": ("softmax", _axis(0, 2)),
    **dict.fromkeys(("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "std", "var", "any", "all", "norm", "linalg_vector_norm", "logsumexp", "nansum", "var_mean", "std_mean", "count_nonzero", "aminmax"), ("reduction", _reduced)),
    "embedding": ("gather_scatter", _embedding(0, 1)), "index_select": ("gather_scatter", _embedding(0, 2)),
    "copy": ("copy", _copied),
    "max_pool2d_with_indices": ("pooling", _pooled(0, indices=True)), "avg_pool2d": ("pooling", _pooled(0)),
    "max_pool2d_with_indices_backward": ("pooling", _pooled(1, backward=True, indices=True)),
    "avg_pool2d_backward": ("pooling", _pooled(1, backward=True)),
    "reshape_and_cache_flash": ("gather_scatter", _tokens(0, 2)), "reshape_and_cache": ("gather_scatter", _tokens(0, 2)),
    "concat_and_cache_mla": ("gather_scatter", _tokens(0, 2)), "rotary_embedding": ("rope", _tokens(1, 2)),
    "moe_forward": ("moe", _experts), "moe_forward_shared": ("moe", _experts),
    "cat": ("copy", _cat), "_cat": ("copy", _cat), "stack": ("copy", _cat),
    "topk": ("sort", _axis(0, 2)), "sort": ("sort", _axis(0, 1)), "cumsum": ("scan", _axis(0, 1)), "cumprod": ("scan", _axis(0, 1)),
}  # fmt: skip


def read_shapes(call: Call) -> tuple[str | None, Numbers | None]:
    """Return the family a call implies and its numbers; None where the call tells neither.

    >>> from tracetool.classify.calls import read_call
    >>> read_shapes(read_call("aten::mm", [[4, 8], [8, 9]]))
    ('gemm', {'batch': 1, 'm': 4, 'n': 9, 'k': 8})
    """
    if call.name.startswith("_foreach"):
        return "optimizer", _foreach(call)
    if is_fused(call.name):
        return ITSELF, read_fused(call)
    if _COMMUNICATES.search(call.name):
        return "collective", _message(call)
    family, reader = READERS.get(call.name, (None, None))
    return family, reader(call) if reader else None
