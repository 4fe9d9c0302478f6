"""The family conv: convolutions as implicit matrix products."""

from __future__ import annotations

from tracetool.families import names
from tracetool.families.arguments import Reading, same_sizes, sizes
from tracetool.families.conv.law import conv_law
from tracetool.families.conv.problem import conv_work
from tracetool.families.spec import Family, Sequence, TableOperator, UserWords

CONV = Family(
    name="conv",
    meaning="convolution: implicit product, Winograd or Fourier",
    example="sm80_xmma_fprop_implicit_gemm_...",
    place=20,
    shares=(0.70, 0.25, 0.05),
    pipe="tensor",
    needs=(
        ("channels", "height", "width", "filters", "kernel_h", "kernel_w"),
        ("m", "n", "k"),
    ),
    count=conv_work,
    laws=("conv", "conv_vector"),
    choose=conv_law,
    table=(
        TableOperator(
            "conv2d",
            ("batch", "channels", "height", "width", "filters", "kernel_h", "kernel_w"),
            ("stride", "padding", "groups"),
            at_most={"groups": "channels"},
        ),
    ),
    operators={
        **same_sizes("convolution _convolution", sizes(Reading.CONVOLUTION, 0, 1, 3, 4, 8)),
        **same_sizes(
            "conv1d conv2d conv3d cudnn_convolution_relu", sizes(Reading.CONVOLUTION, 0, 1, 3, 4, 6)
        ),
        "cudnn_convolution": sizes(Reading.CONVOLUTION, 0, 1, 3, 2, 5),
        "conv_general_dilated": sizes(Reading.CONVOLUTION, 0, 1, 2, 3, 4),
        **same_sizes(
            "miopen_convolution miopen_depthwise_convolution", sizes(Reading.CONVOLUTION, 0, 1, 4, 3, 6)
        ),
        "cudnn_convolution_add_relu": sizes(Reading.CONVOLUTION, 0, 1, 5, 6, 8),
        "cudnn_convolution_transpose": sizes(Reading.CONVOLUTION, 0, 1, 4, 2, 6, transposed=True),
        "_conv_depthwise2d": sizes(Reading.CONVOLUTION, 0, 1, 4, 5, 99),
        **same_sizes(
            "cudnn_convolution_backward_input miopen_convolution_backward_input",
            sizes(Reading.CONVOLUTION_GRADIENT, 1, 2, of_data=True),
        ),
        **same_sizes(
            "cudnn_convolution_backward_weight miopen_convolution_backward_weight",
            sizes(Reading.CONVOLUTION_GRADIENT, 1, 2, of_data=False),
        ),
        "convolution_backward": sizes(Reading.CONVOLUTION, 1, 2, 4, 5, 9),
        "_slow_conv2d_forward": sizes(Reading.CONVOLUTION, 0, 1, 4, 5, 99),
    },
    words=(
        UserWords(
            80,
            "conv_fwd",
            "conv conv1d conv2d conv3d convolution convolve im2col depthwise winograd dgrad wgrad fprop "
            "deconv",
        ),
    ),
    helpers={"winograd_transform": names.COPY},
    sequence=Sequence.PRODUCT,
    inferred="k",
)

FAMILIES = (CONV,)
