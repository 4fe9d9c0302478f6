"""The families norm and softmax: a reduction over each row."""

from __future__ import annotations

from tracetool.families.arguments import Reading, same_sizes, sizes
from tracetool.families.rowwise.problem import row_counter
from tracetool.families.spec import Family, Sequence, TableOperator, UserWords

_BATCH_NORMS = (
    "cudnn_batch_norm",
    "miopen_batch_norm",
    "native_batch_norm",
    "batch_norm",
    "_batch_norm_with_update",
)


#: Layer, batch, group and RMS normalization: statistics and scaling of rows kept on chip.
NORM = Family(
    name="norm",
    meaning="layer, batch, group or RMS normalization",
    example="vectorized_layer_norm_kernel",
    place=50,
    shares=(0.25, 0.60, 0.15),
    needs=(("rows", "cols"),),
    count=row_counter(flops=8.0, sfu_per_row=2.0, parameters=2.0),
    laws=("norm",),
    table=(TableOperator("norm", ("rows", "cols"), ("kind",)),),
    operators={
        **same_sizes(
            "native_layer_norm layer_norm rms_norm _fused_rms_norm", sizes(Reading.LAYER_NORM, 0, 1)
        ),
        **same_sizes("native_layer_norm_backward _fused_rms_norm_backward", sizes(Reading.LAYER_NORM, 0, 2)),
        "fused_add_rms_norm": sizes(Reading.LAST_AXIS, 0),
        "native_group_norm": sizes(Reading.GROUP_NORM, 0, 3, 6),
        "group_norm": sizes(Reading.GROUP_NORM, 0, 99, 1),
        "native_group_norm_backward": sizes(Reading.GROUP_NORM, 0, 5, 8),
        **same_sizes(_BATCH_NORMS, sizes(Reading.CHANNELS, 0)),
        **same_sizes((f"{name}_backward" for name in _BATCH_NORMS), sizes(Reading.CHANNELS, 0)),
    },
    words=(
        UserWords(
            30,
            "norm",
            "layernorm rmsnorm batchnorm groupnorm instancenorm layer_norm rms_norm batch_norm "
            "group_norm normalize normalization qknorm norm2d",
        ),
    ),
    sequence=Sequence.STREAM,
    inferred="cols",
    row_blocks=True,
)

#: Softmax: one exponential per element of rows kept on chip.
SOFTMAX = Family(
    name="softmax",
    meaning="softmax over rows",
    example="softmax_warp_forward",
    place=60,
    shares=(0.30, 0.60, 0.10),
    needs=(("rows", "cols"),),
    count=row_counter(flops=5.0, sfu=1.0, sfu_per_row=1.0),
    laws=("softmax",),
    table=(TableOperator("softmax", ("rows", "cols")),),
    operators={
        **same_sizes("_softmax _log_softmax softmax log_softmax _safe_softmax", sizes(Reading.AXIS, 0, 1)),
        **same_sizes("_softmax_backward_data _log_softmax_backward_data", sizes(Reading.AXIS, 0, 2)),
    },
    words=(UserWords(40, "softmax", "softmax logsoftmax"),),
    sequence=Sequence.SOFTMAX,
    inferred="cols",
    row_blocks=True,
)

FAMILIES = (NORM, SOFTMAX)
