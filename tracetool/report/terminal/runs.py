"""How a run that was just recorded or read looks on the console."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracetool.report.sentences import open_console


def show_run(lines: Sequence[str], warnings: Sequence[str]) -> None:
    """Print what a run holds, line by line, on standard output and its warnings on standard error."""
    from rich.markup import escape

    for warning in warnings:
        open_console(stderr=True).print(f"note: {escape(warning)}", soft_wrap=True)
    for line in lines:
        open_console().print(escape(line), soft_wrap=True)


if TYPE_CHECKING:
    from tracetool.record.session import Recorded


def recorded_lines(recorded: Recorded) -> list[str]:
    """Return the result of a recording, line by line."""
    facts = recorded.facts
    sampler = facts.get("sampler", {})
    lines = []
    for device in sampler.get("devices", []):
        updates = [u for f, u in device["update_s"].items() if u and f != "energy_uj"]
        update_text = (
            f"updates every {1e3 * min(updates):.0f} ms" if updates else "update period not seen while idle"
        )
        lines.append(f"GPU {device['index']}: {device['name']}, {', '.join(device['fields'])}; {update_text}")
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
            limits = ", ".join(f"GPU {d}: {w:g} W" for d, w in watts.items())
            lines.append(f"{what.replace('_', ' ').capitalize()}: {limits}")
    if "slowdown" in facts:
        lines.append(f"The program took {facts['slowdown']:.2f} times as long under the profiler")
    lines += [f"warning: {w}" for w in recorded.warnings]
    if recorded.exit_code:
        lines.append(f"The program ended with exit code {recorded.exit_code}; what it did is recorded")
    lines.append(f"Recording: {recorded.folder}")
    lines += [f"Run: {run}" for run in recorded.runs]
    if recorded.runs:
        several = f"tracetool profile {recorded.runs[0].parent}/*"
        lines.append(
            f"Next: {several if len(recorded.runs) > 1 else f'tracetool attribute {recorded.runs[0]}'}"
        )
    return lines
