"""Change the code in one place at a time, and see whether the tests of its own package notice.

``python nightly/mutants.py [--sample 300] [--seed 1] [--results FILE] [--folder FOLDER]``: a sample of all changes
(`mutations.py`) is tried in one pytest process (`mutants_plugin.py`), which changes the code of loaded functions; nothing on disk changes.
Results are added to FILE as they come; begun again with the same FILE, what is there is not tried again; FOLDER
keeps which test reaches which line. ``--retry`` tries the survivors again, ``--show`` prints what FILE holds.

Neither mutmut nor cosmic-ray is used: both begin a new interpreter and run a fixed command for every mutant,
which takes minutes here; the tests that reach the line take about a second.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from mutations import ROOT, Mutant, mutants_of

PACKAGES = ("model", "measure", "compare", "replay", "families", "calibrate")
#: A mutant of what runs at import meets its tests in a new interpreter, so long at most. [s]
FRESH_S = 900.0
SHARE = 0.85


def _pytest(folder: Path, *words: str, **more: str) -> list[str]:
    os.environ |= {"MUTANTS_FOLDER": str(folder), "POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
                   "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
                   "PYTHONPATH": str(Path(__file__).parent)} | more  # fmt: skip
    return [sys.executable, "-m", "pytest", "-x", "-q", "-s", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "timeout=0",
            "-p", "no:faulthandler", "-p", "mutants_plugin", *words]  # fmt: skip


def _write(results: Path, row: dict[str, object]) -> None:
    with results.open("a") as file:
        file.write(json.dumps(row) + "\n")


def _fresh(mutant: Mutant, folder: Path) -> str:
    """Try a mutant of code that ran at import: a new interpreter loads the changed source."""
    (folder / "changed.json").write_text(json.dumps({"path": mutant.path, "source": mutant.source}))
    words = _pytest(
        folder, f"tests/{mutant.path.split('/')[1]}", MUTANTS_CHANGED=str(folder / "changed.json")
    )
    try:
        done = subprocess.run(words, cwd=ROOT, stdout=subprocess.DEVNULL, check=False, timeout=FRESH_S)
    except subprocess.TimeoutExpired:
        return "untried (time)"
    finally:
        del os.environ["MUTANTS_CHANGED"]
    return "survived" if done.returncode == 0 else "killed"


def tried(todo: list[Mutant], tests: list[str], folder: Path, results: Path) -> None:
    """Try mutants one after the other; add a row for each to ``results``."""
    rows = [{"key": m.key, "path": m.path, "lines": m.lines, "source": m.source} for m in todo]
    (folder / "todo.json").write_text(json.dumps(rows))
    (folder / "results").unlink(missing_ok=True)
    (folder / "results").symlink_to(results)
    os.environ["MUTANTS_PACKAGES"] = " ".join(sorted({m.path.split("/")[1] for m in todo}))
    subprocess.run(_pytest(folder, *tests), cwd=ROOT, check=True)
    last = {row["mutant"]: row for row in map(json.loads, results.read_text().splitlines())}
    for mutant in todo:
        if last[mutant.key]["state"] == "at import":
            _write(
                results, {"mutant": mutant.key, "state": _fresh(mutant, folder), "by": "a new interpreter"}
            )


def show(results: Path) -> int:
    """Print the rate by package and the survivors; return 1 below 85 %."""
    states = {row["mutant"]: row["state"] for row in map(json.loads, results.read_text().splitlines())}
    by_package: dict[str, Counter[str]] = defaultdict(Counter)
    for key, state in states.items():
        by_package[key.split("/")[1]][state] += 1
    for package, counts in sorted(by_package.items()):
        print(f"{package:10} {counts['killed']:4} of {counts.total():4} killed")
    killed = sum(c["killed"] for c in by_package.values())
    share = killed / max(len(states), 1)
    print(f"{killed} of {len(states)} mutants killed: {share:.1%}")
    print("\n".join(sorted(f"{s}: {k}" for k, s in states.items() if s != "killed")))
    return 0 if share >= SHARE else 1


def _of_keys(every: list[Mutant], keys: list[str]) -> list[Mutant]:
    """Return the changes of a list, in its order; a line that is none of today's code is an error."""
    by_key = {m.key: m for m in every}
    if unknown := [key for key in keys if key not in by_key]:
        sys.exit(f"{len(unknown)} lines are no change of this code, such as {unknown[0]}")
    return [by_key[key] for key in keys]


def main() -> int:
    """Sample, try, and print the rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", nargs="*", default=list(PACKAGES))
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--folder", type=Path, default=None, help="keeps which test reaches which line")
    parser.add_argument("--tests", nargs="*", default=None, help="test files; all of the packages by default")
    parser.add_argument(
        "--keys", type=Path, help="try these of the packages' changes, a line each as --list prints them"
    )
    parser.add_argument("--retry", action="store_true", help="try again what survived")
    parser.add_argument("--show", action="store_true", help="print the results there are, try none")
    parser.add_argument("--list", action="store_true", help="print the sample, try none")
    chosen = parser.parse_args()
    if chosen.show:
        return show(chosen.results)
    files = [f for p in chosen.packages for f in sorted((ROOT / "tracetool" / p).rglob("*.py"))]
    every = [m for f in files for m in mutants_of(f)]
    sample = random.Random(chosen.seed).sample(every, min(chosen.sample, len(every)))
    if chosen.keys:
        sample = _of_keys(every, chosen.keys.read_text().splitlines())
    states = {}
    if chosen.results.exists():
        rows = map(json.loads, chosen.results.read_text().splitlines())
        states = {row["mutant"]: row["state"] for row in rows}
    if chosen.retry:
        sample = [m for m in every if states.get(m.key, "killed") != "killed"]
        states = {}
    todo = [m for m in sample if m.key not in states]
    tests = chosen.tests or [f"{root}/{p}" for p in chosen.packages for root in ("tests", "tracetool")]
    print(f"{len(every)} mutants; {len(todo)} of a sample of {len(sample)} to try", flush=True)
    if chosen.list:
        print("\n".join(m.key for m in todo))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        tried(todo, tests, folder, chosen.results.resolve())
    return show(chosen.results)


if __name__ == "__main__":
    sys.exit(main())
