"""A table of measured runs under one set of names and units, whatever its columns were called."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tracetool.core.errors import BadInput, TracetoolError
from tracetool.core.number_text import counted, number
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.sources.telemetry.readings import check_watts
from tracetool.sources.telemetry.units import wrong_unit

#: What the columns are called here, and by those who publish such tables: the first that is there is read.
#: Second are the names of ML.ENERGY's tables, third those of a forecast's. Factors bring them to the unit
#: here.
_NUMBERS: Final[dict[str, tuple[tuple[str, float], ...]]] = {
    "gpus": (("gpus", 1.0), ("num_gpus", 1.0)),
    "running": (("batch", 1.0), ("avg_batch_size", 1.0), ("batch_size", 1.0), ("bs", 1.0)),
    "batch_limit": (("batch_limit", 1.0), ("max_num_seqs", 1.0), ("batch_size", 1.0), ("bs", 1.0)),
    "power_w": (("power_w", 1.0), ("avg_power_watts", 1.0)),
    "token_j": (("energy_per_token_j", 1.0), ("energy_per_token_joules", 1.0)),
    "image_j": (("energy_per_image_j", 1.0), ("energy_per_image_joules", 1.0)),
    "video_j": (("energy_per_video_j", 1.0), ("energy_per_video_joules", 1.0)),
    "item_j": (("energy_per_item_j", 1.0),),
    "step_s": (
        ("step_s", 1.0), ("median_itl_ms", 1e-3), ("itl_ms", 1e-3),
        ("batch_latency_s", 1.0), ("step_ms", 1e-3),
    ),
    "tokens_per_request": (("tokens_per_request", 1.0), ("avg_output_len", 1.0), ("osl", 1.0)),
    "active_billions": (("active_billions", 1.0), ("activated_params_billions", 1.0)),
    "total_billions": (("total_billions", 1.0), ("total_params_billions", 1.0)),
    "steps": (("steps", 1.0), ("inference_steps", 1.0)),
    "height": (("height", 1.0), ("image_height", 1.0), ("video_height", 1.0)),
    "width": (("width", 1.0), ("image_width", 1.0), ("video_width", 1.0)),
    "frames": (("frames", 1.0), ("num_frames", 1.0)),
}  # fmt: skip
_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "task": ("task",),
    "model": ("model", "model_id", "nickname"),
    "gpu": ("gpu", "gpu_model"),
    "precision": ("precision", "weight_precision", "dtype"),
}
#: How the GPUs divide a model: part of a configuration, with no order of its own.
_PARALLEL: Final = (
    "tensor_parallel", "expert_parallel", "data_parallel", "ulysses_degree", "ring_degree", "tp",
    "pp", "dp", "ep",
)  # fmt: skip
#: Degrees whose product is the number of GPUs of a case.
_DEGREES: Final = ("tp", "pp", "dp")
#: Bytes of a weight by its format. [byte]
_WEIGHT_BYTES: Final = {
    "bfloat16": 2.0, "bf16": 2.0, "float16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0,
    "mxfp4": 0.53, "nvfp4": 0.56, "fp4": 0.56, "int4": 0.5, "float32": 4.0, "fp32": 4.0,
}  # fmt: skip
#: Ends of a model's name that state its weights' format, not another model.
_FORMAT: Final = r"(?i)[-_ ](fp8|bf16|bfloat16|fp16|int8|int4|mxfp4|nvfp4|awq|gptq)$"
#: Kinds of input beyond text that a task's name states.
SENSES: Final = ("video", "image")
#: Power over rate and energy per unit are one figure: rows further apart than this are named. [1]
_SAME: Final = 0.02
#: Share of rows with one factor between units that a table in another unit has; how near to it. [1] Prior.
_NEARLY_ALL, _NEARLY_ALL_OFF = 0.9, 0.2
#: Bounds of what a table states of a run, in whatever unit: joules, watts, requests, parameters. Priors.
_LEAST, _MOST = 1e-12, 1e15


@dataclass(frozen=True)
class RunTable:
    """Measured configurations.

    Attributes
    ----------
    frame : DataFrame
        One row per configuration: ``task``, ``model``, ``family`` (the model without its weights' format),
        ``gpu``, ``gpus``, ``precision``, ``parallel``, ``unit`` (token, image, video, item), ``batch`` (units
        worked on together), ``batch_limit``, ``energy_j`` (of one unit, all GPUs), ``power_w`` (all GPUs),
        ``step_s`` (between tokens, or of a batch of images), ``units_per_request``, ``active_billions``,
        ``total_billions``, ``weight_bytes``, ``steps``, ``pixels`` (of one image or video, all frames).
    notes : tuple of str
        What was left out, and what does not agree.
    sheets : mapping
        What is known of a GPU by the name in ``gpu``, where that is known.
    """

    frame: pl.DataFrame
    notes: tuple[str, ...]
    sheets: Mapping[str, Gpu]


def _column(frame: pl.DataFrame, names: Sequence[tuple[str, float]], label: str) -> pl.Expr:
    # a column without any value is read as text from CSV
    present = [
        (n, factor) for n, factor in names if n in frame.columns and frame[n].null_count() < frame.height
    ]
    wrong = [n for n, _ in present if not frame[n].dtype.is_numeric()]
    if wrong:
        raise BadInput(f"column {wrong[0]} holds text where numbers are needed", "give numbers alone")
    if not present:
        return pl.lit(None, pl.Float64).alias(label)
    return pl.coalesce([pl.col(n).cast(pl.Float64) * factor for n, factor in present]).alias(label)


def _gpus(frame: pl.DataFrame) -> pl.Expr:
    """Return the number of GPUs where no column states it: the product of the model's divisions, else one."""
    degrees = [
        pl.col(c).cast(pl.Float64, strict=False).fill_null(1.0) for c in _DEGREES if c in frame.columns
    ]
    return reduce(operator.mul, degrees, pl.lit(1.0)).alias("divided")


def input_kind() -> pl.Expr:
    """Return the input of a request beside text, from its task's name: text, image or video."""
    kind = pl.lit("text")
    for sense in reversed(SENSES):
        named = pl.col("task").str.to_lowercase().str.contains(sense)
        kind = pl.when(named).then(pl.lit(sense)).otherwise(kind)
    return kind


def is_run_table(columns: Sequence[str]) -> bool:
    """Return whether columns are those of measured configurations: a model, a GPU and energy per unit.

    >>> (
    ...     is_run_table(["model_id", "gpu_model", "energy_per_token_joules"]),
    ...     is_run_table(["op", "m", "n", "k"]),
    ... )
    (True, False)
    """
    energies = {name for unit in ("token_j", "image_j", "video_j", "item_j") for name, _ in _NUMBERS[unit]}
    return bool(
        energies & set(columns)
        and set(_TEXTS["model"]) & set(columns)
        and set(_TEXTS["gpu"]) & set(columns)
    )  # fmt: skip


def read_runs(frame: pl.DataFrame, name: str = "table") -> RunTable:
    """Return a table of runs under the names used here.

    Parameters
    ----------
    frame : DataFrame
        As ML.ENERGY publishes its runs, or as ``forecast -o`` writes its cases.
    name : str
        What errors call it.

    Raises
    ------
    BadInput
        If it is no such table, a column holds text where numbers are needed, or no row is left.
    """
    if not is_run_table(frame.columns):
        raise BadInput.in_file(
            name, "is no table of measured runs",
            "needs a model, a GPU and an energy per token, image or video: docs/diagnose-table.md",
        )  # fmt: skip
    try:
        numbers = [_column(frame, aliases, label) for label, aliases in _NUMBERS.items()]
    except BadInput as error:
        raise BadInput.in_file(name, error.message, error.fix) from None
    texts = [
        pl.coalesce([pl.col(a).cast(pl.String) for a in aliases if a in frame.columns] or [pl.lit("")])
        .fill_null("")
        .alias(label)
        for label, aliases in _TEXTS.items()
    ]
    degrees = [c for c in _PARALLEL if c in frame.columns]
    parallel = pl.concat_str(
        [pl.format("{}={}", pl.lit(c), pl.col(c).fill_null(0)) for c in degrees] or [pl.lit("")],
        separator=" ",
    )
    table = frame.select(*texts, *numbers, parallel.alias("parallel"), _gpus(frame)).with_row_index("row")
    stated = pl.col([label for label in _NUMBERS if label != "gpus"])  # these are one where none is stated
    table = table.with_columns(pl.when(stated.abs() <= _MOST).then(stated).name.keep())
    unit = (
        pl.when(pl.col("token_j").is_not_null()).then(pl.lit("token"))
        .when(pl.col("image_j").is_not_null()).then(pl.lit("image"))
        .when(pl.col("video_j").is_not_null()).then(pl.lit("video"))
        .otherwise(pl.lit("item"))
    )  # fmt: skip
    table = table.with_columns(
        unit=unit,
        energy_j=pl.coalesce("token_j", "image_j", "video_j", "item_j"),
        family=pl.col("model").str.replace(_FORMAT, ""),
        weight_bytes=pl.col("precision").str.to_lowercase().replace_strict(_WEIGHT_BYTES, default=2.0),
        gpus=pl.col("gpus").fill_null(pl.col("divided")),
        pixels=pl.col("height") * pl.col("width") * pl.col("frames").fill_null(1.0),
        units_per_request=pl.when(unit == "token").then(pl.col("tokens_per_request")).otherwise(1.0),
    ).rename({"running": "batch"})
    needed = ("energy_j", "power_w", "batch", "gpus")
    sound = pl.all_horizontal([pl.col(c).is_between(_LEAST, _MOST) for c in needed]).fill_null(value=False)
    usable = table.filter(sound)
    read = ", ".join(_needed_columns(frame))
    if not table.height:
        raise BadInput.in_file(name, "holds no rows", "give one row per measured configuration")
    if not usable.height:
        raise BadInput.in_file(name, f"no row has all of {read} above zero", "fill these columns")
    notes = []
    if usable.height < table.height:
        notes.append(f"{table.height - usable.height} of {table.height} rows are without one of {read}")
    notes += _disagreement(frame, usable, name)
    check_watts(usable["power_w"] / usable["gpus"], Path(name))
    columns = (
        "row", "task", "model", "family", "gpu", "gpus", "precision", "parallel", "unit", "batch",
        "batch_limit", "energy_j", "power_w", "step_s", "units_per_request", "active_billions",
        "total_billions",
        "weight_bytes", "steps", "pixels",
    )  # fmt: skip
    return RunTable(usable.select(columns), tuple(notes), _sheets(usable["gpu"].unique().to_list()))


def _needed_columns(frame: pl.DataFrame) -> list[str]:
    """Return the columns of a table that each row needs; where it has none, the name it should have."""
    names = []
    for labels in (("token_j", "image_j", "video_j", "item_j"), ("power_w",), ("running",), ("gpus",)):
        aliases = [name for label in labels for name, _ in _NUMBERS[label]]
        present = [name for name in aliases if name in frame.columns]
        names += ["/".join(present)] if present else [] if labels == ("gpus",) else aliases[:1]
    return names


def _disagreement(frame: pl.DataFrame, usable: pl.DataFrame, name: str) -> list[str]:
    """Name rows whose energy per unit is not their power over their rate: one of the three is another's.

    Raises
    ------
    BadInput
        If nearly all rows disagree by the factor between two units.
    """
    rates = [c for c in frame.columns if "throughput" in c or c == "tokens_per_s"]
    if not rates:
        return []
    rate = frame.select(pl.coalesce([pl.col(c).cast(pl.Float64, strict=False) for c in rates]))
    joined = usable.with_columns(rate=rate.to_series().gather(usable["row"])).filter(pl.col("rate") > 0)
    ratio = joined.select(pl.col("power_w") / pl.col("rate") / pl.col("energy_j")).to_series()
    ratio = ratio.filter(ratio.is_finite() & (ratio > 0))
    apart = int(((ratio - 1.0).abs() > _SAME).sum())
    if not apart:
        return []
    usual = float(np.median(ratio.to_numpy()))
    alike = int((ratio / usual - 1.0).abs().le(_NEARLY_ALL_OFF).sum())
    meaning = wrong_unit(usual)
    if meaning is not None and alike >= _NEARLY_ALL * ratio.len():
        raise BadInput.in_file(
            name,
            f"power over rate is {number(usual, 3)} times the energy per unit in {alike:,} of"
            f" {counted(ratio.len(), 'row')}: {meaning}",
            "give power in W, energy in J, rates per second",
        )
    text = (
        f"{apart} of {usable.height} rows state an energy per unit more than {100 * _SAME:.0f} % from"
        " their power over their rate: energy per unit is taken as stated"
    )
    return [text]


def _sheets(names: Sequence[str]) -> dict[str, Gpu]:
    """Return the data sheets of the GPUs whose names are known."""
    sheets = {}
    for name in names:
        with suppress(TracetoolError):
            sheets[name] = load_gpu(name)
    return sheets
