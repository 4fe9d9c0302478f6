"""Execution traces as PyTorch's observer and Chakra's converter write them, and their profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.sources.makers import _field, kineto_document, kineto_events
from tests.varint import write_varint

#: Calls of ``aten::mm`` by the number both files give them: sizes of its two operands.
CALLS = {41: ([128, 64], [64, 256]), 42: ([8, 4], [4, 2]), 43: ([16, 32], [32, 16])}


def profile(folder: Path, *, shapes: bool = False) -> Path:
    """Write a profile of three calls, recorded without shapes, its operators numbered."""
    events: list[dict[str, Any]] = kineto_events()
    numbers = iter(CALLS)
    for event in events:
        if event.get("cat") == "cpu_op":
            args = {} if not shapes else {"Input Dims": [[1, 1], [1, 1]], "Input type": ["float", "float"]}
            event["args"] = {
                "External id": event["args"]["External id"],
                "Record function id": next(numbers),
                **args,
            }
    path = folder / "trace.json"
    path.write_text(json.dumps(kineto_document(events)))
    return path


def _attributes(number: int) -> list[dict[str, Any]]:
    return [
        {"name": "rf_id", "type": "uint64", "value": number},
        {"name": "scope", "type": "uint64", "value": 0},
    ]


def observed(folder: Path, *, name: str = "aten::mm") -> Path:
    """Write what the observer writes: nodes with values, shapes, types and attributes."""
    nodes: list[dict[str, Any]] = [
        {"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1,
         "inputs": {"values": [], "shapes": [], "types": []}, "attrs": _attributes(0)}
    ]  # fmt: skip
    for number, (first, second) in CALLS.items():
        tensors = [[1, 2, 0, 64, 4, "cuda:0"], [3, 4, 0, 64, 4, "cuda:0"], 1]
        inputs = {"values": tensors, "shapes": [first, second, []],
                  "types": ["Tensor(c10::Half)", "Tensor(c10::Half)", "Int"]}  # fmt: skip
        nodes.append(
            {"id": number + 100, "name": name, "ctrl_deps": 2, "inputs": inputs, "attrs": _attributes(number)}
        )
    path = folder / "et.json"
    path.write_text(
        json.dumps({"schema": "1.0.2-chakra.0.0.4", "pid": 1, "time": "2026", "start_ts": 5, "nodes": nodes})
    )
    return path


def chakra(folder: Path) -> Path:
    """Write the same calls as Chakra's converter does: messages behind their lengths, lists as text."""
    messages = [_field(1, "0.0.4")]
    for number, (first, second) in CALLS.items():
        values, types = (
            "[[1, 2, 0, 64, 4, 'cuda:0'], [3, 4, 0, 64, 4, 'cuda:0'], 1]",
            "['Tensor(c10::Half)', 'Tensor(c10::Half)', 'Int']",
        )
        inputs = _field(1, values) + _field(2, str([first, second, []])) + _field(3, types)
        attributes = _field(10, _field(1, "is_cpu_op") + _field(27, 1)) + _field(
            10, _field(1, "rf_id") + _field(9, number)
        )
        for part in ("(0)", "(1)") if number == 42 else ("",):  # a call divided at what it launches
            node = _field(1, number) + _field(2, f"aten::mm{part}") + _field(3, 4) + _field(8, inputs)
            messages.append(node + attributes)
    path = folder / "chakra.0.et"
    path.write_bytes(b"".join(write_varint(len(m)) + m for m in messages))
    return path


OBSERVED = (observed, chakra)
