"""Energy against time over clocks, the best clocks marked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.report.columns import number
from tracetool.report.pictures.svg import Drawing, Scale
from tracetool.vocabulary.arrays import Bools, Floats


def front(time: Floats, energy: Floats) -> Bools:
    """Return which points no other point beats in both time and energy. Shape (n,).

    >>> front(np.array([1.0, 2.0, 3.0]), np.array([5.0, 4.0, 4.5]))
    array([ True,  True, False])
    """
    beaten = (time[None] <= time[:, None]) & (energy[None] <= energy[:, None])
    strictly = (time[None] < time[:, None]) | (energy[None] < energy[:, None])
    return np.asarray(~(beaten & strictly).any(axis=1), dtype=np.bool_)


@dataclass(frozen=True)
class Clocks:
    """The whole run at c clocks: time, energy and its 90 % interval."""

    clock_mhz: Floats
    time_ms: Floats
    energy_j: Floats
    low_j: Floats
    high_j: Floats

    def marks(self, recorded_mhz: float | None = None) -> dict[int, str]:
        """Return the clocks worth naming: least energy, least energy x time, and the recorded one."""
        if not self.clock_mhz.size:
            return {}
        said: dict[int, list[str]] = {}
        said.setdefault(int(np.argmin(self.energy_j)), []).append("least energy")
        said.setdefault(int(np.argmin(self.energy_j * self.time_ms)), []).append("least energy × time")
        if recorded_mhz is not None:
            said.setdefault(int(np.argmin(np.abs(self.clock_mhz - recorded_mhz))), []).append("as recorded")
        return {i: ", ".join(texts) for i, texts in said.items()}


def pareto(clocks: Clocks, marks: dict[int, str]) -> str:
    """Return the picture: a point per clock with its interval; ``marks`` names some of them."""
    width, left, bottom = 560.0, 70.0, 340.0
    x = Scale.over(clocks.time_ms, left, width - 14)
    y = Scale.over(np.concatenate([clocks.energy_j, clocks.low_j, clocks.high_j]), bottom, 14.0)
    said = "; ".join(f"{text} at {clocks.clock_mhz[i]:.0f} MHz" for i, text in sorted(marks.items()))
    drawing = Drawing(width, 382, "Energy and time over clocks", f"{clocks.clock_mhz.size} clocks; {said}.")
    drawing.axes(x, y, "time of the whole run [ms]", "energy [J]")
    best = front(clocks.time_ms, clocks.energy_j)
    xs, ys = x.place(clocks.time_ms), y.place(clocks.energy_j)
    lows, highs = y.place(clocks.low_j), y.place(clocks.high_j)
    order = np.argsort(clocks.clock_mhz)
    drawing.mark("polyline", points=" ".join(f"{xs[i]:.1f},{ys[i]:.1f}" for i in order), class_="curve")
    for i in order:
        at = float(xs[i])
        drawing.mark("line", x1=at, x2=at, y1=float(lows[i]), y2=float(highs[i]), class_="bar")
        drawing.mark(
            "circle",
            f"{clocks.clock_mhz[i]:.0f} MHz: {number(float(clocks.time_ms[i]))} ms,"
            f" {number(float(clocks.energy_j[i]))} J ({number(float(clocks.low_j[i]), 3)} to"
            f" {number(float(clocks.high_j[i]), 3)})" + (f"; {marks[int(i)]}" if int(i) in marks else ""),
            cx=at,
            cy=float(ys[i]),
            r=6 if int(i) in marks else 4,
            class_="best" if int(i) in marks else "front" if best[i] else "behind",
        )
    _name(drawing, marks, clocks.clock_mhz, (xs, ys), (left + width) / 2)
    return drawing.svg()


def _name(
    drawing: Drawing, marks: dict[int, str], clock: Floats, places: tuple[Floats, Floats], middle: float
) -> None:
    xs, ys = places
    taken: list[tuple[float, float]] = []
    for i, text in sorted(marks.items(), key=lambda m: -ys[m[0]]):
        side = 1 if xs[i] < middle else -1
        at = float(ys[i]) - 10
        while any(abs(at - other) < 15 and abs(xs[i] - place) < 220 for place, other in taken):
            at -= 15
        taken.append((float(xs[i]), at))
        drawing.text(
            float(xs[i]) + 8 * side,
            max(at, 12.0),
            f"{clock[i]:.0f} MHz: {text}",
            text_anchor="start" if side > 0 else "end",
            class_="mark",
        )
