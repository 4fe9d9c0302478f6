"""Write the pictures of the pages: from the report and the results that the tool makes of the sample traces.

``python docs/picture.py [NAME ...]`` writes ``docs/NAME.svg``, all of them by default.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import tracetool as tt

ROOT = Path(__file__).resolve().parents[1]
DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))
from drawn import COLORS, Chart  # noqa: E402

SAMPLES = ROOT / "sample_traces"
TRACE, LOG = SAMPLES / "h100_training.sqlite", SAMPLES / "h100_training_power.csv"
#: Pictures that stand in the report, by its titles.
OF_REPORT = {
    "energy": "Energy by family and kernel",
    "budget": "Time and energy budget",
    "causes": "Joules by cause",
}
#: A picture on a page stands on its own: it takes its ink and paper along.
STYLE = """<style>
text { font: 12px system-ui, sans-serif; }
text:not([fill]) { fill: #1b1f24; }
.group { font-weight: 600; }
.cell { stroke: #fff; stroke-width: 1; }
</style><rect width="100%" height="100%" fill="#fff"/>"""


def pictures(page: str) -> Iterator[str]:
    """Yield the outermost SVG pictures of a page; they hold further ones."""
    depth = begin = 0
    for tag in re.finditer(r"<svg\b|</svg>", page):
        if tag[0] == "<svg" and depth == 0:
            begin = tag.start()
        depth += 1 if tag[0] == "<svg" else -1
        if depth == 0:
            yield page[begin : tag.end()]


def of_report(page: str, title: str) -> str:
    """Return a picture of a report page, on its own."""
    for found in pictures(page):
        if f">{title}</title>" in found:
            alone = found.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
            alone = alone.replace("currentColor", "#1b1f24")
            return re.sub(r"(</desc>)", rf"\1{STYLE}", alone, count=1) + "\n"
    raise SystemExit(f"the report has no picture {title!r}")


def busy_s(run: tt.Run, start_ns: int, shown_s: float) -> list[tuple[float, float]]:
    """Return when kernels ran, those less than 2 ms apart as one. [s]"""
    spans: list[tuple[float, float]] = []
    for begin_ns, duration_ns in run.kernels.select("start_ns", "duration_ns").sort("start_ns").iter_rows():
        low = (begin_ns - start_ns) / 1e9
        high = low + duration_ns / 1e9
        if high > shown_s:
            break
        if spans and low - spans[-1][1] < 2e-3:
            spans[-1] = (spans[-1][0], max(high, spans[-1][1]))
        else:
            spans.append((low, high))
    return spans


def log(run: tt.Run) -> str:
    """Return two seconds of the power log beside what ran."""
    readings = run.telemetry.filter(field="power.draw.instant").sort("time_ns")
    start_ns = int(run.kernels["start_ns"].min()) - 200_000_000  # type: ignore[call-overload]
    shown_s = 2.4
    points = [
        ((at - start_ns) / 1e9, watts)
        for at, watts in readings.select("time_ns", "power_w").iter_rows()
        if 0.0 <= (at - start_ns) / 1e9 <= shown_s
    ]
    chart = Chart.over(
        "A power log beside the kernels it averages",
        "The log holds its value for 100 ms at a time; kernels come and go in between.",
        (0.0, shown_s),
        (0.0, 700.0),
    )
    for low, high in busy_s(run, start_ns, shown_s):
        place, width = chart.x.place(low), chart.x.place(high) - chart.x.place(low)
        chart.drawn.append(
            f'<rect x="{place}" y="{chart.y.place(60.0)}" width="{max(width, 0.3):.1f}"'
            f' height="{chart.y.place(10.0) - chart.y.place(60.0):.1f}" fill="#ccbb44"/>'
        )
    steps = [(x, y) for (_, y), (x, _) in pairwise(points)]
    held = [point for pair in zip(points, steps, strict=False) for point in pair]
    chart.line(held, COLORS[0], "power.draw.instant, as logged")
    chart.names.append(("kernels", "#ccbb44"))
    return chart.svg("time [s]", "power [W]")


def clocks(run: tt.Run) -> str:
    """Return energy over time, a point a clock, with the best ones."""
    swept = run.sweep(clock="600:1950:150")
    rows = swept.points.sort("clock_mhz").to_dicts()
    chart = Chart.over(
        "Energy of the run at each clock, predicted from one recorded at 1,755 MHz",
        "Energy is least at a clock between the lowest and the highest.",
        (550.0, 2000.0),
        (0.0, 1.1 * max(r["energy_high_j"] for r in rows) / 1e3),
    )
    chart.band([(r["clock_mhz"], r["energy_low_j"] / 1e3, r["energy_high_j"] / 1e3) for r in rows], COLORS[0])
    chart.line(
        [(r["clock_mhz"], r["energy_j"] / 1e3) for r in rows], COLORS[0], "energy [kJ], 90 % interval", 2.5
    )
    chart.line([(r["clock_mhz"], r["makespan_ms"] / 1e4) for r in rows], COLORS[1], "time [10 s]", 2.5)
    least = min(rows, key=lambda r: float(r["energy_j"]))
    chart.mark(
        least["clock_mhz"],
        least["energy_j"] / 1e3,
        f"least energy: {least['clock_mhz']:.0f} MHz",
        above=False,
    )
    return chart.svg("clock [MHz]", "energy [kJ], time [10 s]")


def commit(folder: Path) -> str:
    """Return the changes of two runs whose log was scaled by 1.05, with intervals and the limit."""
    higher = folder / "higher.csv"
    text = re.sub(r"([\d.]+) W", lambda watts: f"{1.05 * float(watts[1]):.2f} W", LOG.read_text("utf-8"))
    higher.write_text(text, "utf-8")
    sides = {}
    for side, power in (("base", LOG), ("head", higher)):
        (folder / side).mkdir()
        sides[side] = [
            tt.ingest(TRACE, power=power, tz="-05:00", out=folder / side / f"{k}.tracetool") for k in range(2)
        ]
    found: dict[str, Any] = tt.diff(
        folder / "base", folder / "head", fail_on=["energy=2%", "gemm:energy=3%"]
    ).to_dict()
    rows = found["metrics"]
    chart = Chart.over(
        "A change that draws 5 % more power, two runs a side",
        found["headline"],
        (0.0, len(rows) + 0.0),
        (-4.0, 9.0),
    )
    chart.line([(0.0, 0.0), (float(len(rows)), 0.0)], "#57606a")
    names = {}
    for index, row in enumerate(rows):
        color = COLORS[1] if row["verdict"] == "regressed" else COLORS[0]
        chart.interval(index + 0.5, row["low_pct"], row["change_pct"], row["high_pct"], color)
        if row["asked"]:
            chart.line(
                [(index + 0.1, row["limit_pct"]), (index + 0.9, row["limit_pct"])], "#1b1f24", width=2.5
            )
        chart.mark(index + 0.5, row["high_pct"], f"{row['verdict']}")
        names[index + 0.5] = f"{row['name']} of {row['scope']}" if row["scope"] else f"{row['name']} per step"
    chart.names = [("limit asked for", "#1b1f24"), ("regressed", COLORS[1]), ("unchanged", COLORS[0])]
    return chart.svg("", "change [%], 90 % interval", names)


def b200() -> str:
    """Return joules per token of one model on two GPUs, over the batch."""
    batches = [1, 4, 16, 64, 256]
    frame = tt.forecast("llama-3.1-8b", gpu=["h100-sxm", "b200-sxm"], bs=batches, isl=400, osl=400).frame
    chart = Chart.over(
        "Forecast of Llama 3.1 8B, 400 tokens in and 400 out: energy of an output token",
        "Fewer joules a token on the B200 at every batch, with intervals that overlap.",
        (0.0, float(len(batches))),
        (0.03, 6.0),
        log=True,
    )
    for shift, (gpu, color) in enumerate(zip(("h100-sxm", "b200-sxm"), COLORS, strict=False)):
        for row in frame.filter(gpu=gpu).iter_rows(named=True):
            at = batches.index(int(row["bs"])) + 0.4 + 0.2 * shift
            low, value, high = (row[f"energy_per_token_j{end}"] for end in ("_low", "", "_high"))
            chart.interval(at, low, value, high, color)
        chart.names.append((gpu, color))
    names = {index + 0.5: f"batch {size}" for index, size in enumerate(batches)}
    return chart.svg("", "energy of a token [J], 90 % interval", names)


def main(asked: list[str]) -> None:
    """Make the run and the report in a scratch folder and keep the pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = tt.ingest(TRACE, power=LOG, out=folder / "run.tracetool")
        made: dict[str, Callable[[], str]] = {
            "log": lambda: log(run),
            "clocks": lambda: clocks(run),
            "commit": lambda: commit(folder),
            "b200": b200,
        }
        if not asked or set(asked) & OF_REPORT.keys():
            run.report(folder / "report.html")
            page = (folder / "report.html").read_text("utf-8")
            made |= {stem: (lambda title=title: of_report(page, title)) for stem, title in OF_REPORT.items()}
        for stem in asked or made:
            (DOCS / f"{stem}.svg").write_text(made[stem](), "utf-8")
            with contextlib.suppress(BrokenPipeError):
                print(f"wrote docs/{stem}.svg", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
