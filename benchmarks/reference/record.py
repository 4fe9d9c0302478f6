"""Record the reference of one GPU: sensor, idle, steady loops, turns of heavy and light, a small transformer.

``python benchmarks/reference/record.py -o FOLDER [--python PYTHON-WITH-TORCH]``: under 20 minutes on any GPU with
PyTorch; the folder holds runs of at most 10 MB together and a manifest. No clock, limit or mode of the card is changed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from plan import LOOPS, STEADY_S, duration_s

from tracetool.api.ingest import ingest
from tracetool.api.record import Recording, record
from tracetool.api.sensor import check_sensor
from tracetool.core.errors import TracetoolError
from tracetool.measure.attribute import attribute_activity
from tracetool.record.session import RecordPlan, Vendor
from tracetool.tables.run import Run, tool_version
from tracetool.tables.write import aside_file

HERE = Path(__file__).resolve().parent
MOST_BYTES = 10 << 20
IDLE_S, COOL_DOWN_S = 10.0, 5.0


def say(text: str) -> None:
    """Say what is being done."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def record_sensor(out: Path, python: str, vendor: Vendor | None, seconds: float) -> dict[str, Any]:
    """Identify the sensor and keep what it is."""
    checked = check_sensor(vendor=vendor, seconds=seconds, python=python, say=say)
    checked.save(out / "sensor.toml")
    return {
        c.field: {
            "kind": c.found.kind,
            "update_s": c.sensor.update_s,
            "window_s": c.sensor.window_s,
            "lag_s": c.sensor.lag_s,
        }
        for c in checked.checks
    }


def record_loops(out: Path, plan: RecordPlan, words: list[str]) -> dict[str, Any]:
    """Record the loops, make their run and measure each."""
    raw = out / "raw"
    raw.mkdir()
    made = record(
        [plan.program[0], str(HERE / "loops.py"), "--out", str(raw), *words], out=out / "loops.tracetool",
        profiler="none", vendor=plan.vendor, devices=plan.devices, idle=plan.idle_s,
        cool_down=plan.cool_down_s, say=say,
    )  # fmt: skip
    if made.exit_code:
        raise SystemExit(f"the loops ended with exit code {made.exit_code}")
    log = made.folder / "power.log"
    run = ingest(sorted(raw.glob("shapes-*.json.gz")), [log], out=out / "loops.tracetool")
    told = json.loads((raw / "loops.json").read_text("utf-8"))
    table = measure_loops(raw / "activity.csv", log, told["loops"], run.path)
    table.write_parquet(out / "loops.parquet", compression="zstd")
    return {"loops": table.height, "left_out": told["left_out"], "torch": told["torch"], **_facts(made)}


def measure_loops(activity: Path, log: Path, loops: list[dict[str, Any]], run: Path) -> pl.DataFrame:
    """Return one row per steady loop and turn: its operator columns, time per round, power, clocks seen."""
    marks = pl.read_csv(activity)
    windows = activity.with_name("windows.csv")
    marks.select("start_us", "end_us").write_csv(windows)
    gpu = Run.open(run).devices["gpu"].drop_nulls().head(1).to_list()
    found = attribute_activity(activity, power=[log], windows=windows, gpu=gpu[0] if gpu else None)
    measured = found.windows.select("energy_j", "energy_low_j", "energy_high_j", "coverage")
    seen = _clocks(run, marks)
    span = pl.col("end_us") - pl.col("start_us")
    rows = pl.concat([marks, measured, seen], how="horizontal").with_columns(
        duration_us=span / pl.col("times"),
        power_w=pl.col("energy_j") / (span * 1e-6),
        energy_mj=pl.col("energy_j") * 1e3 / pl.col("times"),
    )
    shapes = pl.DataFrame(loops, infer_schema_length=None).drop("kind", strict=False)
    return rows.with_columns(loop=pl.col("name").str.replace("^in_turn:", "")).join(
        shapes.rename({"name": "loop"}), on="loop", how="left", maintain_order="left"
    )


def _clocks(run: Path, marks: pl.DataFrame) -> pl.DataFrame:
    """Return the median clocks and temperature while each loop ran."""
    telemetry = Run.open(run).telemetry.select("time_ns", "clock_mhz", "mem_clock_mhz", "temperature_c")
    found = [
        telemetry.filter(pl.col("time_ns").is_between(start * 1000, end * 1000)).select(
            pl.col("clock_mhz").median(), pl.col("mem_clock_mhz").median(), pl.col("temperature_c").median()
        )
        for start, end in marks.select("start_us", "end_us").iter_rows()  # some dozens of loops
    ]
    return pl.concat(found)


def record_transformer(out: Path, plan: RecordPlan, mode: str, words: list[str]) -> dict[str, Any]:
    """Record inference or training steps under the PyTorch profiler."""
    made = record(
        [plan.program[0], str(HERE / "transformer.py"), mode, *words], out=out / f"{mode}.tracetool",
        profiler="torch", vendor=plan.vendor, devices=plan.devices, idle=plan.idle_s / 2,
        cool_down=plan.cool_down_s, say=say,
    )  # fmt: skip
    if made.exit_code or not made.runs:
        raise SystemExit(f"the transformer ({mode}) was not recorded: exit code {made.exit_code}")
    return {"kernels": Run.open(made.runs[0]).kernels.height, **_facts(made)}


def _facts(made: Recording) -> dict[str, Any]:
    sampler = made.facts.get("sampler", {})
    kept = ("idle_before_w", "idle_after_w", "poll_jitter_us", "read_delay_us", "sampler_cpu_share")
    return {
        "driver": sampler.get("driver"),
        "devices": sampler.get("devices"),
        **{k: made.facts.get(k) for k in kept},
        "warnings": made.warnings,
    }


def clocks_seen(out: Path) -> dict[str, list[float]]:
    """Return the lowest and highest clocks that the runs saw."""
    parts = [
        Run.open(p).telemetry.select("clock_mhz", "mem_clock_mhz") for p in sorted(out.glob("*.tracetool"))
    ]
    seen = pl.concat(parts) if parts else pl.DataFrame({"clock_mhz": [], "mem_clock_mhz": []})
    return {c: [seen[c].min(), seen[c].max()] for c in seen.columns}  # type: ignore[list-item]


def tidy(out: Path) -> int:
    """Remove the raw recordings, which the runs hold, and return the bytes that stay."""
    for path in [*out.glob("*.recording"), out / "raw"]:
        shutil.rmtree(path, ignore_errors=True)
    return sum(p.stat().st_size for p in out.rglob("*") if p.is_file())


def main(given: list[str] | None = None) -> int:
    """Record everything; a part that fails is told in the manifest and the rest goes on."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True, help="new folder")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch and a GPU")
    parser.add_argument("--vendor", choices=("nvidia", "amd"))
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--parts", default="sensor,loops,infer,train", help="which parts, in order")
    parser.add_argument(
        "--steady", type=float, default=STEADY_S, help="how long each loop runs; its rest shrinks with it [s]"
    )
    parser.add_argument(
        "--try", dest="trial", action="store_true", help="tiny sizes on the processor, some seconds"
    )
    asked = parser.parse_args(given)
    began = time.time()
    idle, cool = (0.5, 0.5) if asked.trial else (IDLE_S, COOL_DOWN_S)
    plan = RecordPlan([asked.python], asked.out, vendor=asked.vendor, devices=(asked.device,),
                      idle_s=idle, cool_down_s=cool)  # fmt: skip
    on = ["--device", "cpu"] if asked.trial else ["--device", f"cuda:{asked.device}"]
    small, short = (
        (["--scale", "0.01", "--steady", "0.3"], ["--small", "--steps", "4"])
        if asked.trial
        else (["--steady", str(asked.steady)], [])
    )
    minutes = duration_s() * asked.steady / STEADY_S / 60
    say(f"{len(LOOPS)} loops and turns take {minutes:.0f} minutes, all about {minutes + 4:.0f}")
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "sensor": lambda: record_sensor(asked.out, asked.python, asked.vendor, 8.0 if asked.trial else 30.0),
        "loops": lambda: record_loops(asked.out, plan, [*on, *small]),
        "infer": lambda: record_transformer(asked.out, plan, "infer", [*on, *short]),
        "train": lambda: record_transformer(asked.out, plan, "train", [*on, *short]),
    }
    manifest: dict[str, Any] = {
        "tool_version": tool_version(),
        "started_utc": began,
        "trial": asked.trial,
        "parts": {},
    }
    failed = 0
    chosen = asked.parts.split(",")
    if unknown := set(chosen) - set(parts):
        parser.error(f"no part called {', '.join(sorted(unknown))}; known: {', '.join(parts)}")
    asked.out.mkdir(parents=True)
    for name, part in ((name, parts[name]) for name in chosen):
        say(f"part: {name}")
        try:
            manifest["parts"][name] = part()
        except (TracetoolError, SystemExit) as error:
            said = error.line() if isinstance(error, TracetoolError) else str(error)
            manifest["parts"][name] = {"failed": said}
            say(f"{name}: {said}")
            failed += 1
    size = tidy(asked.out)
    manifest |= {
        "clocks_seen": clocks_seen(asked.out),
        "bytes": size,
        "seconds": round(time.time() - began, 1),
    }
    with aside_file(asked.out / "manifest.json") as target:
        target.write_text(json.dumps(manifest, indent=1, default=str) + "\n", "utf-8")
    say(f"{size / 2**20:.1f} MB in {asked.out}, {manifest['seconds']:.0f} s")
    if size > MOST_BYTES:
        say("warning: more than 10 MB")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
