"""One case to forecast: a model on GPUs, what it is asked to do, and under which conditions."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args

from tracetool.core.errors import BadInput
from tracetool.families import names
from tracetool.forecast.passes import Parallel

Mode = Literal["prefill", "decode", "serve", "train", "generate", "pass"]
#: One pass of operators that a table or a graph states.
SINGLE: Final = "pass"
MODES: Final[tuple[str, ...]] = get_args(Mode)

#: Lengths where none is given: a chat turn with some history, and its answer. [tokens]
DEFAULT_ISL: Final = 1024.0
DEFAULT_OSL: Final = 512.0
#: Most tokens a step takes in, as vLLM's servers are usually started (`--max-num-batched-tokens`). [tokens]
DEFAULT_BUDGET: Final = 8192.0
#: How operators are priced: by the laws of their kernels, or by efficiencies that saturate.
METHODS: Final = ("laws", "saturation")
#: Field of the numbers of the GPU that are changed.
SETTINGS: Final = "set"
#: No case has less of anything: a mean of running requests, a clock in MHz. [of each] A prior.
_LEAST: Final = 1e-6
#: No case has more than this of anything it counts; products of a few stay finite.
_MOST: Final = 1e9
#: No number of a GPU is larger: bytes of memory, bytes a second.
_MOST_SETTING: Final = 1e16


@dataclass(frozen=True)
class Case:
    """A case as it was asked for; see ``docs/forecast.md``. None where a value was not given.

    Names of the fields are the columns of a table of cases, units among them.
    """

    model: Any = None  # name, path or configuration
    gpu: str | None = None
    mode: str | None = None
    gpus: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    cp: int | None = None
    sp: int | None = None  # GPUs that share the sequence of one image or video
    bs: float | None = None
    isl: float | None = None
    osl: float | None = None
    gbs: float | None = None  # sequences of one step of training, over all replicas
    seq: float | None = None
    zero: int | None = None
    vpp: int | None = None  # interleaved parts of the layers each pipeline stage holds
    recompute: str | None = None
    optimizer: str | None = None
    attention: str | None = None
    steps: float | None = None
    height: float | None = None
    width: float | None = None
    frames: float | None = None
    dtype: str | None = None
    kv_dtype: str | None = None
    stack: str | None = None
    sampling: str | None = None
    launch: str | None = None
    token_budget: float | None = None
    clock_mhz: float | None = None
    mem_clock_mhz: float | None = None
    power_cap_w: float | None = None
    host_us: float | None = None
    method: str | None = None
    host: str | None = None  # a run whose host this is
    set: Mapping[str, float] | None = None  # numbers of the GPU that are changed, by their names

    def get(self, name: str, default: float) -> float:
        """Return a number of the case, or the default where none is given."""
        value = getattr(self, name)
        return default if value is None else float(value)


#: Fields that are words; all others are numbers.
TEXTS: Final = frozenset(
    {"model", "gpu", "set", "mode", "dtype", "kv_dtype", "stack", "sampling", "launch", "host", "method"}
    | {"recompute", names.OPTIMIZER, "attention"}
)
WHOLE: Final = frozenset({"gpus", "tp", "pp", "dp", "ep", "cp", "sp", "zero", "vpp"})
COLUMNS: Final = tuple(field.name for field in fields(Case))


#: Fields that only training reads, only pictures and films, and only requests of text.
_TRAINING: Final = ("gbs", "seq", "zero", "vpp", "recompute", names.OPTIMIZER)
_PICTURES: Final = ("steps", "height", "width", "frames", "sp")
_REQUESTS: Final = ("isl", "osl", "token_budget", "sampling", "kv_dtype")
#: What language models are asked for that run in an engine.
SERVED: Final = ("serve", "prefill", "decode")
_NOT_READ: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(SERVED, (*_TRAINING, *_PICTURES)),
    "train": (*_PICTURES, *_REQUESTS),
    "generate": (*_TRAINING, *_REQUESTS),
}


def without_effect(case: Case) -> tuple[str, ...]:
    """Return the fields a case states that its mode does not read."""
    return tuple(name for name in _NOT_READ.get(str(case.mode), ()) if getattr(case, name) is not None)


def read_case(values: dict[str, Any]) -> Case:
    """Return a case from a row of a table or the options of a command; every value is checked by itself.

    Raises
    ------
    BadInput
        If a value cannot be used; its column is named.
    """
    stated: dict[str, Any] = {}
    for name in COLUMNS:
        value = values.get(name)
        if value is None or (isinstance(value, float) and math.isnan(value)) or value == "":
            continue
        if name == SETTINGS:
            stated[name] = {key: _number(key, number) for key, number in read_settings(value).items()}
        else:
            stated[name] = _text(name, value) if name in TEXTS else _number(name, value)
    case = Case(**stated)
    needed = {"model": "a configuration or name", "gpu": "name it: --gpu h100-sxm; all: tracetool gpus"}
    for name, fix in needed.items():
        if getattr(case, name) is None:
            raise BadInput(f"{name}: is not given", fix)
    if case.host is not None and case.host_us is not None:
        raise BadInput("host: the host is stated twice", "give --host or --host-us")
    if case.method not in (None, *METHODS):
        raise BadInput(f"method: {case.method!r} is not known", f"known: {', '.join(METHODS)}")
    if case.method == METHODS[1] and case.mode != "train":
        raise BadInput("method: saturation forecasts steps of training", "ask with --mode train")
    mode = case.mode or "serve"
    if mode not in MODES:
        raise BadInput(f"mode: {mode!r} is not known", f"known: {', '.join(MODES)}")
    return with_mode(case, mode)


def with_mode(case: Case, mode: str) -> Case:
    """Return the case asked in a mode.

    Raises
    ------
    BadInput
        If it states a part of a request: only an engine in its steady state has a mean of running requests.
    """
    if case.bs is not None and case.bs != int(case.bs) and mode != "serve":
        raise BadInput(
            f"bs: {case.bs:g} is not a whole number", "only --mode serve takes a mean of running requests"
        )
    return replace(case, mode=mode)


def read_settings(value: Any) -> dict[str, Any]:
    """Return numbers of a GPU and their values from a mapping or texts: ``sm_count=160 dram_gbs=6000``.

    Raises
    ------
    BadInput
        If an entry is not a name and a value.

    Examples
    --------
    >>> read_settings("sm_count=160 dram_gbs=3000:9000:1000")
    {'sm_count': '160', 'dram_gbs': '3000:9000:1000'}
    """
    if isinstance(value, Mapping):
        return {str(name): number for name, number in value.items()}
    settings: dict[str, Any] = {}
    texts = [value] if isinstance(value, str) else list(value)
    for entry in " ".join(map(str, texts)).split():
        name, equals, number = entry.partition("=")
        if not (name and equals and number):
            raise BadInput(f"set: {entry[:60]!r} is not NAME=VALUE", "e.g. --set sm_count=160")
        if name in settings:
            raise BadInput(f"set: {name[:60]} is given twice", "give its values as a list: NAME=1,2")
        settings[name] = number
    return settings


def _text(name: str, value: Any) -> Any:
    if name == "model":
        if not isinstance(value, str | os.PathLike | Mapping):
            raise BadInput(f"model: {value!r} is neither a name nor a path")
        return value
    if name == "host" and isinstance(value, os.PathLike):  # a run stands for its folder
        return os.fspath(value)
    if not isinstance(value, str):
        raise BadInput(f"{name}: {value!r} is not a word")
    return value.strip()


def _number(name: str, value: Any) -> float | int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    most = _MOST if name in COLUMNS else _MOST_SETTING
    if isinstance(value, bool) or not math.isfinite(number) or not 0.0 <= number <= most:
        raise BadInput(f"{name}: {value!r} is not a number from 0 to {most:g}")
    if name not in WHOLE:
        if number < _LEAST and name != "host_us":
            raise BadInput(f"{name}: {number:g} is {'not above zero' if not number else 'next to nothing'}")
        return number
    least = 0 if name == "zero" else 1
    if number != int(number) or number < least:
        raise BadInput(f"{name}: {value!r} is not a whole number of at least {least}")
    return int(number)


@dataclass(frozen=True)
class Division:
    """How the GPUs of a case divide the work: a replica's division, and how many replicas there are."""

    parallel: Parallel
    replicas: int
    shared: int = 1  # GPUs that share the sequence of one image or video

    @property
    def gpus(self) -> int:
        """All GPUs of the case."""
        return self.parallel.gpus * self.replicas * self.shared


def divide(case: Case) -> Division:
    """Return the division of a case.

    ``dp`` replicas share nothing but their queue, except with experts divided over more GPUs than ``tp``:
    then they are one expert-parallel group. More ``gpus`` than one replica needs hold several.

    Raises
    ------
    BadInput
        If the GPUs cannot be divided so.

    Examples
    --------
    >>> divide(Case(tp=2, dp=4)).replicas, divide(Case(dp=8, ep=8)).replicas, divide(Case(gpus=4)).gpus
    (4, 1, 4)
    """
    tp, pp, dp, ep, cp = (int(case.get(name, 1)) for name in ("tp", "pp", "dp", "ep", "cp"))
    if ep > tp * dp:
        if ep % tp:
            raise BadInput(f"ep: {ep} is not a multiple of tp = {tp}", "GPUs of one group hold all experts")
        dp = max(dp, ep // tp)
    grouped = ep > tp
    replicas = 1 if grouped else dp
    parallel = Parallel(tp=tp, pp=pp, dp=dp if grouped else 1, ep=ep, cp=cp)
    needed = parallel.gpus * replicas * int(case.get("sp", 1))
    if case.gpus is not None and case.gpus != needed:
        if case.gpus % needed:
            raise BadInput(
                f"gpus: {case.gpus} is not a multiple of tp x pp x dp x cp = {needed}",
                "leave it out, or give what they multiply to",
            )
        replicas *= case.gpus // needed
    return Division(parallel, replicas, int(case.get("sp", 1)))
