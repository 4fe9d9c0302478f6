"""rocPRIM and hipCUB: device-wide scans, sorts, reductions and transforms on AMD.

Newer releases launch everything through ``trampoline_kernel<config, ...>``: the wrapped configuration says what it is.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import format_in, number_format
from tracetool.kernels.symbols import Symbol

_CONFIG = re.compile(r"wrapped_(\w+?)_config(?:<|, )(?:[\w:]*default_config|[^,<>]*)?,? ?([\w: ]*)")
_KINDS = (("scan", "scan", "scan"), ("sort", "sort", "sort"), ("merge", "sort", "sort"), ("partition", "sort", "select"), ("select", "sort", "select"), ("nth_element", "sort", "select"),
          ("reduce", "reduction", "reduce"), ("histogram", "reduction", "histogram"), ("transform", "elementwise", "transform"), ("adjacent", "elementwise", "transform"), ("run_length", "reduction", "run_length"), ("parallel_for", "elementwise", "transform"), ("for_each", "elementwise", "transform"), ("fill", "elementwise", "transform"), ("copy", "elementwise", "transform"))  # fmt: skip


def _read(match: re.Match[str], symbol: Symbol) -> Attributes:
    config = _CONFIG.search(symbol.inside)
    out: Attributes = {"dtype": number_format(config[2]) or format_in(config[2]) if config else None}
    if symbol.head in ("trampoline_kernel", "kernel"):
        kind = config[1] if config else symbol.scope + symbol.inside
        out.update(family="other", op="device_wide")
        for word, family, op in _KINDS:
            if word in kind:
                out.update(family=family, op=op)
                break
    return out


GRAMMAR = Grammar(
    library="rocprim",
    title="rocPRIM, hipCUB and rocThrust: device-wide scan, sort, reduce, transform",
    source="ROCm/rocm-libraries, projects/rocprim/rocprim/include/rocprim/device",
    gate=r"rocprim|hip_rocprim|hipcub|(?:^|::)(?:onesweep_|lookback_scan|init_lookback|radix_sort_|device_block_merge|device_merge|block_sort|block_reduce_kernel|single_scan|device_scan_by|transform_kernel$|partition_kernel$|trampoline_kernel|block_merge|merge_kernel$|segmented_(?:sort|scan|reduce|radix))",
    rules=(
        Rule(r"\w*(?:scan_histograms|onesweep|radix_sort|block_sort|merge_sort|block_merge|merge_(?:odd|path|part|ker)|device_merge|segmented_sort|segmented_radix)\w*", "sort", "sort", sign=_read),
        Rule(r"\w*(?:partition|select|unique)\w*", "sort", "select", sign=_read),
        Rule(r"\w*(?:scan)\w*", "scan", "scan", sign=_read),
        Rule(r"\w*(?:reduce|histogram|run_length)\w*", "reduction", "reduce", sign=_read),
        Rule(r"trampoline_kernel|kernel$", "other", "device_wide", sign=_read),
        Rule(r"\w*(?:transform|for_each|fill|adjacent|copy)\w*", "elementwise", "transform", sign=_read),
        Rule(r"(?:\w+::)*(?:rocprim|hip_rocprim|hipcub)::\w", "elementwise", "transform", where="scope", sign=_read),
    ),
    tokens=(
        Token(r"trampoline_kernel", "common entry of newer releases; its configuration names the algorithm"),
        Token(r"wrapped_\w+_config", "the algorithm's configuration"),
        Token(r"lookback_scan\w*|init_lookback\w*", "single-pass prefix sum and the set-up of its state"),
        Token(r"onesweep\w*", "radix sort in one sweep per 8 bits"),
        Token(r"\w*merge\w*|\w*block_sort\w*", "merge sort"),
    ),
    examples={
        "void rocprim::ROCPRIM_400001_NS::detail::lookback_scan_kernel<(rocprim::ROCPRIM_400001_NS::detail::lookback_scan_determinism)0, false, false, rocprim::ROCPRIM_400001_NS::detail::wrapped_scan_config<rocprim::ROCPRIM_400001_NS::default_config, int>, int*>(int*)": "scan",
    },
    rank=17,
)  # fmt: skip
