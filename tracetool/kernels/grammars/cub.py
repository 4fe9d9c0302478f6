"""CUB and Thrust: device-wide scans, sorts, reductions, selections and transforms."""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import format_in
from tracetool.kernels.symbols import Symbol

_TYPED = re.compile(r"(?:Policy(?:Hub)?|policy_hub|AgentScanPolicy|State)\w*<([^<>]{1,60})")


def _read(match: re.Match[str], symbol: Symbol) -> Attributes:
    type_argument = _TYPED.search(symbol.inside)
    return {"dtype": format_in(type_argument[1]) if type_argument else None}


def _agent(match: re.Match[str], symbol: Symbol) -> Attributes | None:
    """Read Thrust's ``core::_kernel_agent<__reduce::ReduceAgent<...>>`` and ``__parallel_for``."""
    inside = symbol.inside + symbol.scope
    for words, family, op in (
        (("__parallel_for", "ParallelFor", "for_each", "transform"), "elementwise", "transform"), (("__scan", "Scan"), "scan", "scan"),
        (("__merge_sort", "Sort", "__set", "__unique", "Select", "Partition", "__copy_if"), "sort", "sort"),
        (("__reduce_by_key", "Reduce"), "reduction", "reduce"),
    ):  # fmt: skip
        if any(w in inside for w in words):
            return {"family": family, "op": op}
    return {"family": "other", "op": "thrust"}


GRAMMAR = Grammar(
    library="cub",
    title="CUB and Thrust: device-wide scan, sort, reduce, select",
    source="NVIDIA/cccl, cub/cub/device/dispatch and thrust/thrust/system/cuda/detail",
    gate=r"(?:^|::)cub::|thrust|(?:^|::)Device(?:Scan|Radix|Reduce|Select|Partition|Segmented|Merge|RunLength|Compact|Histogram|Three|Unique|Adjacent|Transform|Batch)|static_kernel|for_each_kernel",
    rules=(
        Rule(r"Device(?:Radix|Segmented(?:Radix)?Sort|Segmented(?:Key|Small)\w*|MergeSort|SelectSweep|Select|Partition|ThreeWayPartition|Unique|Merge)\w*", "sort", "sort", sign=_read),
        Rule(r"Device(?:Scan|Compact)\w*", "scan", "scan", sign=_read),
        Rule(r"Device(?:Reduce|SegmentedReduce|Histogram|RunLength)\w*", "reduction", "reduce", sign=_read),
        Rule(r"Device(?:Transform|For|Batch\w*|Adjacent|Spmv)\w*|static_kernel|dynamic_kernel|for_each_kernel|transform_kernel", "elementwise", "transform", sign=_read),
        Rule(r"(?:_kernel_agent|kernel|launch_closure_by_value|uninitialized_\w+|EmptyKernel)$", "elementwise", sign=_agent),
        Rule(r"(?:\w+::)*(?:cub|thrust)::\w", "other", where="scope", sign=_agent),
    ),
    tokens=(
        Token(r"DeviceScan\w*", "prefix sum in one pass over tiles; Init prepares their states"),
        Token(r"DeviceRadixSort\w*", "histogram, exclusive sum, then one pass per 8 bits"),
        Token(r"Device(?:Reduce|Segmented)\w*", "reduction; SingleTile finishes it"),
        Token(r"Device(?:Select|Partition|Compact)\w*", "stream compaction"),
        Token(r"Policy\d+", "tuning for an architecture"),
    ),
    examples={
        "void cub::DeviceScanKernel<cub::DeviceScanPolicy<float>::Policy600, float const*, float*, cub::ScanTileState<float, true>, cub::Sum, cub::NullType, int>(float const*)": "scan",
        "void cub::DeviceRadixSortHistogramKernel<cub::DeviceRadixSortPolicy<int, int, int>::Policy700, true, int, int>(int*)": "sort",
    },
    rank=18,
)  # fmt: skip
