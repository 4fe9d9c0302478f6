"""A convolution's own sizes suffice, and what turns its layouts is no convolution."""

from __future__ import annotations

import polars as pl
import pytest

from tests.kernels.test_structure import one, row
from tracetool.kernels.classify import classify_names
from tracetool.kernels.structure import describe


def test_a_convolution_of_known_sizes_has_nothing_inferred() -> None:
    got = one(
        name="volta_scudnn_128x64_relu_medium_nn_v1", grid=(784, 4, 1), block=(128, 1, 1), us=300.0,
        op="aten::cudnn_convolution", dims=[[32, 64, 56, 56], [256, 64, 1, 1]],
        scalars=["", "", "[0, 0]", "[1, 1]", "[1, 1]", "1"], device_name="Tesla V100-SXM2-16GB",
    )  # fmt: skip
    assert got["family"] == "conv"
    assert got["inferred"] == ""
    assert got["shape_source"] == "operator"


@pytest.mark.parametrize(
    "name",
    [
        "void cudnn::engines_precompiled::convertTensor_kernel<float, float, float, (Type)2>(int)",
        "void foldedNhwcToNhwcKernel<float, float, float, true, (cudnnKernelDataType_t)0>(int, int)",
    ],
)
def test_what_turns_a_layout_is_a_copy(name: str) -> None:
    assert classify_names([name])["family"][0] == "copy"


def _gradient_of_weights(grid_x: int) -> dict[str, object]:
    """Return a gradient recorded without its filter, beside forward calls of the same data by 1 and by 3."""
    scalars = ["", "", "[{0}, {0}]", "[1, 1]", "[1, 1]", "1"]
    forward = [
        row(
            name="volta_scudnn_128x64_relu_medium_nn_v1", grid=(784, 1, 1), op="aten::cudnn_convolution",
            dims=[[32, 64, 56, 56], [64, 64, side, side]], scalars=[s.format(side // 2) for s in scalars],
        )
        for side in (3, 1)
    ]  # fmt: skip
    back = row(
        name="void cudnn::cnn::wgrad_alg0_engine<float, 512, 6, 5, 3, 3, 3, false, 512>(int, int, int)",
        grid=(grid_x, 2, 224), op="aten::cudnn_convolution_backward_weight",
        dims=[[], [32, 64, 56, 56], [32, 64, 56, 56]], scalars=[""] * 3,
    )  # fmt: skip
    return describe(pl.DataFrame([*forward, back], infer_schema_length=None)).row(-1, named=True)


def test_the_grid_of_a_gradient_tells_which_filter_of_two_it_was() -> None:
    small, large = _gradient_of_weights(1), _gradient_of_weights(9)
    assert (small["kernel_h"], small["padding"]) == (1, 0)
    assert (large["kernel_h"], large["kernel_w"], large["padding"]) == (3, 3, 1)
