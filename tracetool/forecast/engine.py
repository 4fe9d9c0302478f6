"""Overhead of a serving engine beside the kernels of a step: coefficients with unit and source, from data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import tomli

from tracetool.core.errors import BadInput
from tracetool.families import names
from tracetool.families.implementations import library_of
from tracetool.forecast.pricing import Row
from tracetool.forecast.steps import HostTime
from tracetool.hardware.load import load_gpu

#: Requests a sampler sorts one by one; more are sorted together. [1] PyTorch's sort (Sort.cu) takes one
#: radix sort a row below 128 rows.
_SORTED_ALONE: Final = 128.0
#: Output tokens held at which a request's history is long: half of ``long_us`` is paid. [tokens]
_LONG: Final = 2000.0
_STEEP: Final = 4.0
SAMPLING: Final = ("sampled", "greedy")


@dataclass(frozen=True)
class Engine:
    """Coefficients of one engine on one kind of machine. Times in seconds."""

    name: str
    step_s: float
    request_s: float
    further_s: float
    long_s: float
    power: float
    less_s: float
    more_s: float
    time_sd: float
    power_sd: float
    source: str
    experts_few: float = 1.0
    experts_many: float = 1.0
    sort_power: float = 0.0  # power of sorts above idle over that of the softmax of the same numbers
    kernels: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict)

    def placed(self, row: Row) -> Row:
        """Return a row with the implementation this engine runs it in, where the row leaves it open.

        An entry that names a format too prices the row as that format: its kernels were measured, or the
        engine converts its inputs.
        """
        named = self.kernels.get(f"{row['op']}.{row.get('dtype', '')}")
        if named is None or row.get("implementation"):
            return row
        if isinstance(named, str):
            return {**row, "implementation": named}
        return {**row, "implementation": named["implementation"], "dtype": named["dtype"]}

    def stands_in(self, row: Row) -> bool:
        """Return whether a row :meth:`placed` is priced as kernels in place of unmeasured ones."""
        entries = [k for k in self.kernels.values() if not isinstance(k, str) and k.get("stands_in")]
        return any(
            (row.get("implementation"), row.get("dtype")) == (k["implementation"], k["dtype"])
            for k in entries
        )

    def sort_s(self, requests: float) -> float:
        """Return the time to sort the vocabulary of each running request, which top-p sampling needs. [s]"""
        alone, more = min(requests, _SORTED_ALONE), max(requests - _SORTED_ALONE, 0.0)
        return alone * self.request_s + more * self.further_s

    def slowed(self, row: Row) -> float:
        """Return the time of a row over that of its law's kernels: experts of a share no library tuned.

        Tuned tiles are delivered for whole layers of experts; for the share a GPU of an expert-parallel group
        holds vLLM takes one of two by default (``fused_moe.py``, ``get_default_config``): tiles of 16 rows up
        to a token an expert, tiles of 64 beyond.
        """
        if row["op"] != names.MOE or float(row.get("ep", 1.0)) <= 1.0:
            return 1.0
        local = float(row["experts"]) / float(row["ep"])
        return self.experts_few if float(row["tokens"]) <= local else self.experts_many

    def host(self, output_tokens: float, *, sampled: bool = True) -> HostTime:
        """Return the engine's own time of a step, while no kernel runs.

        Parameters
        ----------
        output_tokens : float
            Output tokens each running request has put out, on average.
        sampled : bool
            Whether tokens are drawn at random, with a penalty on those that were, or the likeliest taken.
        """
        before = self.step_s
        if sampled:
            before += self.long_s / (1.0 + (_LONG / max(output_tokens, 1.0)) ** _STEEP)
        return HostTime(before_s=before, less_s=self.less_s, more_s=self.more_s)


@dataclass(frozen=True)
class Eager:
    """A framework that runs operator by operator: what that adds, and what its passes err by in common.

    ``power`` is power above idle over that of kernels in loops; ``others``, ``collective`` and ``attention``
    are times over those of the operators' laws; ``launches`` is launches over the operators listed.
    """

    power: float
    time_sd: float
    power_sd: float
    others: float
    collective: float
    attention: float
    launches: float

    def slowed(self, family: str) -> float:
        """Return the time of kernels of a family over that of its law's."""
        return {names.ATTENTION: self.attention, names.COLLECTIVE: self.collective}.get(family, self.others)


def eager_of(stack: str, architecture: str) -> Eager:
    """Return the coefficients of a framework on GPUs of an architecture."""
    documents = _documents()
    entry = documents.get(library_of(stack))
    entry = entry if entry is not None and "others" in entry else documents["torch"]
    attention = entry.get("attention", {}).get(architecture, {"value": 1.0})
    power, others = (entry[name].get(architecture, entry[name]["usual"]) for name in ("power", "others"))
    spreads = (entry["time_sd"], entry["power_sd"])
    values = (power, *spreads, others, entry["exchanges"], attention, entry["launches"])
    return Eager(*(float(number["value"]) for number in values))


def engine_of(stack: str, gpu: str, gpus: int = 1) -> Engine:
    """Return the engine of a stack: the one fitted on machines of this GPU, else the usual one.

    Parameters
    ----------
    stack : str
        Library, with or without a version.
    gpu : str
        Name of the GPU.
    gpus : int
        GPUs of one replica: an engine of one runs in a single process.
    """
    documents = _documents()
    library = library_of(stack or "vllm")
    entry = documents.get(library, {})
    entry = entry if "step_us" in entry else documents["vllm"]  # a library no served run was measured of
    machine = entry.get("machines", {}).get(gpu, {})
    numbers = {
        k: v
        for section in (entry, machine, machine.get("single", {}) if gpus == 1 else {})
        for k, v in section.items()
        if isinstance(v, dict) and "value" in v
    }
    value = {name: float(number["value"]) for name, number in numbers.items()}
    step = numbers["step_us"]
    return Engine(
        name=library,
        step_s=value["step_us"] * 1e-6,
        request_s=value["request_us"] * 1e-6,
        further_s=value["further_us"] * 1e-6,
        long_s=value["long_us"] * 1e-6,
        power=value["power"],
        less_s=max(value["step_us"] - float(step["low"]), 0.0) * 1e-6,
        more_s=max(float(step["high"]) - value["step_us"], 0.0) * 1e-6,
        time_sd=value["time_sd"],
        power_sd=value["power_sd"],
        source=str(machine.get("source", entry["source"])),
        experts_few=value["experts_few"],
        experts_many=value["experts_many"],
        sort_power=value["sort_power"],
        kernels=_kernels_of(entry.get("kernels", {}), gpu),
    )


def _kernels_of(kernels: Mapping[str, Any], gpu: str) -> dict[str, str | Mapping[str, Any]]:
    """Return implementations by operator and format: the usual ones, and those of the GPU's architecture."""
    usual = {name: value for name, value in kernels.items() if "." in name}
    of_architecture: Mapping[str, str | Mapping[str, Any]] = kernels.get(load_gpu(gpu).architecture, {})
    return {**usual, **of_architecture}


@cache
def _documents() -> Mapping[str, Any]:
    return tomli.loads(Path(__file__).with_name("serving.toml").read_text("utf-8"))


def check_sampling(word: str | None) -> bool:
    """Return whether tokens are drawn at random: by default they are.

    Raises
    ------
    BadInput
        If the word is not known.
    """
    if word not in (None, *SAMPLING):
        raise BadInput(f"sampling: {word!r} is not known", f"known: {', '.join(SAMPLING)}")
    return word != "greedy"
