"""State-space layers by kernel: a short convolution, then a scan in chunks or an update of states.

Each kernel is a launch and a first load, then tensor cores, the FP32 pipe or memory. A row that names no
kernel is the whole layer. The pages are docs/families/gdn.md and docs/families/mamba2.md.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.coefficients import read_coefficients
from tracetool.families.formats import dtype_of, product_rate
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.families.ssm.conv1d import conv1d_work, is_conv1d, is_update
from tracetool.families.ssm.delta_net import delta_net_work, delta_nets, delta_rule_work, is_delta_net
from tracetool.families.ssm.mamba2 import is_mamba2, layers, mamba2_work
from tracetool.families.streamed import vector_cycles
from tracetool.hardware.gpu import Gpu

_DATA = read_coefficients(__package__)
#: Tokens a block of the convolution takes at once, 128 threads with 8 each, and blocks of 128 threads an SM
#: of 2048 threads holds [1]. By definition of Dao-AILab/causal-conv1d, csrc/causal_conv1d_fwd.cu.
STEP_TOKENS, RESIDENT_BLOCKS = 1024.0, 16.0


def _pieces(work: Work, gpu: Gpu, c: Coefficients, core: Floats, kernels: Floats | float = 1.0) -> Pieces:
    n = len(work.dram_bytes)
    return Pieces(
        fixed_s=kernels * np.full(n, c["launch_us"] * 1e-6),
        serial_cycles=kernels * np.full(n, c["latency_clk"]),
        stream_s=np.zeros(n),
        core_cycles=core,
        memory_s=work.dram_bytes / (gpu.dram_bytes_per_s * c["dram_efficiency"]),
        norm=np.full(n, c["overlap_norm"]),
        floor_s=np.zeros(n),
        active=np.full(n, 0.9),
        work=work,
    )


def _conv1d(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    of = delta_nets(rows).convolution
    mamba = is_mamba2(rows)
    if mamba.any():
        of = layers(rows).convolution
    work = conv1d_work(of)
    steps = of.sequences * of.channels * np.ceil(of.tokens / of.sequences / STEP_TOKENS)
    waits = np.where(of.update, 0.0, steps * c["latency_clk"] / (RESIDENT_BLOCKS * gpu.sm_count))
    return _pieces(work, gpu, c, vector_cycles(work, gpu) + waits)


def _delta_rule(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    of = delta_nets(rows)
    work = delta_rule_work(of)
    rate = product_rate(dtype_of(rows, "bf16"), gpu) * gpu.sm_count * c.get("tensor_efficiency", 1.0)
    return _pieces(work, gpu, c, work.tensor_flops / rate + vector_cycles(work, gpu), c["kernels"])


def _mamba2(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    of = layers(rows)
    work = mamba2_work(of)
    rate = product_rate(dtype_of(rows, "bf16"), gpu)
    # the convolution of sequences gives each channel a block, which takes its tokens in steps
    steps = of.sequences * of.mixed * np.ceil(of.tokens / of.sequences / STEP_TOKENS)
    waits = np.where(of.update, 0.0, steps * c["latency_clk"] / (RESIDENT_BLOCKS * gpu.sm_count))
    products = work.tensor_flops / (rate * gpu.sm_count * c["tensor_efficiency"])
    return _pieces(work, gpu, c, products + vector_cycles(work, gpu) + waits, of.kernels)


def _delta_net(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    """Return the parts of whole layers: convolution and rule after one another, each by its law's priors."""
    update = is_update(rows)
    both = []
    for laws in ((CONV1D, CONV1D_UPDATE), (GDN_CHUNK, GDN_UPDATE)):
        several, one = (law.pieces(rows, gpu, {}) for law in laws)
        both.append(
            {
                f.name: np.where(update, getattr(one, f.name), getattr(several, f.name))
                for f in fields(Pieces)
                if f.name != "work"
            }
        )
    first, second = both
    work = delta_net_work(rows)
    joined = {name: first[name] + second[name] for name in first}
    joined |= {"norm": second["norm"], "active": second["active"]}
    joined["fixed_s"] = joined["fixed_s"] + c["between_us"] * 1e-6
    return Pieces(**joined, work=work)


CONV1D = Law("conv1d", _conv1d, _DATA["conv1d"], spread=(-0.9, 0.9))
CONV1D_UPDATE = Law("conv1d_update", _conv1d, _DATA["conv1d_update"], spread=(-0.9, 0.9))
GDN_CHUNK = Law("gdn_chunk", _delta_rule, _DATA["gdn_chunk"], spread=(-0.9, 0.9))
GDN_UPDATE = Law("gdn_update", _delta_rule, _DATA["gdn_update"], spread=(-0.9, 0.9))
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
