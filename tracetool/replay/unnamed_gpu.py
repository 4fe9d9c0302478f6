"""A run whose trace names no known GPU: how its times are used, and the note to the user."""

from __future__ import annotations

from tracetool.core.errors import BadInput
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.hardware.makers import example_gpu, maker_title
from tracetool.replay.recording_conditions import recorded_gpu
from tracetool.tables.run import Run


def trace_vendor(run: Run) -> str | None:
    """Return whose GPUs ran a run's kernels, ``nvidia`` or ``amd``; None if not known, or both."""
    worked = run.devices.join(run.table("kernels", ("device",)).unique(), on="device", how="semi")
    vendors = worked["vendor"].unique().to_list()
    return vendors[0] if len(vendors) == 1 else None


def no_gpu(run: Run) -> BadInput:
    """Return the error for a run whose GPU is neither known nor given."""
    example = example_gpu(trace_vendor(run))
    return BadInput.in_file(
        run.path, _unnamed(run), f"name it: --gpu {example}; the known ones: tracetool gpus"
    )


def check_maker(run: Run, gpu: Gpu) -> None:
    """Raise BadInput where another maker's GPU than ``gpu`` recorded a run whose trace names no known GPU."""
    vendor = trace_vendor(run)
    if vendor is not None and vendor != gpu.vendor:
        raise BadInput.in_file(
            run.path,
            f"{_unnamed(run)}, but it was recorded on a GPU of {maker_title(vendor)}, not on {gpu.name}",
            f"ingest it with the GPU it ran on, e.g. --gpu {example_gpu(vendor)}, then predict {gpu.name}",
        )


def taken_as_recorded(run: Run, gpu: Gpu) -> str:
    """Return a sentence on a run whose trace names no known GPU being taken as recorded on ``gpu``.

    Raises
    ------
    BadInput
        If another maker's GPU recorded it.
    """
    check_maker(run, gpu)
    return (
        f"{_unnamed(run)}: its times are taken as recorded on {gpu.name}; to carry them over from another"
        " GPU, ingest the trace with --gpu and that GPU"
    )


def check_named(run: Run, gpu: str) -> None:
    """Raise BadInput where the GPU a user names is none, or of another maker than a run's unnamed one."""
    named_gpu = load_gpu(gpu, part="sensor")
    if recorded_gpu(run) is None:
        check_maker(run, named_gpu)


def _unnamed(run: Run) -> str:
    names = sorted({n for n in run.devices["name"].to_list() if n})
    return f"the trace names {', '.join(names)}, which is not known" if names else "the trace names no GPU"
