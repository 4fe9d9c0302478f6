"""Change the code in one place at a time, and see whether the tests of its own package notice.

``python nightly/mutants.py [--sample 300] [--seed 1] [--jobs 1] [--results FILE]``: a copy of the checkout is
changed, never the checkout. The tests of each package run once with coverage, so that a mutant is tried
against the tests that reach its line, quickest first. Results are added to FILE as they come; begun again
with the same FILE, what is there is not tried again. ``--show FILE`` prints the rate and the survivors.

Neither mutmut nor cosmic-ray is used: both run the whole suite, or a fixed command, for every mutant, which
takes minutes here; the tests that reach a line take seconds.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("model", "measure", "compare", "replay", "families", "calibrate")
#: Processor time a mutant's tests may add up to by the coverage run: what kills late is counted as alive. [s]
MOST_S = 60.0
#: Tests that a mutant may meet at most. [1]
MOST_TESTS = 60
#: A mutant that loops is dead. [s]
HANG_S = 600.0

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
CALLS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "floor": "ceil", "ceil": "floor",
         "any": "all", "all": "any", "min_horizontal": "max_horizontal", "max_horizontal": "min_horizontal",
         "first": "last", "last": "first", "mean": "sum"}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of one file: the source with it, and what it is in a line."""

    path: str
    line: int
    what: str
    source: str

    @property
    def key(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def _changed(node: ast.AST) -> Iterator[str]:
    """Yield the texts a node may be changed to."""

    def text(new: ast.AST) -> str:
        return f"({ast.unparse(new)})"

    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield text(ast.Compare(node.left, [SWAPS[type(node.ops[0])](), *node.ops[1:]], node.comparators))  # type: ignore[list-item]
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        yield text(ast.BinOp(node.left, SWAPS[type(node.op)](), node.right))  # type: ignore[arg-type]
    elif isinstance(node, ast.BoolOp):
        yield text(ast.BoolOp(SWAPS[type(node.op)](), node.values))  # type: ignore[arg-type]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield text(node.operand)
    elif isinstance(node, ast.IfExp):
        yield text(ast.IfExp(node.test, node.orelse, node.body))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield repr(
            node.value + 1 if node.value in (0, 1, -1) or isinstance(node.value, int) else node.value * 2
        )
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in CALLS:
            new = CALLS[name]
            func = (
                ast.Attribute(node.func.value, new, ast.Load())
                if isinstance(node.func, ast.Attribute)
                else ast.Name(new)
            )
            yield text(ast.Call(func, node.args, node.keywords))


def _skipped(tree: ast.AST) -> set[int]:
    """Return the nodes whose change no test should notice: annotations, messages of faults, decorators."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            parts += [
                node.returns,
                *node.decorator_list,
                *(a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg)),
            ]
        if isinstance(node, ast.AnnAssign):
            parts.append(node.annotation)
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
            parts.append(node)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            parts.append(node)
        skipped |= {id(inner) for part in parts if part is not None for inner in ast.walk(part)}
    return skipped


def mutants_of(path: Path) -> list[Mutant]:
    """Return every mutant of a file; only code inside functions is changed."""
    source = path.read_text("utf-8")
    tree, lines = ast.parse(source), source.splitlines(keepends=True)
    skipped, out, seen = _skipped(tree), [], set()
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    raw = source.encode()
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        for node in ast.walk(function):
            if id(node) in skipped or id(node) in seen or not hasattr(node, "lineno"):
                continue
            seen.add(id(node))
            begin, end = (
                starts[node.lineno - 1] + node.col_offset,
                starts[node.end_lineno - 1] + node.end_col_offset,
            )  # type: ignore[attr-defined]
            for new in _changed(node):
                changed = (raw[:begin] + new.encode() + raw[end:]).decode()
                old = " ".join(raw[begin:end].decode().split())
                out.append(
                    Mutant(
                        path.relative_to(ROOT).as_posix(), node.lineno, f"{old[:70]} -> {new[:70]}", changed
                    )
                )  # type: ignore[attr-defined]
    return out


_PLUGIN = """
import json, os, time, coverage, pytest
TIMES, PASSED = {}, set()
RUNNING = coverage.Coverage(source=["tracetool"], data_file=os.environ["MUTANTS_DATA"], config_file=False)
RUNNING.start()
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    RUNNING.switch_context(item.nodeid)
    start = time.process_time()
    yield
    if item.nodeid in PASSED:  # what fails as it is would kill every mutant
        TIMES[item.nodeid] = time.process_time() - start
    RUNNING.switch_context("")
def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        PASSED.add(report.nodeid)
@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    RUNNING.stop()
    RUNNING.save()
    with open(os.environ["MUTANTS_DATA"] + ".json", "w") as file:
        json.dump(TIMES, file)
"""


def _environment(copy: Path, **more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(copy), "TRACETOOL_DATA": os.environ.get("TRACETOOL_DATA", str(copy / "none")),
                         "POLARS_MAX_THREADS": "1"} | more  # fmt: skip


class Reach:
    """Which tests of a package reach a line, and what each takes."""

    def __init__(self, package: str, folder: Path, copy: Path) -> None:
        import coverage

        data = folder / f"{package}.coverage"
        if not Path(f"{data}.json").exists():
            (folder / "mutants_plugin.py").write_text(_PLUGIN)
            words = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:xdist",
                "-p",
                "no:cacheprovider",
                "-p",
                "mutants_plugin",
                f"tests/{package}",
            ]
            environment = _environment(copy, MUTANTS_DATA=str(data))
            environment["PYTHONPATH"] += os.pathsep + str(folder)
            subprocess.run(words, cwd=copy, env=environment, check=False, stdout=subprocess.DEVNULL)
        self.seconds: dict[str, float] = json.loads(Path(f"{data}.json").read_text())
        held = coverage.CoverageData(str(data))
        held.read()
        self.by_line: dict[str, dict[int, list[str]]] = defaultdict(dict)
        for file in held.measured_files():
            name = file.partition("/tracetool/")[2] if "/tracetool/" in file else file
            name = "tracetool/" + file.rpartition("/tracetool/")[2]
            self.by_line[name] = {
                line: [t for t in tests if t] for line, tests in held.contexts_by_lineno(file).items()
            }

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests to try, quickest first; for compiled code, which nothing traces, those of the file."""
        lines = self.by_line.get(mutant.path, {})
        tests = set(lines.get(mutant.line, ()))
        if not tests:
            tests = {t for every in lines.values() for t in every}
        ordered = sorted((t for t in tests if t in self.seconds), key=self.seconds.__getitem__)
        taken, total = [], 0.0
        for test in ordered[:MOST_TESTS]:
            total += self.seconds[test]
            if taken and total > MOST_S:
                break
            taken.append(test)
        return taken


def _pytest(copy: Path, tests: list[str]) -> int | None:
    """Run tests in a process of their own; return pytest's exit code, None where it had to be ended."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *tests]
    with subprocess.Popen(
        words, cwd=copy, env=_environment(copy), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            return process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None


def _copied(folder: Path) -> Path:
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    copy = folder / "copy"
    for name in filter(None, names.split("\0")):
        place = copy / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            place.write_bytes((ROOT / name).read_bytes())
    return copy


def _try(mutant: Mutant, reach: Reach, copy: Path) -> str:
    tests = reach.tests(mutant)
    if not tests:
        return "survived"
    place = copy / mutant.path
    before, stat = place.read_text("utf-8"), place.stat()
    place.write_text(mutant.source, "utf-8")
    # Bytecode is told from its source by size and second: no two mutants may share them.
    os.utime(place, (stat.st_atime, stat.st_mtime - 1000 - random.randrange(1 << 29)))
    try:
        code = _pytest(copy, tests)
    finally:
        place.write_text(before, "utf-8")
        os.utime(place, (stat.st_atime, stat.st_mtime))
    # 1: a test failed; 2: a module does not load; below 0: by a signal; none: it hangs. Else nothing ran at all.
    if code == 0:
        return "survived"
    return "killed" if code is None or code in (1, 2) or code < 0 else f"untried ({code})"


def _work(part: list[Mutant], reaches: dict[str, Reach], results: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copy = _copied(Path(folder))
        for mutant in part:
            start = time.monotonic()
            state = _try(mutant, reaches[mutant.path.split("/")[1]], copy)
            with results.open("a") as file:
                file.write(
                    json.dumps(
                        {"mutant": mutant.key, "state": state, "s": round(time.monotonic() - start, 1)}
                    )
                    + "\n"
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
    print("\n".join(sorted(k for k, s in states.items() if s == "survived")))
    return 0 if share >= 0.85 else 1


def main() -> int:
    """Sample, try, and print the rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", nargs="*", default=list(PACKAGES))
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument(
        "--coverage", type=Path, default=None, help="folder that keeps the coverage between calls"
    )
    parser.add_argument("--show", action="store_true", help="print the results there are, try none")
    parser.add_argument("--only", default=None, help="a file of mutants, one a line: try these anew")
    chosen = parser.parse_args()
    if chosen.show:
        return show(chosen.results)
    every = [
        m
        for p in chosen.packages
        for f in sorted((ROOT / "tracetool" / p).rglob("*.py"))
        for m in mutants_of(f)
    ]
    sample = random.Random(chosen.seed).sample(every, min(chosen.sample, len(every)))
    if chosen.only:
        wanted = set(Path(chosen.only).read_text().splitlines())
        sample = [m for m in every if m.key in wanted]
    tried = set()
    if chosen.results.exists():
        tried = {json.loads(line)["mutant"] for line in chosen.results.read_text().splitlines()}
    todo = [m for m in sample if m.key not in tried]
    print(f"{len(every)} mutants; {len(todo)} of a sample of {len(sample)} to try", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        place = (chosen.coverage or Path(folder)).resolve()
        place.mkdir(parents=True, exist_ok=True)
        copy = _copied(Path(folder))
        reaches = {p: Reach(p, place, copy) for p in sorted({m.path.split("/")[1] for m in todo})}
        parts = [todo[i :: chosen.jobs] for i in range(chosen.jobs)]
        with ThreadPoolExecutor(chosen.jobs) as pool:
            for work in [pool.submit(_work, part, reaches, chosen.results.resolve()) for part in parts]:
                work.result()
    return show(chosen.results)


if __name__ == "__main__":
    sys.exit(main())
