"""The main job on the sample traces, command by command, as a user would type it.

``python sample_traces/demo.py [--tool PROGRAM] [--out FOLDER]``: prints every command and its output and
ends with the path of the report and where to go on.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def commands(out: Path, samples: Path) -> list[tuple[str, list[str]]]:
    """Return what is said and typed, in order."""
    run = str(out / "h100_training.tracetool")
    trace, log = samples / "h100_training.sqlite", samples / "h100_training_power.csv"
    return [
        (
            "1. Ingest: a trace and its power log become one run on one clock.",
            ["ingest", str(trace), "--power", str(log), "-o", run],
        ),
        ("2. Classify: what is each kernel?", ["classify", run]),
        ("3. Attribute: how many joules did each kernel take, as measured?", ["attribute", run]),
        ("4. Predict: what would the job cost at other clocks?", ["predict", run, "--clock", "1200,1755"]),
        ("5. Diff: where do prediction and measurement part, worst first?", ["diff", run]),
        ("6. Report: all of it on one page.", ["report", run, "-o", str(out / "report.html")]),
    ]


def closing(out: Path, samples: Path, tool: str) -> str:
    """Return what a newcomer needs next."""
    return f"""
The sample is synthetic (see {samples / "README.md"}); the commands are the real ones. With files of your own:

  {tool} ingest YOUR.nsys-rep --power YOUR_nvidia-smi.csv -o my.tracetool
  {tool} predict my.tracetool --clock 1200

Every command has --help with an example; README.md goes through the tasks one by one.
Report: {(out / "report.html").resolve()}"""


def main() -> int:
    """Run the demonstration and return the exit code of the command that failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", default="tracetool", help="program to run, default: tracetool")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the results (demo)")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    samples = Path(os.path.relpath(HERE))
    for said, arguments in commands(chosen.out, samples):
        print(f"\n# {said}\n$ {shlex.join(['tracetool', *arguments])}", flush=True)
        done = subprocess.run([chosen.tool, *arguments], check=False)
        if done.returncode:
            print(
                f"stopped: tracetool {arguments[0]} ended with exit code {done.returncode}", file=sys.stderr
            )
            return done.returncode
    print(closing(chosen.out, samples, chosen.tool))
    return 0


if __name__ == "__main__":
    sys.exit(main())
