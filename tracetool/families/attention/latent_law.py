"""Latent attention: prefill as attention of wide heads, decode as products with one cache of all heads.

Equations and sources: docs/families/mla.md; counts are those of ``latent.py``.
"""

from __future__ import annotations

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.latent import latent_work, latents
from tracetool.families.coefficients import read_coefficients
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.hardware.gpu import Gpu

_DATA = read_coefficients(__package__, "latent")


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    s = latents(rows, gpu)
    n = len(rows)
    work = latent_work(s)
    return Pieces(
        fixed_s=np.full(n, c["launch_us"] * 1e-6),
        serial_cycles=np.full(n, c["latency_clk"]),
        stream_s=np.zeros(n),
        core_cycles=s.flops / (s.rate * gpu.sm_count * c["tensor_efficiency"]),
        memory_s=work.dram_bytes / (gpu.dram_bytes_per_s * c["dram_efficiency"]),
        norm=np.full(n, c["overlap_norm"]),
        floor_s=np.zeros(n),
        active=np.full(n, 0.9),
        work=work,
    )


MLA_PREFILL = Law("mla_prefill", _parts, _DATA["mla_prefill"], spread=(-1.0, 1.0))
MLA_DECODE = Law("mla_decode", _parts, _DATA["mla_decode"], spread=(-1.0, 1.0))
LAWS = (MLA_PREFILL, MLA_DECODE)
