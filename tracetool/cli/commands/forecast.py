"""``tracetool forecast``: a model from its configuration, no trace."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import tariff_of
from tracetool.cli.options import (
    GCO2_OPTION,
    JSON_OPTION,
    PRICE_OPTION,
    PUE_OPTION,
    QUIET_OPTION,
    SLOWDOWN_OPTION,
)

app = typer.Typer()


def _not_empty(value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise typer.BadParameter("is empty")
    return value


def _values(names: str, text: str) -> str | None:
    """Return an option that takes one value or several; they are checked where they are used."""
    value: str | None = typer.Option(None, *names.split("/"), callback=_not_empty, help=text)
    return value


@app.command(
    short_help="A model's time, power and energy from its config, no trace.",
    epilog="Example: tracetool forecast config.json --gpu h100-sxm --mode serve --isl 1024 --osl 256 --bs 64",
)
def forecast(
    source: str = typer.Argument(
        ..., metavar="MODEL|TABLE", help="A config.json, a model's name, or a table with a case per row."
    ),
    gpu: str | None = _values("--gpu/--system", "GPU, e.g. h200-sxm."),
    mode: str | None = _values(
        "--mode",
        "prefill (default of encoders), decode, serve (usual default), train, generate (of pipelines) or "
        "pass (of operators).",
    ),
    isl: str | None = _values("--isl", "Tokens of a prompt (1024)."),
    osl: str | None = _values("--osl", "Tokens a request puts out (512)."),
    bs: str | None = _values(
        "--bs/--max-num-seqs",
        "Requests that run at once, of all replicas (serve: their mean); images or videos of a batch; "
        "train: micro batch (1).",
    ),
    tp: str | None = _values("--tp", "GPUs that share each layer."),
    pp: str | None = _values("--pp", "Pipeline stages."),
    dp: str | None = _values("--dp", "Replicas; with --ep beyond --tp, attention replicas of one group."),
    ep: str | None = _values("--ep", "GPUs that the experts are divided over."),
    cp: str | None = _values("--cp", "GPUs that share one sequence's tokens."),
    gpus: str | None = _values("--gpus", "All GPUs, where they hold several replicas."),
    sp: str | None = _values("--sp", "GPUs that share the sequence of one image or video."),
    steps: str | None = _values("--steps", "Denoising steps of an image or video (28)."),
    height: str | None = _values("--height", "Height of an image or video (1024). [pixels]"),
    width: str | None = _values("--width", "Width of it (1024). [pixels]"),
    frames: str | None = _values("--frames", "Frames of a video (1: an image)."),
    gbs: str | None = _values("--gbs", "train: sequences of one step, over all replicas."),
    seq: str | None = _values("--seq", "train: tokens of a sequence (4096)."),
    zero: str | None = _values("--zero", "train: ZeRO stage, 0 to 3 (1)."),
    fsdp: bool = typer.Option(False, "--fsdp", help="train: full sharding, as --zero 3."),
    vpp: str | None = _values("--vpp", "train: interleaved parts of the layers of a pipeline stage."),
    recompute: str | None = _values("--recompute", "train: none, selective or full."),
    optimizer: str | None = _values("--optimizer", "train: adamw, adam, momentum, sgd, none."),
    dtype: str | None = _values(
        "--dtype",
        "Number format in place of the model's: bf16, fp16, fp32, fp8, nvfp4, int8_wo, int4_wo; "
        "train: also tf32, mxfp8.",
    ),
    kv_dtype: str | None = _values(
        "--kv-dtype", "Keys and values that requests keep: auto (as the model states), bf16, fp16 or fp8."
    ),
    attention: str | None = _values("--attention", "train: flash or eager (its steps)."),
    method: str | None = _values(
        "--method", "laws (of kernels) or saturation (train: efficiencies that saturate)."
    ),
    stack: str | None = _values("--stack", "Library that serves, e.g. vllm."),
    launch: str | None = _values(
        "--launch", "graph (CUDA graphs, the default) or eager: kernels one by one."
    ),
    sampling: str | None = _values("--sampling", "sampled (the default) or greedy."),
    budget: str | None = _values("--max-num-batched-tokens", "Most tokens of one step (8192)."),
    clock: str | None = _values("--clock", "Core clock; by default the boost clock. [MHz]"),
    mem_clock: str | None = _values("--mem-clock", "Memory clock. [MHz]"),
    power_cap: str | None = _values("--power-cap", "Power cap; by default the GPU's limit. [W]"),
    host_us: str | None = _values("--host-us", "Time of a step while no kernel runs. [us]"),
    host: str | None = typer.Option(
        None, "--host", metavar="RUN", help="Take the host's times from a run that was recorded on it."
    ),
    settings: list[str] = typer.Option(
        [],
        "--set",
        metavar="NAME=VALUE",
        help="A number of the GPU, changed: sm_count=160, dram_gbs=3000:9000:1000; may repeat.",
    ),
    compare: Path | None = typer.Option(
        None, "--compare", metavar="RUN", help="Set the operators of one case against the kernels of a run."
    ),
    check: bool = typer.Option(
        False,
        "--check",
        help="Count the model on torch's meta device too (needs torch, transformers or diffusers).",
    ),
    slowdown: str = SLOWDOWN_OPTION,
    price: float | None = PRICE_OPTION,
    gco2_per_kwh: float | None = GCO2_OPTION,
    pue: float | None = PUE_OPTION,
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write a row per case: .parquet .csv .json .md .html .xml"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Forecast time to first token, time between tokens, tokens/s, power, J/token and memory.

    Options of a case take one value or several (1,8,64 or 900:1980:90): several give one table of all
    combinations, with those that no other beats and the best of them.
    """
    from tracetool.api.forecast import forecast as forecast_source
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    tariff = tariff_of(price, gco2_per_kwh, pue)
    result = forecast_source(
        source,
        slowdown=slowdown,
        compare=compare,
        check=check,
        tariff=tariff,
        gpu=gpu,
        mode=mode,
        isl=isl,
        osl=osl,
        bs=bs,
        tp=tp,
        pp=pp,
        dp=dp,
        ep=ep,
        cp=cp,
        gpus=gpus,
        sp=sp,
        steps=steps,
        height=height,
        width=width,
        frames=frames,
        gbs=gbs,
        seq=seq,
        zero="3" if fsdp else zero,
        vpp=vpp,
        recompute=recompute,
        optimizer=optimizer,
        dtype=dtype,
        kv_dtype=kv_dtype,
        attention=attention,
        stack=stack,
        method=method,
        launch=launch,
        sampling=sampling,
        token_budget=budget,
        clock_mhz=clock,
        mem_clock_mhz=mem_clock,
        power_cap_w=power_cap,
        host_us=host_us,
        host=host,
        set=settings or None,
    )
    save(result, out)
    emit(result, as_json=as_json, quiet=quiet, written=[out])
    result.raise_if_other()
