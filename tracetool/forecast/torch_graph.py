"""Calls of a file that ``torch.export.save`` wrote; needs the package torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tracetool.core.errors import BadInput, MissingPart
from tracetool.forecast.exported import Call, Shape

_DTYPES: Final = {
    "torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16", "torch.float64": "fp64",
    "torch.int8": "int8", "torch.float8_e4m3fn": "fp8",
}  # fmt: skip


def read_torch(path: Path) -> Any:
    """Return an exported program.

    Raises
    ------
    MissingPart
        If torch is not installed.
    BadInput
        If the file cannot be read.
    """
    try:
        import torch
    except ImportError:
        raise MissingPart("exported programs need the package torch", "pip install torch") from None
    try:
        return torch.export.load(str(path))
    except Exception as error:  # its own errors
        raise BadInput.in_file(path, f"is no exported program: {str(error)[:100]}") from error


def weight_bytes(program: Any) -> float:
    """Return bytes of parameters and buffers. [B]"""
    return float(sum(one.numel() * one.element_size() for one in program.state_dict.values()))


def calls_of(program: Any, batch: int, length: int) -> list[Call]:
    """Return the calls of a program with its open dimensions filled.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        The program.
    batch, length : int
        Stand for open dimensions: the first of a tensor, and all others.
    """
    calls = []
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        outputs = _tensors(node, batch, length)
        kind = str(getattr(node.target, "__name__", node.target)).partition(".")[0].rpartition("::")[2]
        inputs = [shape for one in node.all_input_nodes for shape, _ in _tensors(one, batch, length)]
        dtype = outputs[0][1] if outputs else "fp32"
        settings = _settings(kind, node)
        calls.append(Call(kind, node.name, tuple(inputs), tuple(s for s, _ in outputs), dtype, settings))
    return calls


def _tensors(node: Any, batch: int, length: int) -> list[tuple[Shape, str]]:
    """Return shapes and formats of what a node gives."""
    values = node.meta.get("val")
    several = values if isinstance(values, list | tuple) else [values]
    return [
        (
            tuple(
                float(size) if isinstance(size, int) else float(length if place else batch)
                for place, size in enumerate(value.shape)
            ),
            _DTYPES.get(str(value.dtype), "fp32"),
        )
        for value in several
        if hasattr(value, "shape")
    ]


def _settings(kind: str, node: Any) -> dict[str, float]:
    args = list(node.args)
    settings: dict[str, float] = {}
    if "conv" in kind:  # input, weight, bias, stride, padding, dilation(, transposed, output padding), groups
        for name, place in (("stride", 3), ("padding", 4)):
            value = args[place] if len(args) > place else float(name == "stride")
            settings[name] = float(value[0] if isinstance(value, list | tuple) else value)
        last = args[8] if len(args) > 8 else args[6] if len(args) == 7 else 1
        settings["groups"] = float(last)
    if kind == "scaled_dot_product_attention":
        causal = args[5] if len(args) > 5 else node.kwargs.get("is_causal", False)
        settings["causal"] = float(bool(causal))
    return settings
