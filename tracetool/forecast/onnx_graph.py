"""Calls of an ONNX file; needs the package onnx."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tracetool.core.dtype import BYTES
from tracetool.core.errors import BadInput, MissingPart
from tracetool.forecast.exported import Call, Shape

#: Formats by ONNX's numbers (onnx.proto, ``TensorProto.DataType``); others are taken as fp32.
_DTYPES: Final = {1: "fp32", 10: "fp16", 11: "fp64", 16: "bf16", 17: "fp8", 19: "fp8", 3: "int8", 2: "int8"}
_BATCH: Final = ("batch", "n", "b")


def read_onnx(path: Path) -> Any:
    """Return the model of a file, shapes not yet inferred.

    Raises
    ------
    MissingPart
        If the package onnx is not installed.
    BadInput
        If the file cannot be read.
    """
    try:
        import onnx
    except ImportError:
        raise MissingPart(
            "ONNX files need the package onnx", 'pip install "tracetool-energy[onnx]"'
        ) from None
    try:
        return onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf raises its own
        raise BadInput.in_file(path, f"cannot be read as ONNX: {str(error)[:100]}") from error


def weight_bytes(model: Any) -> float:
    """Return bytes of the weights a model states. [B]"""
    total = 0.0
    for tensor in model.graph.initializer:
        count = 1.0
        for size in tensor.dims:
            count *= size
        total += count * BYTES.get(_DTYPES.get(tensor.data_type, "fp32"), 4.0)
    return total


def calls_of(path: Path, model: Any, batch: int, length: int) -> list[Call]:
    """Return the calls of a model with its open dimensions filled.

    Parameters
    ----------
    path : Path
        For messages.
    model : onnx.ModelProto
        The model.
    batch, length : int
        Stand for open dimensions: the first, or one called a batch; all others.

    Raises
    ------
    BadInput
        If shapes cannot be inferred.
    """
    import onnx

    filled = onnx.ModelProto()
    filled.CopyFrom(model)
    weights = {tensor.name for tensor in filled.graph.initializer}
    for value in filled.graph.input:
        if value.name not in weights:
            for place, size in enumerate(value.type.tensor_type.shape.dim):
                if not size.HasField("dim_value") or size.dim_value <= 0:
                    named = size.dim_param.lower()
                    of_batch = named.startswith(_BATCH) if named else place == 0
                    size.Clear()
                    size.dim_value = batch if of_batch else length
    for value in (*filled.graph.output, *filled.graph.value_info):
        value.type.tensor_type.ClearField("shape")
    try:
        filled = onnx.shape_inference.infer_shapes(filled, data_prop=True)
    except Exception as error:  # its own errors
        raise BadInput.in_file(path, f"shapes cannot be inferred: {str(error)[:100]}") from error
    shapes = _shapes(filled)
    calls = []
    for place, node in enumerate(filled.graph.node):
        outputs = [shapes[name] for name in node.output if name in shapes]
        inputs = [shapes[name][0] for name in node.input if name in shapes]
        if not outputs and node.op_type.lower() in {"matmul", "gemm", "conv", "softmax"}:
            raise BadInput.in_file(path, f"the shape of {node.name or node.op_type} is not known")
        name = node.name.strip("/").replace("/", ".") or f"{node.op_type}_{place}"
        dtype = outputs[0][1] if outputs else "fp32"
        settings = _settings(onnx, node)
        calls.append(
            Call(node.op_type.lower(), name, tuple(inputs), tuple(s for s, _ in outputs), dtype, settings)
        )
    return calls


def _shapes(model: Any) -> Mapping[str, tuple[Shape, str]]:
    """Return shape and format of every tensor that has one."""
    shapes: dict[str, tuple[Shape, str]] = {}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        kind = value.type.tensor_type
        sizes = [size.dim_value for size in kind.shape.dim]
        if kind.HasField("shape") and all(size > 0 for size in sizes):
            shapes[value.name] = tuple(map(float, sizes)), _DTYPES.get(kind.elem_type, "fp32")
    for tensor in model.graph.initializer:
        shapes[tensor.name] = tuple(map(float, tensor.dims)), _DTYPES.get(tensor.data_type, "fp32")
    return shapes


def _settings(onnx: Any, node: Any) -> dict[str, float]:
    values = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    settings: dict[str, float] = {}
    if node.op_type == "Conv":
        settings["stride"] = float((values.get("strides") or [1])[0])
        settings["groups"] = float(values.get("group", 1))
        settings["padding"] = float((values.get("pads") or [0])[0])
    if values.get("transA"):
        settings["transposed"] = 1.0
    if values.get("is_causal") or values.get("unidirectional"):
        settings["causal"] = 1.0
    return settings
