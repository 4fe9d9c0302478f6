"""Profiles of JAX and TensorFlow on GPUs: XLA's ``*.xplane.pb``."""

from __future__ import annotations

import re
from pathlib import Path

from tracetool.sources.format import Format, Probe, ReadOptions, Trace

#: A plane's name behind the length of the first message, perhaps a number, and the name's length.
_NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_FIRST = re.compile(rb"^\n%b(?:\x08%b)?\x12.(?:/host:|/device:|Task )" % (_NUMBER, _NUMBER), re.DOTALL)
_ANY = re.compile(rb"\x12.(?:/host:(?:metadata|CPU)|/device:(?:GPU|TPU|CUSTOM):)", re.DOTALL)


def sniff(probe: Probe) -> float:
    """Score: a list of planes, named for hosts and devices."""
    if probe.head[:1] != b"\n":
        return 0.0
    return 1.0 if _FIRST.match(probe.head) else 0.9 if _ANY.search(probe.head) else 0.0


def read(path: Path, options: ReadOptions) -> Trace:
    """Return the trace.

    Raises
    ------
    BadInput
        If it is cut short or damaged, or holds no GPU.
    """
    from tracetool.sources.xla.profile import read_profile

    return read_profile(path, options)


FORMAT = Format(
    title="JAX and TensorFlow profile (XLA xplane)",
    holds="trace",
    made_by="jax.profiler.start_trace('DIR') ... jax.profiler.stop_trace()",
    tried="three profiles of JAX on MI300X and MI350X; for NVIDIA the events its source writes, made by hand",
    checked="times against a protobuf reader of the test's own; shapes of the compiled module it wrote",
    sniff=sniff,
    read=read,
    suffixes=(".xplane.pb",),
    memory_ratio=40.0,
)
