"""State-space layers by kernel: a short convolution, then a scan in chunks or an update of states.

Each kernel is a launch and a first load, then tensor cores, the FP32 pipe or memory. A row that names no
kernel is the whole layer. The pages are docs/families/gdn.md and docs/families/mamba2.md.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.coefficients import read_coefficients
from tracetool.families.formats import dtype_of, full_rate_share, product_rate, sustained_share
from tracetool.families.law import Coefficients, Law
from tracetool.families.loops import GRAPH_US, LOOP_START_US, NEXT_US, SCAN_LOOP, graph_steps_s, launch_pace
from tracetool.families.pieces import Pieces, combined
from tracetool.families.ssm.conv1d import Convolutions, conv1d_work, is_conv1d, is_update
from tracetool.families.ssm.delta_net import (
    CHUNK,
    STATE_BYTES,
    delta_nets,
    delta_rule_work,
    is_delta_net,
)
from tracetool.families.ssm.mamba2 import is_mamba2, layers, mamba2_work
from tracetool.families.streamed import vector_cycles
from tracetool.hardware.gpu import Gpu

_DATA = read_coefficients(__package__)
#: Tokens a block of the convolution takes at once, 128 threads with 8 each, and blocks of 128 threads an SM
#: of 2048 threads holds [1]. By definition of Dao-AILab/causal-conv1d, csrc/causal_conv1d_fwd.cu.
STEP_TOKENS, RESIDENT_BLOCKS = 1024.0, 16.0
#: Tokens [tokens] and channels [1] of a block of the convolution written in Triton. By definition of
#: vllm-project/vllm, causal_conv1d.py (BLOCK_M, BLOCK_N).
FEW_TOKENS, MANY_CHANNELS = 8.0, 256.0
#: Share of L2 that a working set may fill before it is read from memory, and how sharply [1]. Both a prior.
L2_SHARE, L2_SHARPNESS = 0.8, 6.0
#: The same of states rewritten in place, a loop over which loses all of them once they do not fit, and the
#: p-norm in which their way through L2 and memory meet [1]. All a prior.
IN_PLACE_SHARE, IN_PLACE_SHARPNESS, IN_PLACE_NORM = 0.85, 16.0, 6.0
#: From the launch to the first store of a kernel. [clk] A prior: data at one clock do not separate it from
#: the launch.
LATENCY_CLK = 1500.0
#: p-norm in which memory meets the rest. [1] A prior, as of streams.
MEMORY_NORM = 3.0


def _missed(filled: Floats, sharpness: float) -> Floats:
    """Return the share of data that L2 does not hold, by how far it fills what L2 may. Shape (n,). [1]"""
    return np.asarray(1.0 - 1.0 / (1.0 + filled**sharpness))


def _pieces(
    work: Work,
    gpu: Gpu,
    c: Coefficients,
    core: Floats,
    serial: Floats | float = 0.0,
    passes: float = 1.0,
    distinct: Floats | None = None,
    more: Floats | float = 0.0,
) -> Pieces:
    """Return the parts of one kernel: ``passes`` over its bytes, from L2 as far as the distinct ones fit.

    ``more`` bytes belong to the loop and not to the work.
    """
    n = len(work.dram_bytes)
    resident = work.dram_bytes if distinct is None else distinct
    missed = _missed(resident / (L2_SHARE * gpu.l2_bytes), L2_SHARPNESS)
    moved = work.dram_bytes * passes + more
    return Pieces(
        fixed_s=np.full(n, c["launch_us"] * launch_pace(gpu) * 1e-6),
        serial_cycles=LATENCY_CLK + serial + np.zeros(n),
        stream_s=np.zeros(n),
        core_cycles=np.maximum(core, moved * (1.0 - missed) / gpu.l2_bytes_per_clock),
        memory_s=moved * missed / (gpu.dram_bytes_per_s * c["dram_efficiency"]),
        norm=np.full(n, MEMORY_NORM),
        floor_s=np.zeros(n),
        active=np.full(n, 0.9),
        work=replace(work, dram_bytes=moved * missed, l2_bytes=moved),
    )


def _convolved(rows: OperatorColumns, keys_alone: float) -> Convolutions:
    """Return the convolutions of rows of either layer."""
    mamba, delta = layers(rows).convolution, delta_nets(rows)
    keys = delta.key_heads * delta.key_dim
    channels = np.where(keys_alone > 0, keys, delta.convolution.channels)
    return replace(mamba, channels=np.where(is_mamba2(rows), mamba.channels, channels))


def _in_loop(rows: OperatorColumns, gpu: Gpu, pieces: Pieces) -> Pieces:
    """Return these pieces as loops have them: those over TensorRT-LLM's kernels launch a graph for each."""
    return pieces.looped(graph_steps_s(rows, gpu, "trtllm", SCAN_LOOP))


def _conv1d(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    of = _convolved(rows, c["keys_alone"])
    length = of.tokens / of.sequences
    if c["block_tokens"] > FEW_TOKENS:
        blocks = of.sequences * of.channels * np.ceil(length / STEP_TOKENS)
        blocks = blocks * np.where(length % FEW_TOKENS > 0, c["odd_block"], 1.0)
        chain = np.zeros(len(rows))
    else:
        blocks = of.sequences * np.ceil(of.channels / MANY_CHANNELS) * np.ceil(length / FEW_TOKENS)
        chain = np.minimum(length, FEW_TOKENS) * c["token_clk"]
    waves = blocks / gpu.sm_count
    return _in_loop(rows, gpu, _pieces(conv1d_work(of), gpu, c, waves * c["block_clk"], chain))


def _conv1d_update(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    of = _convolved(rows, c["keys_alone"])
    blocks = of.sequences * np.ceil(of.channels / MANY_CHANNELS)
    core = blocks / gpu.sm_count * c["block_clk"]
    return _in_loop(rows, gpu, _pieces(conv1d_work(of), gpu, c, core, distinct=of.moved_bytes / 2.0))


def _gdn_chunk(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    of = delta_nets(rows)
    work = delta_rule_work(of)
    # the states pass from chunk to chunk: each head, or part of its values, is a chain
    chains = of.sequences * of.value_heads * c["value_parts"]
    waves = np.ceil(chains / (gpu.sm_count * c["resident"]))
    chain = waves * (c["block_clk"] + of.chunks / of.sequences * c["chunk_clk"])
    # products of a chunk wait for one another: their pace is the program's, below the chip's
    rate = np.minimum(product_rate(dtype_of(rows, "bf16"), gpu), c["product_rate"])
    products = work.tensor_flops / (rate * gpu.sm_count)
    core = combined(chain, products, c["chain_norm"])
    # the triangle of a chunk is solved a row after another
    rows_of_chunk = np.minimum(of.tokens / of.sequences, CHUNK)
    distinct = of.activation_bytes + of.chunks * of.states * of.size
    serial = rows_of_chunk * c["token_clk"]
    # a read and a write of queries and keys
    normalizing = c["normalized"] * 4.0 * of.tokens * of.key_heads * of.key_dim * of.size
    chunks = _pieces(work, gpu, c, core, serial, c["pass_factor"], distinct, normalizing)
    return _in_loop(rows, gpu, chunks)


def _gdn_update(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    of = delta_nets(rows)
    work = delta_rule_work(of)
    # states are read and written in place: in a loop L2 holds all of them, or next to none
    states = of.sequences * of.states * STATE_BYTES
    moved = work.dram_bytes + 2.0 * states * (c["state_share"] - 1.0)
    missed = _missed(states / (IN_PLACE_SHARE * gpu.l2_bytes), IN_PLACE_SHARPNESS)
    n = len(rows)
    # the smallest take 3.7 us on an L40S and 4.2 on an H100: launches do not keep the clock's pace here
    update = Pieces(
        fixed_s=np.full(n, c["launch_us"] * 1e-6),
        serial_cycles=np.full(n, LATENCY_CLK),
        stream_s=np.zeros(n),
        core_cycles=moved / (gpu.l2_bytes_per_clock * c["l2_efficiency"]),
        memory_s=moved * missed / (gpu.dram_bytes_per_s * c["dram_efficiency"]),
        norm=np.full(n, IN_PLACE_NORM),
        floor_s=np.zeros(n),
        active=np.full(n, 0.9),
        work=replace(work, dram_bytes=moved * missed, l2_bytes=moved),
    )
    return _in_loop(rows, gpu, update)


def _mamba2(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    of = layers(rows)
    work = mamba2_work(of)
    words = dtype_of(rows, "bf16")
    reached = sustained_share(c["tensor_efficiency"], full_rate_share(words, gpu))
    rate = product_rate(words, gpu) * reached
    # the convolution of sequences gives each channel a block, which takes its tokens in steps
    steps = of.sequences * of.mixed * np.ceil(of.tokens / of.sequences / STEP_TOKENS)
    waits = np.where(of.update, 0.0, steps * c["latency_clk"] / (RESIDENT_BLOCKS * gpu.sm_count))
    products = work.tensor_flops / (rate * gpu.sm_count)
    pieces = _pieces(work, gpu, c, products + vector_cycles(work, gpu) + waits)
    return replace(pieces, fixed_s=of.kernels * pieces.fixed_s, serial_cycles=of.kernels * c["latency_clk"])


def _delta_net(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    """Return the parts of whole layers: convolution and rule after one another, each by its law's priors."""
    update = is_update(rows)
    both_kernels, works = [], []
    for laws in ((CONV1D, CONV1D_UPDATE), (GDN_CHUNK, GDN_UPDATE)):
        several, one = (law.pieces(rows, gpu, {}) for law in laws)
        works.append(several.work.where(update, one.work))
        both_kernels.append(
            {
                f.name: np.where(update, getattr(one, f.name), getattr(several, f.name))
                for f in fields(Pieces)
                if f.name != "work"
            }
        )
    first, second = both_kernels
    joined = {name: first[name] + second[name] for name in first}
    joined |= {name: second[name] for name in ("norm", "active", "graph_step_s")}
    joined["fixed_s"] = joined["fixed_s"] + c["between_us"] * 1e-6
    return Pieces(**joined, work=works[0].plus(works[1]))


#: The convolution written in CUDA: 1024 tokens of one channel. A block's two special functions a token take
#: 128 clocks of an SM, its four products and conversions as many. [units of law.toml] By its source, a prior.
_CUDA_CONVOLUTION = {"block_tokens": 1024.0, "block_clk": 250.0}
#: As its tables under SGLang 0.5.10 have it (docs/families/gdn.md), with the launch of streams.
_CUDA_ALONE = {**_CUDA_CONVOLUTION, "keys_alone": 1.0, "launch_us": 2.0}
#: The rule in one kernel, which keeps states on the chip and multiplies at the chip's own rate: two blocks an
#: SM, each with half of a head's values, and next to no passes. [units of law.toml] A prior, as FlashInfer's
#: kernel (flashinfer-ai/flashinfer, csrc/gdn_prefill_launcher.cu) came out; a fit starts from it.
_ONE_KERNEL = {
    "value_parts": 2.0, "resident": 2.0, "launch_us": 1.0, "block_clk": 17000.0, "token_clk": 25.0,
    "chunk_clk": 5600.0, "product_rate": 8000.0, "pass_factor": 0.15,
}  # fmt: skip
#: What a loop of graphs that hold one operator each adds to it.
_GRAPHS = {"launch_us": (1.0, LOOP_START_US / SCAN_LOOP + GRAPH_US)}
#: Loops over TensorRT-LLM's kernels, and over SGLang's of its version for Ampere, replay graphs of one
#: operator and convolve keys alone; that over SGLang's chunks normalizes queries and keys by two kernels
#: more; TensorRT-LLM's update reads states of 16 bits and writes them in 32, and a block takes as long as its
#: state (ai-dynamo/aiconfigurator,
#: ``collect_gdn.py`` of each library, that of SGLang before its commit e23be5a79 too).
_UPDATE_HOST = {
    "trtllm": {**_GRAPHS, "keys_alone": (0.0, 1.0)},
    "sglang": {"keys_alone": (0.0, 0.0)},
    "sglang/ampere-ga100": {**_GRAPHS, "keys_alone": (0.0, 1.0)},
    "vllm": {"keys_alone": (0.0, 0.0)},
}
_CHUNK_HOST = {
    "trtllm": _GRAPHS,
    "sglang": {"launch_us": (1.0, 2.0 * NEXT_US), "normalized": (1.0, 1.0)},
}
#: Loops of ai-dynamo/aiconfigurator over SGLang run the convolution in Triton; that of the version for
#: Ampere runs the one in CUDA (``collect_gdn.py``, as above).
_CONVOLUTION_HOST = {
    "sglang": {"block_tokens": (0.0, FEW_TOKENS), "keys_alone": (0.0, 0.0)},
    "sglang/ampere-ga100": {
        **_GRAPHS, "keys_alone": (0.0, 1.0),
        **{name: (0.0, value) for name, value in _CUDA_CONVOLUTION.items()},
    },
}  # fmt: skip
_STEP_HOST = {
    "trtllm": {**_GRAPHS, "state_share": (0.75, 0.0)},
    "sglang/ampere-ga100": _GRAPHS,
}
CONV1D = Law(
    "conv1d",
    _conv1d,
    _DATA["conv1d"],
    spread=(-1.4, 2.6),
    habits=(_CUDA_CONVOLUTION, {**_CUDA_CONVOLUTION, "keys_alone": 1.0}),
    # NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/causalConv1d; state-spaces/mamba calls causal_conv1d_cuda
    library_habits={
        "sglang/ampere-ga100": {**_CUDA_CONVOLUTION, "keys_alone": 1.0},
        "trtllm": _CUDA_ALONE,
        "torch": {**_CUDA_ALONE, "keys_alone": 0.0},
    },
    library_host=_CONVOLUTION_HOST,
    by_row=True,
)
CONV1D_UPDATE = Law(
    "conv1d_update", _conv1d_update, _DATA["conv1d_update"], spread=(-0.6, 0.8),
    library_host=_UPDATE_HOST, by_row=True,
)  # fmt: skip
GDN_CHUNK = Law(
    "gdn_chunk", _gdn_chunk, _DATA["gdn_chunk"], spread=(-1.2, 0.6), habits=(_ONE_KERNEL,),
    library_host=_CHUNK_HOST, by_row=True,
)  # fmt: skip
GDN_UPDATE = Law(
    "gdn_update", _gdn_update, _DATA["gdn_update"], spread=(-0.3, 0.3), library_host=_STEP_HOST, by_row=True
)
GDN = Law("gdn", _delta_net, _DATA["gdn"], spread=(-0.9, 0.9))
MAMBA2 = Law("mamba2", _mamba2, _DATA["mamba2"], spread=(-0.9, 0.9))
LAWS = (MAMBA2, CONV1D, CONV1D_UPDATE, GDN_CHUNK, GDN_UPDATE, GDN)

#: Laws of scans; those that no other names stream.
SSM_LAWS = ("stream", "mamba2", "conv1d", "conv1d_update", "gdn_chunk", "gdn_update", "gdn")


def ssm_law(rows: OperatorColumns, gpu: Gpu) -> Ints:
    """Return the place in :data:`SSM_LAWS` of each row's law, by its columns and the kernel it names."""
    del gpu
    places = {law: place for place, law in enumerate(SSM_LAWS)}
    update = is_update(rows)
    convolved = is_conv1d(rows)
    by_kernel = np.where(update, places["gdn_update"], places["gdn_chunk"])
    delta = np.where(rows.text("implementation") == "", places["gdn"], by_kernel)
    chosen = np.where(is_delta_net(rows), delta, np.where(is_mamba2(rows), places["mamba2"], 0))
    kernel = np.where(update, places["conv1d_update"], places["conv1d"])
    return np.asarray(np.where(convolved & (chosen > 0), kernel, chosen), dtype=np.int64)
