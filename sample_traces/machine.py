"""The invented machines: how long a kernel takes and how many watts it draws.

Deliberately simple, and deliberately not tracetool's model: one delivered rate and one power per
kind of kernel. Whatever tracetool finds in the files was not put there by its own equations.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Machine:
    """One GPU: delivered rates [FLOP/s, B/s], power per kind of kernel [W], clocks [MHz]."""

    device_name: str
    flop_rate: dict[str, float]
    byte_rate: float
    fixed_s: float
    power_w: dict[str, float]
    gap_w: float  # clocks up, nothing resident
    idle_w: float  # before the job, and after it once the clocks have fallen
    clock_mhz: int
    idle_clock_mhz: int
    mem_clock_mhz: int
    sm_count: int
    hold_s: float = 1.0  # the clocks stay up this long after the last kernel
    facts: dict[str, int] = field(default_factory=dict)

    def duration_s(self, kind: str, flops: float, traffic_bytes: float) -> float:
        """Return the time of one launch before jitter [s]."""
        rate = self.flop_rate.get(kind)
        arithmetic = flops / rate if rate else 0.0
        return max(arithmetic, traffic_bytes / self.byte_rate) + self.fixed_s


# Products at 83 % of what tensor cores can do at 1755 MHz, FlashAttention 2 at a third: as measured ones do.
H100 = Machine(
    device_name="NVIDIA H100 80GB HBM3",
    flop_rate={"gemm": 790e12, "attention": 350e12, "attention_backward": 310e12},
    byte_rate=2.82e12,
    fixed_s=2.4e-6,
    power_w={
        "gemm": 634.0,
        "attention": 552.0,
        "attention_backward": 571.0,
        "norm": 431.0,
        "elementwise": 462.0,
        "softmax": 447.0,
        "copy": 455.0,
        "gather": 318.0,
        "reduction": 402.0,
        "optimizer": 489.0,
        "memcpy": 139.0,
        "memset": 240.0,
        "collective": 268.0,
        "collective_wait": 187.0,  # its blocks poll for the other ranks
    },
    gap_w=124.0,
    idle_w=71.0,
    clock_mhz=1755,
    idle_clock_mhz=345,
    mem_clock_mhz=2619,
    sm_count=132,
    facts={
        "clockRate": 1_980_000_000,
        "memoryBandwidth": 3_352_320_000_000,
        "l2CacheSize": 52_428_800,
        "totalMemory": 85_029_158_912,
        "computeMajor": 9,
        "computeMinor": 0,
        "maxShmemPerSm": 233_472,
    },
)

A100 = Machine(
    device_name="NVIDIA A100-SXM4-80GB",
    flop_rate={"gemm": 241e12, "attention": 166e12},
    byte_rate=1.71e12,
    fixed_s=2.9e-6,
    power_w={
        "gemm": 378.0,
        "gemm_skinny": 289.0,
        "attention": 341.0,
        "attention_decode": 252.0,
        "norm": 268.0,
        "elementwise": 281.0,
        "softmax": 259.0,
        "copy": 276.0,
        "gather": 201.0,
        "reduction": 223.0,
    },
    gap_w=86.0,
    idle_w=58.0,
    clock_mhz=1380,
    idle_clock_mhz=210,
    mem_clock_mhz=1593,
    sm_count=108,
    facts={"totalMemory": 85_094_825_984, "computeMajor": 8, "computeMinor": 0, "maxShmemPerSm": 167_936},
)

MI300X = Machine(
    device_name="AMD Instinct MI300X",
    flop_rate={"gemm": 548e12, "attention": 342e12},
    byte_rate=3.9e12,
    fixed_s=4.2e-6,
    power_w={
        "gemm": 702.0,
        "attention": 611.0,
        "norm": 487.0,
        "elementwise": 505.0,
        "softmax": 480.0,
        "copy": 499.0,
    },
    gap_w=171.0,
    idle_w=138.0,
    clock_mhz=1700,
    idle_clock_mhz=132,
    mem_clock_mhz=1300,
    sm_count=304,
)
