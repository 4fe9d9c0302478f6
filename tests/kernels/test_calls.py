# ruff: noqa: E501 - kernel names are long
from __future__ import annotations

import json

import pytest

from tracetool.kernels.calls import read_call
from tracetool.kernels.shapes import READERS, read_shapes
from tracetool.tables.list_columns import dims_of, list_dims_of


def shapes(name, dims, scalars=None):
    text = json.dumps(dims)
    return read_shapes(read_call(name, dims_of(text), list_dims_of(text), None, scalars))


@pytest.mark.parametrize(
    ("name", "dims", "scalars", "family", "numbers"),
    [
        ("aten::linear", [[4, 10, 64], [32, 64], [32]], None, "gemm", {"m": 40, "n": 32, "k": 64}),
        ("aten::baddbmm", [[2, 5, 7], [2, 5, 3], [2, 3, 7]], None, "gemm", {"batch": 2, "m": 5, "n": 7, "k": 3}),
        ("aten::mv", [[5, 7], [7]], None, "gemv", {"m": 5, "n": 1, "k": 7}),
        ("aten::native_layer_norm", [[4, 6, 8], [], [8], [8], []], ["", "[6, 8]", "", "", "1e-5"], "norm", {"rows": 4, "cols": 48}),
        ("aten::native_group_norm", [[2, 6, 4, 4]], ["", "", "", "2", "6", "16", "3", "1e-5"], "norm", {"rows": 6, "cols": 32}),
        ("aten::cudnn_batch_norm", [[2, 6, 4, 4]], None, "norm", {"rows": 6, "cols": 32}),
        ("aten::_softmax", [[2, 3, 5]], ["", "1", "False"], "softmax", {"rows": 10, "cols": 3}),
        ("aten::sum", [[2, 3, 5]], ["", "[0, 2]", "False"], "reduction", {"rows": 3, "cols": 10}),
        ("aten::mean", [[2, 3, 5]], ["", "[]", "False"], "reduction", {"rows": 1, "cols": 30}),
        ("aten::embedding", [[100, 16], [3, 4]], None, "gather_scatter", {"rows": 12, "cols": 16, "elements": 192}),
        ("aten::cat", [[[2, 3], [4, 3]], []], None, "copy", {"elements": 18}),
        ("aten::_foreach_add_", [[[2, 3], [4]], [[2, 3], [4]]], None, "optimizer", {"elements": 10, "reads": 2}),
        (
            "aten::_flash_attention_forward",
            [[2, 9, 4, 32], [2, 9, 2, 32], [2, 9, 2, 32], [], [], [], [], [], []],
            ["", "", "", "", "", "9", "9", "0.", "True"],
            "attention",
            {"batch": 2, "q_len": 9, "kv_len": 9, "heads": 4, "kv_heads": 2, "head_dim": 32, "causal": True},
        ),
        (
            "aten::scaled_dot_product_attention",
            [[2, 4, 1, 32], [2, 4, 77, 32], [2, 4, 77, 32]],
            ["", "", "", "", "0.", "False"],
            "attention",
            {"q_len": 1, "kv_len": 77, "heads": 4, "phase": "decode", "causal": False},
        ),
        (
            "aten::convolution",
            [[8, 16, 20, 20], [32, 8, 3, 3], [32]],
            ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"],
            "conv",
            {"batch": 8, "channels": 16, "filters": 32, "kernel_h": 3, "stride": 2, "padding": 1, "groups": 2},
        ),
        (  # the gradient of the data of a convolution with twice the pixels a side
            "aten::cudnn_convolution_transpose",
            [[8, 32, 10, 10], [32, 16, 2, 2]],
            ["", "", "[0, 0]", "[0, 0]", "[2, 2]", "[1, 1]", "1"],
            "conv",
            {"batch": 8, "channels": 16, "filters": 32, "height": 20, "width": 20, "kernel_h": 2, "stride": 2},
        ),
        ("c10d::allreduce_", [[1024]], None, "collective", {"bytes": 4096.0}),
    ],
)  # fmt: skip
def test_calls_give_their_numbers(name, dims, scalars, family, numbers):
    said, read = shapes(name, dims, scalars)
    assert said == family
    assert {k: read[k] for k in numbers} == numbers


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "dims", [[], [[]], [[0]], [[1], [2]], [[0, 0], [0, 0], [0, 0]], [[3, 4, 5, 6]] * 4, [[[1], [2]], []]]
)
def test_no_call_is_fatal(name, dims):
    family, numbers = shapes(f"aten::{name}", dims, ["", "[99]", "-7", "x"])
    assert family
    assert numbers is None or all(isinstance(k, str) for k in numbers)
