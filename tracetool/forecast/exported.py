"""An exported graph as rows of operators: the calls ONNX and ``torch.export`` files state, with shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tracetool.families import names
from tracetool.forecast import operator_rows as table
from tracetool.forecast.operator_rows import Row

Shape = tuple[float, ...]


@dataclass(frozen=True)
class Call:
    """A call of a graph.

    Parameters
    ----------
    kind : str
        What it does, in lower case without prefix: ``matmul``, ``conv``, ``softmax``, ``add``.
    name : str
        Its name in the graph.
    inputs, outputs : tuple of shapes
        Shapes of tensors, weights among the inputs.
    dtype : str
        Number format of its output.
    settings : mapping
        ``stride``, ``groups``, ``padding`` of convolutions; ``transposed`` of products; ``causal``.
    """

    kind: str
    name: str
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    dtype: str = "fp32"
    settings: Mapping[str, float] = field(default_factory=dict)


#: Calls that move no numbers: shapes, constants, views.
FREE: Final = frozenset(
    [
        "constant",
        "constantofshape",
        "shape",
        "size",
        "reshape",
        "flatten",
        "squeeze",
        "unsqueeze",
        "identity",
        "view",
        "_unsafe_view",
        "expand",
        "permute",
        "t",
        "detach",
        "alias",
        "getitem",
        "slice",
        "select",
        "split",
        "split_with_sizes",
        "unbind",
        "sym_size",
        "dropout",
        "chunk",
        "arange",
        "range",
        "full",
        "empty",
        "scalar_tensor",
        "lift_fresh_copy",
        "nonzero",
        "_assert_tensor_metadata",
        "_assert_scalar",
    ]
)
_PRODUCTS: Final = frozenset({"matmul", "mm", "bmm", "gemm", "linear", "addmm", "baddbmm", "einsum"})
_NORMS: Final = frozenset({
    "layernormalization", "layer_norm", "native_layer_norm", "rmsnormalization", "rms_norm", "group_norm",
    "native_group_norm", "groupnormalization", "simplifiedlayernormalization", "skiplayernormalization",
    "skipsimplifiedlayernormalization", "instancenormalization", "lpnormalization",
})  # fmt: skip
_SOFTMAXES: Final = frozenset({"softmax", "_softmax", "logsoftmax", "log_softmax", "_log_softmax"})
_ATTENTIONS: Final = frozenset({
    "attention", "multiheadattention", "groupqueryattention", "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
})  # fmt: skip


def _count(shape: Shape) -> float:
    return math.prod(shape) if shape else 1.0


def rows_of(calls: Sequence[Call]) -> list[Row]:
    """Return the rows of the calls of a graph, in order; those that move no numbers have none.

    Calls that are no product, convolution, attention, norm or softmax are passes over their tensors.
    """
    counted = (call for call in calls if call.kind not in FREE and call.outputs)
    return [_ROWS.get(_kind(call), _pass)(call) for call in counted]


def _kind(call: Call) -> str:
    groups: tuple[tuple[frozenset[str], str], ...] = (
        (_PRODUCTS, "product"), (_NORMS, "norm"), (_SOFTMAXES, "softmax"), (_ATTENTIONS, "attention"),
    )  # fmt: skip
    if call.kind in {"conv", "convolution", "conv1d", "conv2d", "conv3d", "_convolution"}:
        return "conv"
    return next((name for kinds, name in groups if call.kind in kinds), "")


def _product(call: Call) -> Row:
    """Return a product: output columns, and the length both inputs have in common."""
    matrices = [shape for shape in call.inputs if len(shape) >= 2]
    out = call.outputs[0]
    if len(matrices) < 2:
        return _pass(call)
    first, second = (matrices[-2], matrices[-1]) if call.kind in {"addmm", "baddbmm"} else matrices[:2]
    depth = first[-2] if call.settings.get("transposed") else first[-1]
    columns = out[-1]
    if len(second) > 2 and math.prod(second[:-2]) > 1:
        batch = math.prod(out[:-2])
        return table.gemm(call.name, call.dtype, out[-2], columns, depth, max(batch, 1.0))
    return table.gemm(call.name, call.dtype, _count(out) / max(columns, 1.0), columns, depth)


def _conv(call: Call) -> Row:
    image, kernel = call.inputs[0], call.inputs[1]
    spatial = [*image[2:], 1.0, 1.0][:2]
    sizes = [*kernel[2:], 1.0, 1.0][:2]
    depth = image[4] if len(image) == 5 else 1.0  # frames join the pictures
    return table.operator(
        "conv2d", call.name, dtype=call.dtype, batch=max(image[0] * depth, 1.0), channels=image[1],
        height=spatial[0], width=spatial[1], filters=kernel[0], kernel_h=sizes[0], kernel_w=sizes[1],
        stride=call.settings.get("stride", 1.0), groups=call.settings.get("groups", 1.0),
        padding=call.settings.get("padding", float(sizes[0] // 2)),
    )  # fmt: skip


def _attention(call: Call) -> Row:
    queries, keys = call.inputs[0], call.inputs[1]
    if len(queries) != 4:
        return _pass(call)
    return table.operator(
        names.ATTENTION, call.name, phase="prefill", dtype=call.dtype, batch=queries[0], q_len=queries[2],
        kv_len=keys[2], heads=queries[1], kv_heads=keys[1], head_dim=queries[3],
        causal=call.settings.get("causal", 0.0),
    )  # fmt: skip


def _norm(call: Call) -> Row:
    shape = call.inputs[0]
    return table.norm(call.name, call.dtype, _count(shape[:-1]), shape[-1] if shape else 1.0)


def _softmax(call: Call) -> Row:
    shape = call.inputs[0]
    return table.softmax(call.name, call.dtype, _count(shape[:-1]), shape[-1] if shape else 1.0)


def _pass(call: Call) -> Row:
    """Return a pass over numbers: as many tensors as are read and written, of the size of the largest."""
    written = sum(_count(shape) for shape in call.outputs)
    read = sum(_count(shape) for shape in call.inputs)
    if call.kind in {"gather", "embedding", "index_select", "index", "gatherelements"}:
        read = written  # only what is gathered is read
    largest = max([*map(_count, call.outputs), *map(_count, call.inputs)] if read != written else [written])
    return table.elementwise(call.name, call.dtype, largest, read / largest, written / largest)


_ROWS: Final[dict[str, Callable[[Call], Row]]] = {
    "product": _product, "conv": _conv, "norm": _norm, "softmax": _softmax, "attention": _attention,
}  # fmt: skip
