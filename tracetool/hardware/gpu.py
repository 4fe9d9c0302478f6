"""A GPU as the model sees it: rates per clock, sizes, limits and its power sensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tracetool.core.arrays import Floats, Numbers
from tracetool.core.errors import BadInput
from tracetool.hardware.number import Number
from tracetool.hardware.peaks import Peak
from tracetool.hardware.priors import prior_number
from tracetool.hardware.sensors import Sensor, sensor_of
from tracetool.hardware.voltage import VoltageCurve

#: Pipes whose rate per clock and SM is stated, FMA counted as 2.
PIPES = (
    "fp64", "fp32", "fp16", "int",
    "tensor_fp64", "tensor_tf32", "tensor_fp16", "tensor_bf16", "tensor_fp8", "tensor_int8", "tensor_fp4",
)  # fmt: skip

#: Where work goes on a GPU without a pipe. A dtype its tensor cores do not support is converted first;
#: libraries convert 4-bit floats to 16 bits (IST-DASLab/marlin), not to 8.
FALLBACK: Mapping[str, str] = {
    "tensor_fp4": "tensor_fp16",
    "tensor_fp8": "tensor_fp16",
    "tensor_int8": "tensor_fp16",
    "tensor_bf16": "fp32",
    "tensor_fp16": "fp16",
    "tensor_tf32": "fp32",
    "tensor_fp64": "fp64",
    "fp16": "fp32",
    "int": "fp32",
}


@dataclass(frozen=True)
class Gpu:
    """One GPU (one die set that profilers show as one device).

    Rates are per clock, so a peak is computed at the clock asked about; published ``peaks``
    only check them, because many are stated at a clock below the maximum. On AMD, ``sm`` is
    a compute unit, ``warp`` a wavefront. Numbers no source states are family priors: their
    names are in ``assumed``.
    """

    name: str
    title: str
    vendor: str
    architecture: str
    scope: str  # "model" where the whole GPU is known, "sensor" where only its power sensor is
    note: str
    aliases: tuple[str, ...]
    node_nm: float
    memory_type: str
    sm_count: int
    clock_min_mhz: float
    clock_max_mhz: float
    clock_boost_mhz: float  # sustained clock of a load that no limit holds back; the default of predictions
    clock_step_mhz: float
    memory_clock_mhz: float
    memory_bytes: float
    dram_bytes_per_s: float  # peak at memory_clock_mhz
    dram_efficiency: float  # share of that peak a stream reaches
    l2_bytes: float
    l2_bytes_per_clock: float  # whole GPU
    shared_bytes_per_clock_sm: float
    shared_bytes_per_sm: float
    first_cache_bytes_per_sm: float  # shared memory itself where the two are one
    l2_port_bytes_per_clock_sm: float  # path between L2 and one SM
    translated_bytes: float  # memory whose address translations the chip keeps
    registers_per_sm: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    warp_size: int
    schedulers_per_sm: int  # warps that can issue in a clock; SIMD units of a compute unit
    lanes_per_clock_sm: float  # lanes that issue in a clock
    sfu_per_clock_sm: float
    conversions_per_clock_sm: float  # between floating-point formats
    flops_per_clock_sm: Mapping[str, float]
    matrix_fp32: float  # FP32 products on matrix cores, FLOP per clock and SM; 0 where libraries use none
    link_bytes_per_s: float  # one direction, all links
    link_ranks: int  # GPUs that peer links join at full rate; 1 where none does
    link_peers: int  # GPUs of a node that one link each leads to; 0 where a switch joins all
    link_reduces: bool  # the switch between them adds and multicasts (NVLink SHARP)
    graph_step_us: float  # graphs launched one after another begin on multiples of this; 0 at any time
    peer_latency_us: float  # smallest all-reduce of eight GPUs that peer links join
    pcie_bytes_per_s: float  # one direction
    nic_bytes_per_s: float  # of the network adapter beside each GPU, one direction; 0 where none is known of
    power_limit_w: float
    power_limit_min_w: float
    power_limit_max_w: float
    idle_w: float  # nothing running, at the lowest clock of the compute state
    voltage: VoltageCurve
    sensor_override: Mapping[str, float]
    numbers: Mapping[str, Number] = field(default_factory=dict, repr=False)
    assumed: frozenset[str] = frozenset()
    peaks: Mapping[str, Peak] = field(default_factory=dict, repr=False)

    def supported_clocks_mhz(self) -> Floats:
        """Return the clocks the driver accepts, lowest first. Shape (c,). [MHz]"""
        count = round((self.clock_max_mhz - self.clock_min_mhz) / self.clock_step_mhz)
        steps = self.clock_max_mhz - self.clock_step_mhz * np.arange(count, -1, -1, dtype=np.float64)
        return steps[steps > 0]

    @property
    def l2_near_bytes(self) -> float:
        """L2 that serves one SM: of several partitions each keeps its own copy of what its SMs read. [B]"""
        if "l2_partitions" not in self.numbers:
            return self.l2_bytes
        return self.l2_bytes / self.numbers["l2_partitions"].value

    @property
    def tensor_memory_bytes_per_sm(self) -> float:
        """Memory of one SM that products keep their results in; 0 where they lie in registers. [B]"""
        key = "tensor_memory_bytes_per_sm"
        return self.numbers[key].value if key in self.numbers else 0.0

    @property
    def ecc_share(self) -> float:
        """Share of the memory's rate that data have where check bits lie among them; else 1. [1]"""
        return self.numbers["ecc_share"].value if "ecc_share" in self.numbers else 1.0

    def product_share(self, pipe: str) -> float:
        """Return the share of a pipe's rate that libraries' products have: 1 if no file states it. [1]

        Of FP32 where the rate takes two instructions at once, of FP16 where sums are kept in FP32 by others.
        """
        key = f"{pipe}_product_share"
        return self.numbers[key].value if key in self.numbers else 1.0

    @property
    def shares_host_memory(self) -> bool:
        """Whether its memory is the CPU's too: how much there is differs from computer to computer."""
        return "shared_with_host" in self.numbers and self.numbers["shared_with_host"].value > 0

    @property
    def host_gpus(self) -> float:
        """GPUs of a host whose peer links reach other hosts; infinite where they end with the host. [1]"""
        return self.numbers["host_gpus"].value if "host_gpus" in self.numbers else float("inf")

    @property
    def metered_gpus(self) -> int:
        """GPUs whose power one reading holds: the dies of a package, of which the first reads for all. [1]"""
        return int(self.numbers["metered_gpus"].value) if "metered_gpus" in self.numbers else 1

    @property
    def clock_rated_mhz(self) -> float:
        """Boost clock as the maker states it, that its peaks belong to. [MHz]

        Desktop cards run faster where neither power nor heat holds them; others at most at it.
        """
        rated = self.numbers.get("clock_rated_mhz")
        return self.clock_boost_mhz if rated is None else rated.value

    @property
    def clock_base_mhz(self) -> float:
        """Lowest clock promised under load; a share of the rated boost clock where none is stated. [MHz]"""
        if "clock_base_mhz" in self.numbers:
            return self.numbers["clock_base_mhz"].value
        return max(prior_number("clocks.base_share") * self.clock_rated_mhz, self.clock_min_mhz)

    def rate(self, pipe: str) -> float:
        """Return FLOP (or op) per clock and SM of a pipe, or of the one that does its work here.

        >>> from tracetool.hardware.load import load_gpu
        >>> load_gpu("a100-pcie-40gb").rate("tensor_fp8")  # converted to fp16 first
        2048.0
        """
        return self.flops_per_clock_sm[self.pipe_of(pipe)]

    def pipe_of(self, pipe: str) -> str:
        """Return the pipe that does the work of one here: itself, or the next that the GPU has.

        >>> from tracetool.hardware.load import load_gpu
        >>> load_gpu("a100-pcie-40gb").pipe_of("tensor_fp8")
        'tensor_fp16'
        """
        pipe_tried: str | None = pipe
        while pipe_tried is not None:
            if self.flops_per_clock_sm.get(pipe_tried, 0.0) > 0:
                return pipe_tried
            pipe_tried = FALLBACK.get(pipe_tried)
        raise KeyError(pipe)

    def link_rate(self, ranks: Floats) -> Floats:
        """Return the peak rate of a GPU's links to the others of a group, in one direction. Shape (n,). [B/s]

        Through a switch any other GPU is reached at the full rate. Without one each link leads to one GPU of
        the node: in a group of fewer, only the links between its GPUs carry anything.

        >>> from tracetool.hardware.load import load_gpu
        >>> [float(load_gpu(g).link_rate(np.array([2.0]))[0]) / 1e9 for g in ("h100-sxm", "mi300x")]
        [450.0, 64.0]
        """
        if not self.link_peers:
            return np.full(len(ranks), self.link_bytes_per_s)
        return self.link_bytes_per_s * np.clip(ranks - 1.0, 1.0, self.link_peers) / self.link_peers

    def peak_flops(self, pipe: str, clock_mhz: Numbers | float) -> Floats:
        """Return the peak rate of a pipe at a clock: units x rate x clock.

        Parameters
        ----------
        pipe : str
            One of ``PIPES``; a missing pipe is replaced by the one its work falls to.
        clock_mhz : float or array
            SM clock. [MHz]

        Returns
        -------
        array of float, the shape of ``clock_mhz``
            Peak rate. [FLOP/s]

        Examples
        --------
        >>> from tracetool.hardware.load import load_gpu
        >>> float(load_gpu("a100-sxm").peak_flops("tensor_bf16", 1410) / 1e12).__round__(1)
        311.9
        """
        return np.asarray(self.sm_count * self.rate(pipe) * 1e6 * np.asarray(clock_mhz, np.float64))

    def voltage_v(self, clock_mhz: Numbers | float) -> Floats:
        """Return the core supply voltage at a clock, the shape of ``clock_mhz``. [V]"""
        return self.voltage.at(clock_mhz)

    def sensor(self, power_field: str = "draw", driver: str | None = None) -> Sensor:
        """Return the power sensor behind one field of the driver; see ``hardware.sensors``."""
        return sensor_of(self.architecture, power_field, driver, dict(self.sensor_override))

    def require_model(self) -> None:
        """Raise BadInput unless enough of the GPU is known to predict on it."""
        if self.scope != "model":
            raise BadInput(
                f"{self.title} is known only by its power sensor",
                "attribute works with it; to predict, add its clocks and rates to hardware/gpus",
            )
