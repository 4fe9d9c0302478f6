"""The recorder's own power log: text that is whole after every line, whatever kills its writer.

First :data:`MAGIC`, then lines. ``# {json}`` states what happened (the log's start, a pair of clock readings,
a lost or returned GPU, the end); every other line is one reading, its values in the order of :data:`COLUMNS`,
empty where the GPU does not report it. Times are ``CLOCK_BOOTTIME`` in ns, the middle of the read.
"""

from __future__ import annotations

from typing import Final

MAGIC: Final = "# tracetool power log 1"

#: Column to its unit and meaning, in the order written. All are whole numbers but the last.
COLUMNS: Final[dict[str, tuple[str, str]]] = {
    "time_ns": ("ns", "middle of the read on the boot-time clock"),
    "read_ns": ("ns", "how long the read of the power fields took"),
    "device": ("1", "position in the list of devices"),
    "instant_mw": ("mW", "instantaneous power field"),
    "average_mw": ("mW", "averaged power field"),
    "draw_mw": ("mW", "power field of unstated kind"),
    "energy_uj": ("uJ", "cumulative energy counter"),
    "clock_mhz": ("MHz", "SM or compute-unit clock"),
    "mem_clock_mhz": ("MHz", "memory clock"),
    "temperature_c": ("C", "GPU temperature"),
    "utilization_pct": ("%", "share of time busy, as the driver defines it"),
    "limit_mw": ("mW", "enforced power limit"),
    "throttle": ("1", "reasons for a lowered clock, as the driver's bit mask in hexadecimal"),
}
