"""``tracetool forecast``: a model from its configuration, no trace."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.arguments import finite
from tracetool.cli.output import JSON_OPTION, QUIET_OPTION

app = typer.Typer()


def _number(names: str, text: str) -> float | None:
    value: float | None = typer.Option(None, *names.split("/"), callback=finite, help=text)
    return value


def _whole(name: str, text: str) -> int | None:
    value: int | None = typer.Option(None, name, min=1, help=text)
    return value


@app.command(
    short_help="A model's time, power and energy from its config, no trace.",
    epilog="Example: tracetool forecast config.json --gpu h100-sxm --mode serve --isl 1024 --osl 256 --bs 64",
)
def forecast(
    source: str = typer.Argument(
        ..., metavar="MODEL|TABLE", help="A config.json, a model's name, or a table with a case per row."
    ),
    gpu: str | None = typer.Option(None, "--gpu", "--system", help="GPU, e.g. h200-sxm."),
    mode: str | None = typer.Option(
        None, "--mode", help="prefill, decode, serve (the default of language models), train or generate."
    ),
    isl: float | None = _number("--isl", "Tokens of a prompt (1024)."),
    osl: float | None = _number("--osl", "Tokens a request puts out (512)."),
    bs: float | None = _number(
        "--bs/--max-num-seqs",
        "Requests that run at once, of all replicas; images or videos of a batch; train: micro batch (1).",
    ),
    tp: int | None = _whole("--tp", "GPUs that share each layer."),
    pp: int | None = _whole("--pp", "Pipeline stages."),
    dp: int | None = _whole("--dp", "Replicas; with --ep beyond --tp, attention replicas of one group."),
    ep: int | None = _whole("--ep", "GPUs that the experts are divided over."),
    cp: int | None = _whole("--cp", "GPUs that share one sequence's tokens."),
    gpus: int | None = _whole("--gpus", "All GPUs, where they hold several replicas."),
    sp: int | None = _whole("--sp", "GPUs that share the sequence of one image or video."),
    steps: float | None = _number("--steps", "Denoising steps of an image or video (28)."),
    height: float | None = _number("--height", "Height of an image or video (1024). [pixels]"),
    width: float | None = _number("--width", "Width of it (1024). [pixels]"),
    frames: float | None = _number("--frames", "Frames of a video (1: an image)."),
    gbs: float | None = _number("--gbs", "train: sequences of one step, over all replicas."),
    seq: float | None = _number("--seq", "train: tokens of a sequence (4096)."),
    zero: int | None = typer.Option(None, "--zero", min=0, help="train: ZeRO stage, 0 to 3 (1)."),
    fsdp: bool = typer.Option(False, "--fsdp", help="train: full sharding, as --zero 3."),
    vpp: int | None = _whole("--vpp", "train: interleaved parts of the layers of a pipeline stage."),
    recompute: str | None = typer.Option(None, "--recompute", help="train: none, selective or full."),
    optimizer: str | None = typer.Option(
        None, "--optimizer", help="train: adamw, adam, momentum, sgd, none."
    ),
    dtype: str | None = typer.Option(None, "--dtype", help="train: bf16, fp16, fp32, tf32, fp8 or mxfp8."),
    attention: str | None = typer.Option(None, "--attention", help="train: flash or eager (its steps)."),
    stack: str | None = typer.Option(None, "--stack", help="Library that serves, e.g. vllm."),
    sampling: str | None = typer.Option(None, "--sampling", help="sampled (the default) or greedy."),
    budget: float | None = _number("--max-num-batched-tokens", "Most tokens of one step (8192)."),
    clock: float | None = _number("--clock", "Core clock; by default the boost clock. [MHz]"),
    mem_clock: float | None = _number("--mem-clock", "Memory clock. [MHz]"),
    power_cap: float | None = _number("--power-cap", "Power cap; by default the GPU's limit. [W]"),
    host_us: float | None = _number("--host-us", "Time of a step while no kernel runs. [us]"),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write a row per case: .parquet .csv .json .md .html"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """Forecast time to first token, time between tokens, tokens/s, power, J/token and memory."""
    from tracetool.api.forecast import forecast as forecast_source
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    result = forecast_source(
        source,
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
        zero=3 if fsdp else zero,
        vpp=vpp,
        recompute=recompute,
        optimizer=optimizer,
        dtype=dtype,
        attention=attention,
        stack=stack,
        sampling=sampling,
        token_budget=budget,
        clock_mhz=clock,
        mem_clock_mhz=mem_clock,
        power_cap_w=power_cap,
        host_us=host_us,
    )
    save(result, out)
    emit(result, as_json=as_json, quiet=quiet, written=[out])
