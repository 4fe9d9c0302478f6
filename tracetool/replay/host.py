"""Host time to issue work: a few costs per kind of operator, the same at every GPU clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import tomli

from tracetool.core.arrays import Floats, Texts

Launch = Literal["eager", "graph"]


@dataclass(frozen=True)
class HostCosts:
    """Host costs of one way of launching, in seconds; ``low``/``high`` bound other hosts at 90 %."""

    start_s: float
    latency_s: float
    gap_s: float
    operator_s: Mapping[str, float]
    low: float
    high: float
    source: str

    def issue_s(self, families: Texts) -> Floats:
        """Host time of one launch of each row, by family. Shape (n,). [s]"""
        other_operators_s = self.operator_s.get("other", 0.0)
        names, place = np.unique(families.astype(str), return_inverse=True)
        return np.array([self.operator_s.get(n, other_operators_s) for n in names])[place]

    def scaled(self, factor: float) -> HostCosts:
        """Return the costs of a host that takes ``factor`` times as long for everything."""
        operator_s = {name: value * factor for name, value in self.operator_s.items()}
        return replace(self, start_s=self.start_s * factor, operator_s=operator_s)


@cache
def host_costs(launch: Launch = "eager") -> HostCosts:
    """Return the costs in ``hosts.toml``: fitted where there is a measurement, else priors."""
    raw = tomli.loads(Path(__file__).with_name("hosts.toml").read_text("utf-8"))[launch]
    not_operators = {"start_us", "launch_latency_us", "gap_us"}
    numbers = {k: v for k, v in raw.items() if k.endswith("_us")}
    operators = {
        k.removesuffix("_us"): v["value"] * 1e-6 for k, v in numbers.items() if k not in not_operators
    }
    spread = [(v["low"] / v["value"], v["high"] / v["value"]) for v in numbers.values() if v["value"] > 0]
    return HostCosts(
        start_s=raw["start_us"]["value"] * 1e-6,
        latency_s=raw["launch_latency_us"]["value"] * 1e-6,
        gap_s=raw["gap_us"]["value"] * 1e-6,
        operator_s=operators,
        low=float(np.median([low for low, _ in spread])),
        high=float(np.median([high for _, high in spread])),
        source=raw["source"],
    )
