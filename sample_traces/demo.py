"""The main job on the sample traces, command by command, as a user would type it.

``python sample_traces/demo.py [--tool PROGRAM] [--out FOLDER]``: prints every command and its output and
ends with the path of the report.
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
    return [
        (
            "One run out of a trace and its power log.",
            ["ingest", str(samples / "h100_training.sqlite"), "--power", str(samples / "h100_training_power.csv"),
             "-o", run],
        ),
        ("Measured: how many joules did each kernel take?", ["attribute", run]),
        ("Predicted: the same job at another clock.", ["predict", run, "--clock", "1200,1755"]),
        ("Predicted against measured, worst first.", ["diff", run]),
        ("All of it on one page.", ["report", run, "-o", str(out / "report.html")]),
    ]  # fmt: skip


def main() -> int:
    """Run the demonstration and return the exit code of the command that failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", default="tracetool", help="program to run, default: tracetool")
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), help="folder for the results, default: demo"
    )
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
    print(f"\nThe sample is synthetic (see {samples / 'README.md'}); the commands are the real ones.")
    print(f"Report: {(chosen.out / 'report.html').resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
