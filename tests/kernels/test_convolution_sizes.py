"""A convolution's own sizes suffice, and what turns its layouts is no convolution."""

from __future__ import annotations

import pytest

from tests.kernels.test_structure import one
from tracetool.kernels.classify import classify_names


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
