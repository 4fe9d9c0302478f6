"""``tracetool gpus``: the GPUs the model knows, and one of them with its curves."""

from __future__ import annotations

from pathlib import Path

import typer

from tracetool.cli.options import JSON_OPTION, QUIET_OPTION
from tracetool.core.errors import BadInput

app = typer.Typer()


@app.command(
    short_help="The GPUs that can be predicted.", epilog="Example: tracetool gpus --show a100-pcie-40gb"
)
def gpus(
    name: str | None = typer.Argument(None, help="GPU to show, as --show; all names when left out."),
    show: str | None = typer.Option(
        None, "--show", metavar="NAME", help="One GPU: numbers, sources, V(f), idle(f)."
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write the table: .parquet .csv .json .md .html .xml"
    ),
    as_json: bool = JSON_OPTION,
    quiet: bool = QUIET_OPTION,
) -> None:
    """List the GPUs that can be predicted, or show one with voltage and idle power over its clocks."""
    from tracetool.api.gpus import gpu
    from tracetool.api.gpus import gpus as all_gpus
    from tracetool.cli.output import check_out, emit, save

    check_out(out)
    if name and show and name != show:
        raise BadInput(f"two GPUs are named, {name!r} and {show!r}", "name one")
    shown = name or show
    listed = gpu(shown) if shown else all_gpus()
    save(listed, out)
    emit(listed, as_json=as_json, quiet=quiet)
