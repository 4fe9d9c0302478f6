"""Logs of nvidia-smi saved where numbers have decimal commas: the same readings, or none."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tracetool as tt
from tracetool.measure.power_log import read_power_logs

_HEADER = "timestamp, power.draw [W], clocks.current.sm [MHz], utilization.gpu [%]"
_ROWS = [
    f"2026/01/05 05:00:{second:02d}.250, {71 + second}.47 W, 1755 MHz, {second} %" for second in range(30)
]
_PLAIN = "\n".join([_HEADER, *_ROWS, ""])


def _with_commas(text: str) -> str:
    """Return the watts with decimal commas; the stamps keep their point."""
    return re.sub(r"(\d)\.(\d\d)( W|,|\n)", r"\1,\2\3", text)


def _quoted(text: str) -> str:
    rows = [[f'"{_with_commas(cell)}"' for cell in line.split(", ")] for line in text.splitlines()]
    return "\n".join([*map(",".join, rows), ""])


_SAVED: dict[str, Callable[[str], str]] = {
    "semicolons": lambda text: _with_commas(text.replace(", ", ";").replace(".47", ",47")),
    "quotes": _quoted,
    "as they are": _with_commas,
    "without units": lambda text: _with_commas(text).replace(" W", "").replace(" MHz", "").replace(" %", ""),
}


def _read(path: Path, text: str) -> list[tuple[int, float, float]]:
    path.write_text(text, "utf-8")
    readings = read_power_logs([path], "+00:00")
    return readings.select("time_ns", "power_w", "clock_mhz").rows()


@pytest.mark.parametrize("saved", _SAVED)
def test_readings_are_those_of_decimal_points(saved: str, tmp_path: Path) -> None:
    text = _SAVED[saved](_PLAIN)
    assert "72,47" in text
    if saved == "without units":
        text = text.replace("power.draw [W]", "power.draw")
    expected = _read(tmp_path / "plain.csv", _PLAIN)
    assert len(expected) == 30
    assert expected[1][1] == 72.47
    assert _read(tmp_path / "saved.csv", text) == expected


def test_half_a_number_is_no_reading(tmp_path: Path) -> None:
    """Without spaces a decimal comma looks like one between cells."""
    text = _with_commas(_PLAIN.replace(", ", ",")).replace(".47", ",47")
    with pytest.raises(tt.BadInput, match="decimal commas, or a header cut short"):
        _read(tmp_path / "saved.csv", text)


def test_a_header_that_names_too_few_is_read(tmp_path: Path) -> None:
    text = _PLAIN.replace(", ", ",").replace(",utilization.gpu [%]", "")
    assert _read(tmp_path / "saved.csv", text) == _read(tmp_path / "plain.csv", _PLAIN)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('time_us,device,power_w\n{n},0,"300,5"\n', "column power_w has decimal commas, such as '300,5'"),
        ("time_us;device;power_w\n{n};0;300,5\n", "its cells stand between semicolons"),
    ],
)
def test_a_plain_log_with_decimal_commas_is_refused_as_one(tmp_path: Path, text: str, said: str) -> None:
    header, line, _ = text.split("\n")
    rows = [line.format(n=1_767_607_200_000_000 + 100_000 * n) for n in range(30)]
    (log := tmp_path / "power.csv").write_text("\n".join([header, *rows, ""]), "utf-8")
    with pytest.raises(tt.BadInput, match=re.escape(said)) as refused:
        read_power_logs([log], None)
    assert "decimal points" in refused.value.fix
