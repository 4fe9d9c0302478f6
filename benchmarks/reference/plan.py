"""What the reference recorder runs: loops with their shapes, in the columns of operator tables. No GPU is needed here."""

from __future__ import annotations

from typing import Any

Loop = dict[str, Any]


def _gemm(dtype: str, m: int, n: int, k: int) -> Loop:
    return {
        "name": f"gemm_{dtype}_{m}x{n}x{k}",
        "op": "gemm",
        "dtype": dtype,
        "batch": 1,
        "m": m,
        "n": n,
        "k": k,
    }


def _attention(phase: str, batch: int, q_len: int, kv_len: int, heads: int, kv_heads: int) -> Loop:
    return {
        "name": f"attention_{phase}_{batch}x{heads}x{q_len}x{kv_len}_{kv_heads}", "op": "attention", "dtype": "bf16",
        "phase": phase, "batch": batch, "q_len": q_len, "kv_len": kv_len, "heads": heads, "kv_heads": kv_heads,
        "head_dim": 128, "causal": phase == "prefill",
    }  # fmt: skip


def _rows(op: str, kind: str, dtype: str, rows: int, cols: int) -> Loop:
    return {
        "name": f"{kind}_{dtype}_{rows}x{cols}",
        "op": op,
        "kind": kind,
        "dtype": dtype,
        "rows": rows,
        "cols": cols,
    }


def _elements(kind: str, dtype: str, elements: int, reads: int, writes: float) -> Loop:
    return {
        "name": f"{kind}_{dtype}_{elements}", "op": "elementwise", "kind": kind, "dtype": dtype,
        "elements": elements, "reads": reads, "writes": writes,
    }  # fmt: skip


def _conv(dtype: str, batch: int, channels: int, edge: int, filters: int, kernel: int) -> Loop:
    return {
        "name": f"conv2d_{dtype}_{batch}x{channels}x{edge}_{filters}x{kernel}", "op": "conv2d", "dtype": dtype,
        "batch": batch, "channels": channels, "height": edge, "width": edge, "filters": filters,
        "kernel_h": kernel, "kernel_w": kernel, "stride": 1, "padding": kernel // 2, "groups": 1,
    }  # fmt: skip


M = 1 << 20
LOOPS: tuple[Loop, ...] = (
    _gemm("bf16", 8192, 8192, 8192), _gemm("bf16", 2048, 2048, 2048), _gemm("bf16", 16, 8192, 8192),
    _gemm("bf16", 1024, 1024, 16384), _gemm("fp16", 8192, 8192, 8192),
    _gemm("fp8", 8192, 8192, 8192), _gemm("fp8", 2048, 2048, 2048), _gemm("fp8", 16, 8192, 8192),
    _gemm("fp32", 4096, 4096, 4096), _gemm("fp32", 1024, 1024, 1024), _gemm("fp32", 16, 8192, 8192),
    _gemm("tf32", 8192, 8192, 8192), _gemm("tf32", 2048, 2048, 2048),
    _attention("prefill", 4, 2048, 2048, 32, 32), _attention("prefill", 1, 8192, 8192, 32, 32),
    _attention("prefill", 16, 512, 512, 32, 8), _attention("decode", 64, 1, 4096, 32, 32),
    _attention("decode", 16, 1, 16384, 32, 32),
    _rows("norm", "layer_norm", "bf16", 16384, 4096), _rows("norm", "layer_norm", "fp32", 4096, 1024),
    _rows("norm", "rms_norm", "bf16", 16384, 4096), _rows("norm", "rms_norm", "bf16", 64, 8192),
    _rows("softmax", "softmax", "bf16", 16384, 4096), _rows("softmax", "softmax", "fp32", 65536, 512),
    _rows("softmax", "log_softmax", "fp32", 4096, 32000),
    _elements("add", "bf16", 256 * M, 2, 1), _elements("add", "fp32", 4 * M, 2, 1),
    _elements("gelu", "bf16", 256 * M, 1, 1), _elements("exp", "fp32", 64 * M, 1, 1),
    _elements("sin", "fp32", 64 * M, 1, 1),
    _elements("clone", "bf16", 256 * M, 1, 1), _elements("cast", "fp32", 128 * M, 1, 0.5),
    _elements("transpose", "bf16", 64 * M, 1, 1),
    _rows("reduction", "sum_rows", "fp32", 16384, 4096), _rows("reduction", "sum_all", "fp32", 16384, 4096),
    _rows("reduction", "max_rows", "bf16", 16384, 4096),
    _rows("gather_scatter", "embedding", "bf16", 65536, 4096), _rows("gather_scatter", "index_add", "fp32", 65536, 1024),
    _conv("fp16", 64, 256, 56, 256, 3), _conv("fp16", 64, 1024, 14, 256, 1),
)  # fmt: skip

#: Heavy and light work in turn: what a sensor's average and a GPU's inertia make of it. Seconds each.
SEQUENCES: tuple[tuple[str, str, float, float, int], ...] = (
    ("gemm_bf16_8192x8192x8192", "rms_norm_bf16_64x8192", 2.0, 0.5, 4),
    ("rms_norm_bf16_64x8192", "gemm_bf16_8192x8192x8192", 2.0, 0.5, 4),
    ("gemm_bf16_8192x8192x8192", "add_bf16_268435456", 1.0, 1.0, 4),
)
STEADY_S, REST_S = 5.0, 1.0


def shrink(loop: Loop, scale: float) -> Loop:
    """Return a loop with its sizes scaled, for a try on a processor. The name stays."""
    sizes = (
        "m",
        "n",
        "k",
        "rows",
        "cols",
        "elements",
        "q_len",
        "kv_len",
        "channels",
        "filters",
        "height",
        "width",
    )
    small = {k: max(16, int(v * scale)) for k, v in loop.items() if k in sizes and v != 1}
    return {**loop, **small}


def duration_s() -> float:
    """Return how long loops, rests and sequences last. [s]"""
    turns = sum((a + b) * count for _, _, a, b, count in SEQUENCES)
    return len(LOOPS) * (STEADY_S + REST_S) + turns
