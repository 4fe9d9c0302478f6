"""What ``record`` says to people, and its options as values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tracetool.core.errors import BadInput

if TYPE_CHECKING:
    from tracetool.api.check_sensor import SensorCheck
    from tracetool.api.record import Recorded


def say_on_stderr(text: str) -> None:
    """Print one step on standard error."""
    print(f"tracetool: {text}", file=sys.stderr, flush=True)


def chosen_vendor(text: str) -> Literal["nvidia", "amd"] | None:
    """Return the vendor asked for, None where it is left open."""
    if text in ("nvidia", "amd"):
        return text  # type: ignore[return-value]
    if text:
        raise BadInput(f"no vendor called {text}", "known: nvidia, amd")
    return None


def chosen_devices(text: str) -> tuple[int, ...]:
    """Return the GPUs of ``0,2``."""
    try:
        found = tuple(int(n) for n in text.split(",") if n.strip())
    except ValueError as error:
        raise BadInput(f"--devices {text}: not a list of numbers", "write e.g. --devices 0,2") from error
    if any(n < 0 for n in found):
        raise BadInput(f"--devices {text}: GPUs are numbered from 0")
    return found


def recorded_lines(made: Recorded) -> list[str]:
    """Return what came of a recording, line by line."""
    facts = made.facts
    sampler = facts.get("sampler", {})
    lines = []
    for device in sampler.get("devices", []):
        updates = [u for f, u in device["update_s"].items() if u and f != "energy_uj"]
        seen = (
            f"updates every {1e3 * min(updates):.0f} ms" if updates else "update period not seen while idle"
        )
        lines.append(f"GPU {device['index']}: {device['name']}, {', '.join(device['fields'])}; {seen}")
    jitter, delay = facts.get("poll_jitter_us") or {}, facts.get("read_delay_us") or {}
    if jitter.get("count"):
        lines.append(
            f"Sampler: {facts['readings']} readings every {1e3 * sampler.get('poll_s', 0):.1f} ms, "
            f"late by {jitter['p50'] / 1e3:.2f} ms (95 %: {jitter['p95'] / 1e3:.2f}), "
            f"read in {delay['p50'] / 1e3:.2f} ms (95 %: {delay['p95'] / 1e3:.2f}), "
            f"{100 * (facts.get('sampler_cpu_share') or 0):.1f} % of a core"
        )
    for what in ("idle_before", "idle_after"):
        if watts := facts.get(f"{what}_w"):
            said = ", ".join(f"GPU {d}: {w:g} W" for d, w in watts.items())
            lines.append(f"{what.replace('_', ' ').capitalize()}: {said}")
    if "slowdown" in facts:
        lines.append(f"The program took {facts['slowdown']:.2f} times as long under the profiler")
    lines += [f"warning: {w}" for w in made.warnings]
    if made.exit_code:
        lines.append(f"The program ended with exit code {made.exit_code}; what it did is recorded")
    lines.append(f"Recording: {made.folder}")
    lines += [f"Run: {run}" for run in made.runs]
    if made.runs:
        lines.append(f"Next: tracetool attribute {made.runs[0]}")
    return lines


def check_and_show(
    vendor: str,
    devices: Sequence[int],
    seconds: float,
    python: Sequence[str] | None,
    out: Path | None,
    say: Callable[[str], None],
    as_json: bool,
) -> None:
    """Identify the sensor of one GPU and print what each of its power fields is."""
    from dataclasses import asdict

    from tracetool.api.check_sensor import check_sensor, write_sensor_file
    from tracetool.cli.output import print_json

    if len(devices) > 1:
        raise BadInput("--sensor-check looks at one GPU", "give one of them: --devices 0")
    if seconds < 5:
        raise BadInput("--seconds: too short to identify a sensor", "give 10 or more")
    name, checks = check_sensor(
        vendor=chosen_vendor(vendor),
        device=devices[0] if devices else 0,
        seconds=seconds,
        python=python[0] if python else None,
        say=say,
    )
    if as_json:
        print_json({"gpu": name, "fields": [{"field": c.field, **asdict(c.found)} for c in checks]})
    else:
        for check in checks:
            print(f"{check.field} of {name}: {sensor_text(check)}")
    if out is not None:
        write_sensor_file(out, name, checks)
        say(f"wrote {out}; use it with: tracetool attribute RUN --sensor {out}")


def sensor_text(check: SensorCheck) -> str:
    """Return what was identified of a field, in a line."""
    found = check.found
    parts = []
    if found.window_s:
        w = found.window_s
        parts.append(f"mean over {1e3 * w.value:.0f} ms ({1e3 * w.low:.0f} to {1e3 * w.high:.0f})")
    if found.lag_s:
        g = found.lag_s
        parts.append(f"first-order lag of {1e3 * g.value:.0f} ms ({1e3 * g.low:.0f} to {1e3 * g.high:.0f})")
    if found.update_s:
        parts.append(f"an update every {1e3 * found.update_s.value:.1f} ms")
    if found.kind:
        parts.append(f"{1e3 * found.offset_s.value:.1f} ms after the activity")
    return "; ".join([*parts, found.reason] if found.reason else parts)
