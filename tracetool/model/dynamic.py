"""Energy of work: counts times energy per count, each in the supply domain it belongs to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tracetool.core.arrays import Floats, Numbers, Texts
from tracetool.core.operators import distinct_texts
from tracetool.core.work import Work
from tracetool.families.formats import PRODUCT_PIPE
from tracetool.hardware.priors import prior_number
from tracetool.model.power_calibration import PowerCalibration

#: Pipes whose operations on tensor cores are billed as another's: BF16 costs what FP16 does, and FP32 is TF32
#: where tensor cores multiply it.
_BILLED_AS: Mapping[str, str] = {"tensor_bf16": "tensor_fp16", "fp32": "tensor_tf32"}

#: FLOPs whose energy an instruction of CUDA cores costs that no count of a pipe holds. [FLOP]
INSTRUCTION_FLOPS = prior_number("power.instruction_flops")


def tensor_key(dtype: str) -> str:
    """Return the matrix-unit count a number format is billed as: that of its products; unknown ones as FP16.

    >>> tensor_key("bf16"), tensor_key("int4")
    ('tensor_fp16', 'tensor_fp16')
    """
    pipe = PRODUCT_PIPE.get(dtype, "tensor_fp16")
    return _BILLED_AS.get(pipe, pipe)


def tensor_energy_pj(work: Work, dtype: Texts, core_pj: Mapping[str, float]) -> Floats:
    """Return the energy at 1 V of each row's operations on tensor cores. Shape (n,). [pJ]

    ``dtype`` is the format that they are multiplied in, but for those counted as in FP8.
    """
    formats, place = distinct_texts(dtype)
    per_flop = np.array([core_pj[tensor_key(name)] for name in formats], dtype=np.float64)[place]
    of_fp8 = work.tensor_fp8_flops
    return np.asarray(per_flop * (work.tensor_flops - of_fp8) + core_pj["tensor_fp8"] * of_fp8)


def core_energy_j(
    work: Work, dtype: Texts, calibration: PowerCalibration, streamed_bytes: Floats | None = None
) -> Mapping[str, Floats]:
    r"""Return the core-domain energy of each row at 1 V: :math:`\sum_i e_i N_i`, by part.

    Parameters
    ----------
    work : Work
        Counts of n rows.
    dtype : array of str, shape (n,)
        Number format on the tensor cores; unknown formats pay that of FP16.
    calibration : PowerCalibration
        Energies per count.
    streamed_bytes : array, shape (n,), optional
        Bytes on the way between memory and registers; by default all that memory moves. See
        :mod:`tracetool.model.residency`. [B]

    Returns
    -------
    mapping of str to array, shape (n,)
        "compute" and "onchip" (shared memory, L2, the way of memory's bytes through the chip). [J at 1 V]
    """
    pj = calibration.core_pj
    compute = (
        tensor_energy_pj(work, dtype, pj)
        + pj["fp32"] * (work.fp32_flops + INSTRUCTION_FLOPS * work.instructions)
        + pj["fp64"] * work.fp64_flops
        + pj["int"] * work.int_ops
        + pj["sfu"] * work.sfu_ops
    )
    bytes_on_chip = work.dram_bytes if streamed_bytes is None else streamed_bytes
    onchip = pj["shared"] * work.shared_bytes + pj["l2"] * work.l2_bytes + pj["stream"] * bytes_on_chip
    return {"compute": compute * 1e-12, "onchip": onchip * 1e-12}


def outer_energy_j(work: Work, missed_bytes: Floats, calibration: PowerCalibration) -> Mapping[str, Floats]:
    """Return the energy outside the core domain: "dram" and "link", each shape (n,). [J]

    ``missed_bytes`` are those the L2 did not hold; see :mod:`tracetool.model.residency`.
    """
    return {
        "dram": calibration.dram_pj_per_byte * missed_bytes * 1e-12,
        "link": calibration.link_pj_per_byte * work.link_bytes * 1e-12,
    }


def active_energy_j(
    active_sm: Numbers, duration_s: Numbers, clock_mhz: Numbers, calibration: PowerCalibration, sm_count: int
) -> Floats:
    r"""Return the energy of SMs with a block, beside their counts, at 1 V. Shape (n,). [J]

    .. math:: E = e_{SM} \, S \, \phi \, f \, t

    with :math:`\phi` the share of SM-time with a resident block. [J at 1 V]
    """
    cycles = np.asarray(clock_mhz, np.float64) * 1e6 * np.asarray(duration_s, np.float64)
    return np.asarray(calibration.active_pj_per_clock_sm * 1e-12 * sm_count * active_sm * cycles)
