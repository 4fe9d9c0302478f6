"""Power of streams on GPUs nothing was fitted on, against whole-card readings; each GPU left out in turn.

usage: python benchmarks/stream_power.py

Readings: maximum board power over two seconds of a kernel that reads two arrays of FP32 numbers (0.25 to 1.25
FLOP/B), mean over the cards of a file of RRZE-HPC/gpu-benches, ``gpu-roofline``; its file "h200" is a GH200.
The B200's 780 W is one reading without its rate: that which its memory delivers is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.interval import Z90
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_number
from tracetool.model.idle import core_voltage_v, idle_power_w, leakage_w
from tracetool.model.power_files import power_calibration_of
from tracetool.model.thermal import self_heating_w

#: GPU, clock [MHz], rate [GB/s], power [W].
READ = (
    ("a100-sxm-40gb", 1410.0, 1368.0, 233.0),
    ("a40", 1740.0, 679.0, 208.0),
    ("l40", 2490.0, 845.0, 209.0),
    ("gh200", 1980.0, 3770.0, 582.0),
    ("b200-sxm", 1965.0, 6900.0, 780.0),
)
#: Shares that a stream may cost of the way and of an active SM's clocks.
SHARES = np.linspace(0.0, 1.0, 41)


@dataclass(frozen=True)
class Stream:
    """What one GPU's stream draws: of parts that no share scales, of SMs at work, of the whole way. [W]"""

    gpu: str
    measured: float
    fixed: float
    clock: float
    way: float
    relative_sd: float

    def power(self, clock: float, way: float) -> float:
        """Return the power at these shares of an active SM's clocks and of the way. [W]"""
        return self.fixed + clock * self.clock + way * self.way


def stream_of(name: str, clock_mhz: float, gb_per_s: float, measured_w: float) -> Stream:
    """Return the parts of a stream's power by the coefficients carried to a GPU."""
    gpu = load_gpu(name)
    power = power_calibration_of(gpu)
    clock = np.array([clock_mhz])
    square = float(core_voltage_v(gpu, clock, power)[0]) ** 2
    idle = idle_power_w(gpu, clock, power)
    heat = self_heating_w(np.array([measured_w]), idle, leakage_w(gpu, clock, power), power.leakage_per_w)
    per_byte = power.dram_pj_per_byte + square * power.core_pj["l2"]
    return Stream(
        name,
        measured_w,
        float((idle + heat)[0]) + 1e-3 * per_byte * gb_per_s,
        square * 1e-6 * power.active_pj_per_clock_sm * gpu.sm_count * clock_mhz,
        1e-3 * square * power.core_pj["stream"] * gb_per_s,
        power.relative_sd,
    )


def best(streams: Sequence[Stream], clocks: Floats, ways: Floats) -> tuple[float, float]:
    """Return the shares (clock, way) among those given of least squared relative error."""

    def error(shares: tuple[float, float]) -> float:
        return sum((s.power(*shares) / s.measured - 1.0) ** 2 for s in streams)

    return min(((float(c), float(w)) for c in clocks for w in ways), key=error)


def show(title: str, ratios: Sequence[float], streams: Sequence[Stream]) -> None:
    """Print predicted over measured of each GPU, the mean error, and how many lie in the interval."""
    held = np.mean([abs(np.log(r)) <= Z90 * s.relative_sd for r, s in zip(ratios, streams, strict=True)])
    each = "  ".join(f"{s.gpu} {100 * (r - 1):+.0f} %" for r, s in zip(ratios, streams, strict=True))
    mean = 100 * np.mean(np.abs(np.array(ratios) - 1))
    print(f"{title:44s} mean {mean:4.1f} %, in the 90 % interval {100 * held:3.0f} %:  {each}")


def main() -> None:
    """Print errors of fixed shares, then of shares fitted to the other GPUs."""
    streams = [stream_of(*row) for row in READ]
    delivered = prior_number("carried_power.stream_clock"), prior_number("carried_power.stream_way")
    for title, shares in (
        ("SMs as in products, the whole way", (1.0, 1.0)),
        ("SMs as in products, half of the way", (1.0, 0.5)),
        ("delivered", delivered),
    ):
        show(title, [s.power(*shares) / s.measured for s in streams], streams)
    fits = {
        "share of the clocks, fitted to the others": (SHARES, np.array([delivered[1]])),
        "share of the way, SMs as in products": (np.ones(1), SHARES),
        "two shares": (SHARES, SHARES),
    }
    for title, (clocks, ways) in fits.items():
        apart = [best([*streams[:i], *streams[i + 1 :]], clocks, ways) for i in range(len(streams))]
        ratios = [s.power(*shares) / s.measured for s, shares in zip(streams, apart, strict=True)]
        show(title, ratios, streams)


if __name__ == "__main__":
    main()
