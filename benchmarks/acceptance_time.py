"""The whole acceptance table of times under several libraries: errors, coverage, few rows, coefficients.

usage: python benchmarks/acceptance_time.py [DATA_ROOT] [--folder FOLDER] [--operator NAME ...]
           [--setting SETTING ...] [--few GPU ...] [--rerun] [--print]

By operator, as held_out_stacks.py tells them: other shapes, another version, a GPU left out, a library
left out, a named kernel left out; as few_rows.py, 10, 50 and 200 rows of a GPU left out; collectives as
collectives.py; coefficients counted by pair of an implementation's law and a GPU, beside those of a law
fitted for each. Each fit and each result is kept in FOLDER (../acceptance) as it comes: the command goes on
where it was cut short, and asks nothing anew that it has told unless --rerun is given. --print fits nothing.
Intervals of a GPU left out rest on the errors of all operators: where some were not asked before, ask for
the setting gpu again (--rerun). All of it takes a quarter of an hour to hours of a core.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from few_rows import COUNTS, error_after, known_without
from held_out_stacks import HERE, SETTINGS, median_percent, run
from stack_tables import Cell, cells, version_cells
from transfer_bands import Scored, tells_elsewhere

from tracetool.families.implementations import implementations
from tracetool.families.pricing import laws

#: What is asked: MdAPE on other shapes of the same GPU and implementation. [%]
SHAPES = {
    "gemm": 6.7, "prefill": 6.8, "decode": 5.3, "encoder": 4.8, "moe": 8.8, "mla_prefill": 3.7,
    "mla_decode": 7.7, "mamba2": 8.0, "collective": 7.7,
}  # fmt: skip
#: Of another version, of a data-center GPU of Hopper or Blackwell left out and of another GPU, of a library
#: left out, and by rows of a new GPU and library. [%]
VERSION, GPU, OTHER_GPU, LIBRARY, FEW = 8.0, 10.0, 15.0, 15.0, {10: 14.0, 50: 10.0, 200: 7.0}
RECENT = ("h100-sxm", "h200-sxm", "b200-sxm")
#: Share of rows that 90 % intervals are to hold. [%]
HELD = (85.0, 95.0)
OPERATORS = (
    "gemm", "prefill", "decode", "encoder", "moe", "mla_prefill", "mla_decode", "gdn", "mamba2",
)  # fmt: skip
#: Operators whose rows few_rows.py gives to a calibration.
FEW_OPERATORS = ("gemm", "prefill", "decode")
#: Fewer rows of a table tell nothing of its other rows.
FEW_LEAST_ROWS = 400


#: Operators that share an operator's kernels, or whose kernels stand for its own where nobody measured them:
#: prefill's for encoders; both kinds of state-space layers run the same short convolutions.
LENT_BY = {"encoder": ("prefill",), "gdn": ("mamba2",), "mamba2": ("gdn",)}


def operator_cells(root: Path, operator: str) -> list[Cell]:
    """Return the cells of an operator's tables."""
    return [c for c in cells((root / "stacks").glob(f"*_{operator}.parquet")) if c.operator == operator]


def told(some: Sequence[Scored]) -> dict[str, Any]:
    """Return the median over tables and over implementations of the median error, and rows inside. [%]"""
    tables: dict[tuple[str, str], list[Scored]] = {}
    for one in some:
        tables.setdefault((one.gpu, one.stack), []).append(one)
    return {
        "tables": float(np.median([median_percent(one) for one in tables.values()])),
        "implementations": float(np.median([median_percent([one]) for one in some])),
        "holds": float(np.concatenate([one.inside for one in some]).mean() * 100.0),
    }


def judge(root: Path, folder: Path, operator: str, settings: Sequence[str]) -> dict[str, Any]:
    """Return what is told of an operator in some settings, by GPU where GPUs are left out."""
    every = operator_cells(root, operator)
    versions = [c for c in version_cells(root, {c.law for c in every}) if c.operator == operator]
    every += [cell for other in LENT_BY.get(operator, ()) for cell in operator_cells(root, other)]
    others = errors_of_others(folder / "errors", operator)
    scored, _, unwidened, _ = run(
        every, versions, settings, 1, delivered=True, unnamed=False, folder=folder / "fits", others=others
    )
    told_elsewhere = [one for one in unwidened if tells_elsewhere(one) and one.operator == operator]
    if {"gpu", "architecture"} <= set(settings):
        (folder / "errors").mkdir(exist_ok=True)
        (folder / "errors" / f"{operator}.pickle").write_bytes(pickle.dumps(told_elsewhere))
    found: dict[str, Any] = {}
    for setting in settings:
        some = [one for one in scored if (one.setting, one.operator) == (setting, operator)]
        if some:
            found[setting] = told(some)
        if some and setting == "gpu":
            names = sorted({one.gpu for one in some})
            found["gpus"] = {name: told([one for one in some if one.gpu == name]) for name in names}
            recent = [one for one in some if one.gpu in RECENT]
            found["recent"] = told(recent) if recent else None
    return found


def errors_of_others(folder: Path, operator: str) -> list[Scored]:
    """Return what was kept of other operators' errors on architectures left out."""
    paths = [path for path in sorted(folder.glob("*.pickle")) if path.stem != operator]
    return [one for path in paths for one in pickle.loads(path.read_bytes())]


def few(root: Path, folder: Path, operator: str, gpu: str) -> dict[str, Any]:
    """Return the error on other rows after a few of a GPU left out, by number of rows; keeps each table's."""
    every = operator_cells(root, operator)
    known = known_without(every, gpu, folder / "fits")
    mine = [c for c in every if c.part.gpu.name == gpu and len(c.part.law_rows.measured_s) >= FEW_LEAST_ROWS]
    found: dict[str, Any] = {}
    for count in COUNTS:
        each = [error_after(cell, count, known) for cell in mine]
        if each:
            error, inside = np.median([e for e, _ in each]), np.mean([i for _, i in each])
            found[str(count)] = {"error": float(error), "holds": float(inside), "tables": len(each)}
    return found


def counted() -> tuple[int, int, float]:
    """Return the coefficients delivered, the pairs they serve, and those of a law of its own for each."""
    number, pairs, of_law = 0, 0, []
    for name, law in laws().items():
        moving = sum(c.fitted or bool(c.choices) for c in law.priors.values())
        for one in implementations(name):
            fitted = one.laws[name]
            number += len(fitted.values) + sum(len(v) for v in fitted.by_architecture.values())
            number += sum(len(v) for v in fitted.by_version.values())
            pairs += len(fitted.gpus)
            of_law += [moving] * len(fitted.gpus)
    return number, pairs, float(np.median(of_law))


def kept(path: Path) -> dict[str, Any]:
    """Return the results of an earlier call."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def keep(path: Path, results: Mapping[str, Any]) -> None:
    """Write results at once, whole or not at all."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(results, indent=1, sort_keys=True))
    unfinished.replace(path)


def entry_text(error: float | None, asked: float | None, holds: float | None = None) -> str:
    """Return an error with what is asked, marked where that is not reached, and the share of rows inside."""
    if error is None:
        return "not run"
    text = f"{error:.1f}"
    if asked is not None:
        text += f" of {asked:g}" + ("" if error <= asked else " !")
    if holds is not None:
        text += f" ({holds:.0f}" + (")" if HELD[0] <= holds <= HELD[1] else " !)")
    return text


def say(results: Mapping[str, Any]) -> None:
    """Print errors with what is asked, ! where that is not reached, and rows inside in brackets."""
    print("MdAPE [%] of what is asked, rows in the 90 % interval [%]; ! marks what is not reached\n")
    print(f"{'operator':12s} {'other shapes':>22s} {'another version':>22s} {'a library left out':>22s}")
    for operator in OPERATORS:
        one = results.get(operator, {})
        line = []
        for setting, asked in (("shapes", SHAPES.get(operator)), ("version", VERSION), ("library", LIBRARY)):
            entry = one.get(setting, {})
            absent = setting in one.get("asked", []) and not entry
            line.append("none" if absent else entry_text(entry.get("tables"), asked, entry.get("holds")))
        print(f"{operator:12s} " + " ".join(f"{text:>22s}" for text in line))
    print("\na GPU left out, the library known (median over implementations)")
    for operator in OPERATORS:
        for gpu, entry in results.get(operator, {}).get("gpus", {}).items():
            asked = GPU if gpu in RECENT else OTHER_GPU
            print(f"{operator:12s} {gpu:10s} {entry_text(entry['implementations'], asked, entry['holds'])}")
    print("\nthe same of Hopper's and Blackwell's together (median over tables)")
    for operator in OPERATORS:
        if entry := results.get(operator, {}).get("recent"):
            print(f"{operator:23s} {entry_text(entry['tables'], GPU, entry['holds'])}")
    print("\nall GPUs of an architecture left out where several were measured (not asked)")
    for operator in OPERATORS:
        if entry := results.get(operator, {}).get("architecture"):
            print(f"{operator:23s} {entry_text(entry['tables'], None, entry['holds'])}")
    print("\na named kernel of a library left out, its others known (not asked)")
    for operator in OPERATORS:
        if entry := results.get(operator, {}).get("implementation"):
            print(f"{operator:23s} {entry_text(entry['tables'], None, entry['holds'])}")
    print("\nrows of a new GPU and library")
    for key in sorted(k for k in results if k.startswith("few ")):
        line = [
            f"{n} rows {entry_text(e['error'], FEW[int(n)], e['holds'])}" for n, e in results[key].items()
        ]
        print(f"{key[4:]:24s} " + "   ".join(line))
    number, pairs, of_law = counted()
    print(
        f"\ncoefficients: {number}, {number / pairs:.1f} for each of {pairs} pairs of an implementation's law"
    )
    print(f"and a GPU; a law fitted for each pair has {of_law:.0f} in the median; asked fewer than half")
    if "collective" in results:
        print("\ncollectives (benchmarks/collectives.py)\n" + results["collective"]["text"])


def collectives(root: Path) -> dict[str, str]:
    """Return what collectives.py prints."""
    command = [sys.executable, str(HERE / "benchmarks" / "collectives.py"), str(root / "stacks")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"text": done.stdout}


def wanted(given: argparse.Namespace, results: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what is left to ask: an operator and a setting, or a GPU of which few rows are given."""
    for operator in given.operator:
        if operator == "collective":
            if given.rerun or operator not in results:
                yield operator, ""
            continue
        missing = [
            s for s in given.setting if given.rerun or s not in results.get(operator, {}).get("asked", [])
        ]
        yield from ((operator, "+".join(missing)),) if missing else ()
        for gpu in given.few if operator in FEW_OPERATORS else ():
            if given.rerun or f"few {operator} {gpu}" not in results:
                yield f"few {operator}", gpu


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", nargs="?", type=Path, default=HERE.parent / "shared" / "data")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "acceptance")
    parser.add_argument("--operator", nargs="*", default=[*OPERATORS, "collective"])
    parser.add_argument("--setting", nargs="*", default=SETTINGS, choices=SETTINGS)
    parser.add_argument("--few", nargs="*", default=["b200-sxm"], help="GPUs of which few rows are given")
    parser.add_argument("--rerun", action="store_true")
    parser.add_argument("--print", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / "results.json"
    results = kept(path)
    for name, what in [] if given.print else list(wanted(given, results)):
        print(f"asking {name} {what.replace('+', ' ')}", file=sys.stderr, flush=True)
        if name.startswith("few "):
            results[f"{name} {what}"] = few(given.root, given.folder, name[4:], what)
        elif name == "collective":
            results[name] = collectives(given.root)
        else:
            asked = what.split("+")
            before = results.get(name, {})
            done = sorted({*before.get("asked", []), *asked})
            results[name] = {**before, **judge(given.root, given.folder, name, asked), "asked": done}
        keep(path, results)
    say(results)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
