"""Memory of a model on a GPU, and how many requests fit beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tracetool.core.dtype import BYTES
from tracetool.families import names
from tracetool.forecast.model import Model
from tracetool.forecast.parts import Part
from tracetool.forecast.passes import Parallel
from tracetool.forecast.pricing import Row

GIB: Final = 2.0**30
#: Share of the memory a serving engine takes (vLLM's `--gpu-memory-utilization`, its default). [1]
SERVING_SHARE: Final = 0.9
#: Memory of the CUDA context, libraries' workspaces and captured graphs. [B] vLLM's own report of an 8B model
#: on one GPU: 0.6 GiB of context, 0.7 GiB of graphs, 0.5 GiB of workspaces.
RUNTIME_BYTES: Final = 1.8 * GIB
#: Activations of a pass over the largest product's inputs and outputs: those of the layer before and the
#: residual live beside them. [1] Two layers' buffers, as a caching allocator reuses them.
_LIVE: Final = 2.0
#: Least width of what flows between layers: of narrower formats it is bf16. [B] vLLM, `--dtype`.
_BETWEEN_LAYERS: Final = BYTES["bf16"]

#: Half-width of the memory: workspaces and fragments differ between versions. [1] Spread of what vLLM's logs
#: report beside weights and cache, over the whole.
MEMORY_ERROR: Final = 0.08


@dataclass(frozen=True)
class Footprint:
    """Memory of one GPU. [B]"""

    weights: float
    cache: float  # keys, values and states of the running requests
    activations: float
    runtime: float = RUNTIME_BYTES

    @property
    def total(self) -> float:
        """All of it. [B]"""
        return self.weights + self.cache + self.activations + self.runtime


def request_bytes(model: Model, parallel: Parallel, context: float) -> float:
    """Return the bytes of a request on one GPU: keys and values, as far as windows reach, and states. [B]"""
    total = model.kv_bytes_per_token(parallel) * context + model.state_bytes_per_request(parallel)
    layers = sum(group.count for group in model.groups)
    stage = math.ceil(layers / parallel.pp) / max(layers, 1)
    for group in model.groups:
        for part in group.parts:
            window = window_of(part)
            if window > context:  # a window that is not filled yet
                unfilled = 1.0 - context / window
                total -= group.count * stage * unfilled * part.state_bytes(parallel)
    return total


def window_of(part: Part) -> float:
    """Return the tokens a part keeps of a request at most; 0 without a limit. [tokens]"""
    return float(getattr(part, "window", 0) or getattr(part, "chunk", 0))


def activation_bytes(rows: Sequence[Row]) -> float:
    """Return the activations that are alive at once in a pass of operator rows. [B]

    Products in narrower formats take and leave 16 bits between layers: each quantizes its own inputs.

    >>> product = {"op": "gemm", "m": 8.0, "n": 100.0, "k": 28.0}
    >>> [activation_bytes([{**product, "dtype": dtype}]) for dtype in ("fp32", "bf16", "fp8")]
    [8192.0, 4096.0, 4096.0]
    """
    largest = 0.0
    for row in rows:
        if row["op"] == names.GEMM:
            m, n, k = (float(row[key]) for key in ("m", "n", "k"))
            elements = float(row.get("batch", 1.0)) * m * (n + k)
        elif row["op"] == names.MOE:
            tokens, top_k, hidden = (float(row.get(key, 1.0)) for key in ("tokens", "top_k", "hidden"))
            elements = tokens * hidden * (1.0 + top_k)
        else:
            continue
        width = max(BYTES.get(str(row.get("dtype")), _BETWEEN_LAYERS), _BETWEEN_LAYERS)
        largest = max(largest, width * elements)
    return _LIVE * largest


def largest_batch(
    memory_bytes: float, fixed_bytes: float, request_bytes: float, share: float = SERVING_SHARE
) -> float | None:
    """Return how many requests of ``request_bytes`` fit beside the memory that is always in use.

    None where requests keep nothing: then this memory limits no batch.

    >>> largest_batch(80e9, 20e9, 1e9)
    52.0
    """
    free = share * memory_bytes - fixed_bytes
    return float(max(free // request_bytes, 0.0)) if request_bytes > 0 else None
