"""Write ``sensors.md``: what each power field shows, from the classes and architectures themselves.

``python docs/sensors_page.py``
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tracetool import hardware

PAGE = Path(__file__).with_name("sensors.md")
DATA = Path(hardware.__file__).parent
HEAD = """# Power sensors

What `nvidia-smi`, NVML, DCGM and AMD SMI call power is no reading of this moment: a card averages over a window, shows the mean for a
while, and some see only a part of the time. Which window lies behind a field depends on the architecture and on the driver. A model of it
is what turns a log into joules per kernel ([attribution](attribution.md)). This page is written by `python docs/sensors_page.py` from
`hardware/sensors.toml` and `hardware/architectures/*.toml`.

## Classes
A window is what a reading is the mean of; where it is shorter than the time between two readings, the card is blind in between. The last two
columns are one standard deviation of how far a card's reading may be from the truth before it is calibrated.

| class | a reading is | a new one every | sees | gain | offset |
|---|---|---|---|---|---|
"""
MIDDLE = """
## Fields
`draw` is `power.draw` of `nvidia-smi`, whose meaning driver 530 changed on some; `average` and `instant` are the fields of those names;
`counter` is an energy that is counted up. Measured classes rest on GPUs of that architecture beside a physical meter (Yang et al., SC 2024);
a class in parentheses is a prior, from what the maker writes.

| architecture | `draw` | driver 530 | `average` | `instant` | `counter` |
|---|---|---|---|---|---|
"""
TAIL = """
GPUs with sensor numbers of their own: {own}.

## Which field to log
- Where there is an `instant` field, log it beside the default: `nvidia-smi --query-gpu=timestamp,index,power.draw.instant,power.draw`.
  On Hopper `power.draw` is the mean of a second.
- Poll faster than the sensor updates, or the moment of each update is lost. `tracetool record` finds the period and does
  ([recording](record.md)).
- A counter of energy misses nothing, but moves in steps: good for seconds, not for a step of a tenth of one.
- A log of a GPU nobody named is read by the class that fits it best.

## Does a log match its sensor class?
`tracetool check-power RUN` holds a log against its class: window, update period, gaps, dropouts, clock ([checks](check-power.md)).
`tracetool sensor identify ACTIVITY --power LOG` finds window, period and lag, and with a meter beside the GPU its gain
and offset, for `attribute --sensor` ([the GPU's own error](attribution.md#the-gpus-own-error)); `tracetool sensor check` makes the load for it
on this machine. The accuracy of energies behind each class, against simpler methods: see
[attribution](attribution.md#compared-with-naive-estimates).

## What no sensor shows
- CPUs, fans and losses of supplies: a GPU's power is not its node's ([limits](limits.md)).
- A load whose period is the sensor's own shows it the same part of the period again and again
  ([beat](check-power.md#a-beat-between-load-and-sensor)).
- Two classes of kernels that always run together stay one sum, however often the log is polled.
"""


FIELDS = ("draw", "draw_530", "average", "instant", "counter")


def _class(row: dict[str, str] | None) -> str:
    if row is None:
        return ""
    return f"`{row['class']}`" if row["kind"] == "measured" else f"(`{row['class']}`)"


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def _reading(values: dict[str, Any]) -> tuple[str, str]:
    """Return what a reading of a class is, and the share of the time that readings see."""
    if values["kind"] == "boxcar":
        share = min(1.0, values["window_ms"] / values["update_ms"])
        return f"the mean of {values['window_ms']:g} ms", f"{share:.0%}".replace("%", " %")
    if values["kind"] == "lag":
        return f"a rise with a time constant of {values['lag_ms']:g} ms", "100 %"
    return "energy since some moment", "100 %"


def page() -> str:
    """Return the page."""
    rows = []
    for name, values in _toml(DATA / "sensors.toml")["class"].items():
        reading, seen = _reading(values)
        errors = f"{values['gain_sd']:.0%}".replace("%", " %"), f"{values['offset_sd_w']:g} W"
        rows.append(
            f"| `{name}` | {reading} | {values['update_ms']:g} ms | {seen} | {errors[0]} | {errors[1]} |"
        )
    fields = []
    for path in sorted((DATA / "architectures").glob("*.toml")):
        architecture = _toml(path)
        if sensor := architecture.get("sensor"):
            classes = " | ".join(_class(sensor.get(field)) for field in FIELDS)
            fields.append(f"| {architecture['title']} | {classes} |")
    own = [f"`{p.stem}`" for p in sorted((DATA / "gpus").glob("*.toml")) if "sensor" in _toml(p)]
    tail = TAIL.replace("{own}", ", ".join(own))
    return HEAD + "\n".join(rows) + "\n" + MIDDLE + "\n".join(fields) + "\n" + tail


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
