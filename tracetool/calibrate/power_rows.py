"""Measured power beside the counts that cost it: the rows a power fit sees."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from tracetool.core.arrays import Bools, Floats, Numbers, Texts
from tracetool.core.operators import OperatorColumns
from tracetool.core.prediction import Timing
from tracetool.core.work import Work
from tracetool.families.formats import multiplied_format
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.voltage import VoltageCurve
from tracetool.model.activity import fed_share, with_unseen, work_of_activity
from tracetool.model.dynamic import INSTRUCTION_FLOPS, tensor_key
from tracetool.model.power_calibration import CORE_COUNTS
from tracetool.model.residency import missed_bytes, streamed_bytes

#: Coefficients of the fit, in the order of the design's columns.
COEFFICIENTS = (
    "board_w", "memory_w", "leakage_w_per_v", "clock_w_per_v2_ghz",
    *(f"{c}_pj" for c in CORE_COUNTS), "active_pj_per_clock_sm", "dram_pj_per_byte", "link_pj_per_byte",
)  # fmt: skip


@dataclass(frozen=True)
class PowerRows:
    """n steady measurements: what was drawn, at which clock, for which counts.

    Parameters
    ----------
    power_w : array, shape (n,)
        Mean power. [W]
    clock_mhz : array, shape (n,)
        Core clock. [MHz]
    rates : array, shape (n, len(CORE_COUNTS))
        Counts of the core domain per second.
    active_sm : array, shape (n,)
        SMs that hold a block, in the mean over the time.
    dram_bytes_per_s, link_bytes_per_s : array, shape (n,)
        Traffic on other supplies. [B/s]
    memory_share : array, shape (n,)
        Memory clock over the GPU's usual one.
    group : array of str, shape (n,)
        Program, model or kernel the row belongs to: what is left out together in validation.
    """

    power_w: Floats
    clock_mhz: Floats
    rates: Floats
    active_sm: Floats
    dram_bytes_per_s: Floats
    link_bytes_per_s: Floats
    memory_share: Floats
    group: Texts

    def __len__(self) -> int:
        return len(self.power_w)

    def take(self, rows: Bools | Numbers) -> PowerRows:
        """Return the chosen rows (mask or indices)."""
        return PowerRows(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @classmethod
    def concat(cls, tables: list[PowerRows]) -> PowerRows:
        """Return several sets of rows as one."""
        return cls(
            **{f.name: np.concatenate([getattr(table, f.name) for table in tables]) for f in fields(cls)}
        )

    def design(self, voltage: VoltageCurve, leakage_per_v: float = 0.0) -> Floats:
        """Return the power per unit of each coefficient: ``power = design @ coefficients``.

        Shape (n, len(COEFFICIENTS)); energies per count are stated in pJ, so their columns carry 1e-12.
        """
        volt = voltage.at(self.clock_mhz)
        squared = (volt**2)[:, None]
        ghz = self.clock_mhz / 1e3
        return np.column_stack(
            [
                np.ones(len(self)),
                self.memory_share,
                volt * np.exp(leakage_per_v * (volt - voltage.floor_v)),
                squared[:, 0] * ghz,
                squared * self.rates * 1e-12,
                squared[:, 0] * self.active_sm * ghz * 1e-3,
                self.dram_bytes_per_s * 1e-12,
                self.link_bytes_per_s * 1e-12,
            ]
        )


def _rates(work: Work, dtype: Texts, seconds: Floats, streamed_bytes: Floats | None = None) -> Floats:
    per = np.zeros((len(seconds), len(CORE_COUNTS)))
    place = {name: i for i, name in enumerate(CORE_COUNTS)}
    keys = np.array([place[tensor_key(str(d))] for d in dtype], dtype=np.int64)
    np.add.at(per, (np.arange(len(seconds)), keys), work.tensor_flops - work.tensor_fp8_flops)
    per[:, place["tensor_fp8"]] += work.tensor_fp8_flops
    for name, counts in (
        ("fp32", work.fp32_flops + INSTRUCTION_FLOPS * work.instructions),
        ("fp64", work.fp64_flops),
        ("int", work.int_ops),
        ("sfu", work.sfu_ops),
        ("shared", work.shared_bytes),
        ("l2", work.l2_bytes),
        ("stream", work.dram_bytes if streamed_bytes is None else streamed_bytes),
    ):
        per[:, place[name]] += counts
    return np.asarray(per / seconds[:, None])


def rows_of_activity(rows: OperatorColumns, gpu: Gpu) -> PowerRows:
    """Return the rows of a table with measured activity, duration, clock and power."""
    seconds = rows.number("duration_us") * 1e-6
    clock = rows.number("recorded_clock_mhz")
    work = with_unseen(work_of_activity(rows, gpu, seconds, clock), rows)
    return PowerRows(
        power_w=rows.number("power_w"),
        clock_mhz=clock,
        rates=_rates(work, multiplied_format(rows.text("dtype"), gpu), seconds),
        active_sm=np.clip(rows.number("act_sm", 1.0), 0.0, 1.0) * fed_share(rows) * gpu.sm_count,
        dram_bytes_per_s=work.dram_bytes / seconds,
        link_bytes_per_s=work.link_bytes / seconds,
        memory_share=rows.number("recorded_mem_clock_mhz", gpu.memory_clock_mhz) / gpu.memory_clock_mhz,
        group=rows.text("name"),
    )


#: Busy shares a profiler's table may hold, and the pipe or path each is a share of.
_UTILIZATION = {
    "util_fp32_add": ("fp32", 0.5), "util_fp32_mul": ("fp32", 0.5), "util_fp32_fma": ("fp32", 1.0),
    "util_fp32": ("fp32", 1.0), "util_fp64_add": ("fp64", 0.5), "util_fp64_mul": ("fp64", 0.5),
    "util_fp64_fma": ("fp64", 1.0), "util_fp64": ("fp64", 1.0), "util_int": ("int", 1.0),
    "util_cf": ("int", 1.0), "util_sfu": ("sfu", 1.0), "util_tensor": ("tensor_fp16", 1.0),
}  # fmt: skip


def rows_of_utilization(rows: OperatorColumns, gpu: Gpu) -> PowerRows:
    """Return the rows of a table of unit utilizations with clock and power.

    A share of an adder or multiplier is half the FLOPs of the same share of a fused one; control flow
    is issued like integer work.
    """
    clock = rows.number("recorded_clock_mhz")
    memory = rows.number("recorded_mem_clock_mhz", gpu.memory_clock_mhz) / gpu.memory_clock_mhz
    hertz = clock * 1e6
    per = np.zeros((len(rows), len(CORE_COUNTS)))
    for column, (pipe, weight) in _UTILIZATION.items():
        rate = gpu.sfu_per_clock_sm if pipe == "sfu" else gpu.rate(pipe)
        place = CORE_COUNTS.index(pipe)
        per[:, place] += weight * rows.number(column, 0.0) * rate * gpu.sm_count * hertz
    per[:, CORE_COUNTS.index("l2")] += rows.number("util_l2", 0.0) * gpu.l2_bytes_per_clock * hertz
    shared = gpu.shared_bytes_per_clock_sm * gpu.sm_count * hertz
    per[:, CORE_COUNTS.index("shared")] += rows.number("util_shared", 0.0) * shared
    dram = rows.number("util_dram", 0.0) * gpu.dram_bytes_per_s * memory
    per[:, CORE_COUNTS.index("stream")] += dram
    none = np.zeros(len(rows))
    return PowerRows(
        power_w=rows.number("power_w"),
        clock_mhz=clock,
        rates=per,
        active_sm=np.clip(rows.number("util_sm_active", 1.0), 0.0, 1.0) * gpu.sm_count,
        dram_bytes_per_s=dram,
        link_bytes_per_s=none,
        memory_share=memory,
        group=rows.text("name"),
    )


def rows_of_timing(
    timing: Timing, rows: OperatorColumns, gpu: Gpu, clock_mhz: Floats, *, power_w: Floats, group: Texts
) -> PowerRows:
    """Return the rows of modeled counts with a measured power; ``timing`` has one clock a row, (n, 1)."""
    seconds = timing.duration_s[:, 0]
    return PowerRows(
        power_w=power_w,
        clock_mhz=clock_mhz,
        rates=_rates(
            timing.work,
            multiplied_format(rows.text("dtype"), gpu),
            seconds,
            streamed_bytes(rows, timing.work),
        ),
        active_sm=timing.sm_active[:, 0] * gpu.sm_count,
        dram_bytes_per_s=missed_bytes(rows, timing.work, gpu) / seconds,
        link_bytes_per_s=timing.work.link_bytes / seconds,
        memory_share=np.ones(len(seconds)),
        group=group,
    )


def rows_of_sum(
    timing: Timing,
    rows: OperatorColumns,
    gpu: Gpu,
    clock_mhz: Floats,
    *,
    counts: Floats,
    seconds: Floats,
) -> PowerRows:
    """Return whole sequences as rows: counts of all launches over a measured time.

    Parameters
    ----------
    timing : Timing
        n rows at c clocks.
    clock_mhz, seconds : array, shape (c,)
        Clock and measured time of the sequence.
    counts : array, shape (n,)
        How often each row runs in it.
    """
    stream_bytes = streamed_bytes(rows, timing.work)
    total = _rates(timing.work, multiplied_format(rows.text("dtype"), gpu), np.ones(len(rows)), stream_bytes)
    busy = counts @ (timing.duration_s * timing.sm_active)
    return PowerRows(
        power_w=np.full(len(seconds), np.nan),
        clock_mhz=clock_mhz,
        rates=(counts @ total)[None, :] / seconds[:, None],
        active_sm=np.minimum(busy / seconds, 1.0) * gpu.sm_count,
        dram_bytes_per_s=(counts @ missed_bytes(rows, timing.work, gpu)) / seconds,
        link_bytes_per_s=(counts @ timing.work.link_bytes) / seconds,
        memory_share=np.ones(len(seconds)),
        group=np.full(len(seconds), "", dtype=object),
    )


def rows_of_idle(clock_mhz: Floats, power_w: Floats) -> PowerRows:
    """Return the rows of an idle curve, whose power is base power alone."""
    n = len(clock_mhz)
    none = np.zeros(n)
    return PowerRows(
        power_w=np.asarray(power_w, np.float64),
        clock_mhz=np.asarray(clock_mhz, np.float64),
        rates=np.zeros((n, len(CORE_COUNTS))),
        active_sm=none,
        dram_bytes_per_s=none,
        link_bytes_per_s=none,
        memory_share=np.ones(n),
        group=np.full(n, "(idle)", dtype=object),
    )
