"""A pytest plugin that collects once, then tries every mutant in the same process.

What it is told is in the folder ``MUTANTS_FOLDER``: ``todo.json`` lists mutants (key, path, line, changed source).
First the tests that are not in ``reach.jsonl`` run with coverage: which lines each reaches, and how long it
takes. Then each mutant changes the code of the loaded functions and meets the tests that reach the line,
quickest first, up to the first that fails, which must pass again without it. Nothing on disk changes, and no
process is forked: threads of polars would be missing there.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import importlib.machinery
import json
import os
import pkgutil
import signal
import sys
import time
import types
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ["MUTANTS_FOLDER"])
#: A test that takes longer is not asked about mutants. [s of processor time]
MOST_TEST_S = 6.0
#: Processor time that a mutant's tests may add up to by the coverage run. [s]
MOST_S = 20.0
#: A mutant that runs this much longer than its tests did hangs, which somebody notices. [s of processor time]
HANG_S = 20.0
#: Reached by fewer tests, a line may lie behind a cache or a shared fixture: others that reach its file are added.
#: So are they where loops of it become machine code, of which coverage sees nothing.
FEW = 3

AT_IMPORT: set[tuple[str, str]] = set()
FUNCTIONS: dict[str, list[types.FunctionType]] = defaultdict(list)
CACHES: list[Any] = []


def _codes(code: types.CodeType) -> list[types.CodeType]:
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return [code, *(deep for c in inner for deep in _codes(c))]


def _own(code: types.CodeType) -> tuple[bytes, tuple[Any, ...]]:
    """Return what a function itself does: the code of those defined in it, such as a class' methods, is theirs."""
    return code.co_code, tuple(c for c in code.co_consts if not isinstance(c, types.CodeType))


def _import_all() -> None:
    """Import the packages that are changed, noting which of its functions run meanwhile: their mutants are in its constants."""

    def noted(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and "/tracetool/" in frame.f_code.co_filename:
            AT_IMPORT.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(noted)
    for package in os.environ["MUTANTS_PACKAGES"].split():
        name = f"tracetool.{package}"
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(module.name)
    sys.setprofile(None)


def _index() -> None:
    gc.unfreeze()  # what conftest.py froze is not listed else
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and "/tracetool/" in thing.__code__.co_filename:
            FUNCTIONS[thing.__code__.co_filename].append(thing)
        elif isinstance(thing, functools._lru_cache_wrapper) and str(
            getattr(thing, "__module__", "")
        ).startswith("tracetool"):
            CACHES.append(thing)


def change(path: str, source: str) -> tuple[list[tuple[Any, ...]], bool]:
    """Give the loaded functions of a file the code of a changed source.

    Returns what undoes it: functions with their code and defaults; and whether one of them ran at import.
    """
    place = ROOT / path
    before, after = place.read_text("utf-8"), source
    old, new = _codes(compile(before, str(place), "exec")), _codes(compile(after, str(place), "exec"))
    pairs = {(a.co_qualname, a.co_firstlineno): b for a, b in zip(old, new, strict=True)}
    names = {a.co_qualname for a, b in zip(old, new, strict=True) if _own(a) != _own(b)}
    if not FUNCTIONS[str(place)]:
        raise RuntimeError(f"no function of {path} was found: its changes would change nothing")
    undo: list[tuple[Any, ...]] = []
    for function in FUNCTIONS[str(place)]:
        code = pairs.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        undo.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
        if code is not None and len(code.co_freevars) == len(function.__code__.co_freevars):
            function.__code__ = code
    _defaults(before, after, str(place))
    return undo, any((str(place), name) in AT_IMPORT for name in names if not name.startswith("<"))


def _looped(path: str) -> bool:
    return "core.compiled import" in (ROOT / path).read_text("utf-8")


def _compile_unless(path: str) -> None:
    """Let loops become machine code but those of a file that is changed, which would run as they were."""
    compiled = importlib.import_module("tracetool.core.compiled")
    compiled.COMPILE_FROM = 10**18 if _looped(path) else 0


def restore(undo: list[tuple[Any, ...]]) -> None:
    """Give functions their own code back, and forget what they computed meanwhile."""
    for function, code, defaults, keywords in undo:
        function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, keywords
    for cache in CACHES:
        cache.cache_clear()


def _defaults(before: str, after: str, place: str) -> None:
    """Set changed default arguments: they lie in the function, not in its code."""
    definitions = [
        [n for n in ast.walk(ast.parse(s)) if isinstance(n, ast.FunctionDef)] for s in (before, after)
    ]
    for old, new in zip(*definitions, strict=True):
        if ast.dump(old.args) == ast.dump(new.args):
            continue
        for function in (f for f in FUNCTIONS[place] if f.__name__ == new.name):
            if function.__kwdefaults__ is not None:
                given = zip(new.args.kwonlyargs, new.args.kw_defaults, strict=True)
                function.__kwdefaults__ = {a.arg: _value(d, function) for a, d in given if d is not None}
            if function.__defaults__ is not None:
                function.__defaults__ = tuple(_value(d, function) for d in new.args.defaults)


def _value(node: ast.expr, function: types.FunctionType) -> Any:
    return eval(compile(ast.Expression(node), "default", "eval"), function.__globals__)


class SlowError(Exception):
    """A test that takes too long."""


def _outcome(item: pytest.Item, limit_s: float, nextitem: pytest.Item | None = None) -> str:
    """Run a test; one that takes longer than its processor time allows fails where it stands."""

    def end(*_: Any) -> None:
        raise SlowError

    names = getattr(getattr(item, "dtest", None), "globs", {})  # a doctest forgets its own after each run
    kept = dict(names)
    signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, limit_s, 5.0)
    try:
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    except SlowError:
        return "slow"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        names.update(kept)
    failed = next((r for r in reports if r.failed and r.when != "teardown"), None)
    if failed is not None:
        return "slow" if "SlowError" in str(failed.longrepr) else "failed"
    return "skipped" if any(r.skipped for r in reports) else "passed"


def _cover(items: list[pytest.Item]) -> None:
    """Run tests with coverage; add what each reaches, and its time, to ``reach.jsonl``."""
    import coverage

    running = coverage.Coverage(source=[str(ROOT / "tracetool")], data_file=None, config_file=False)
    with (FOLDER / "reach.jsonl").open("a") as file:
        for item, following in zip(items, [*items[1:], None], strict=True):
            running.erase()
            running.start()
            start = time.process_time()
            outcome = _outcome(item, MOST_TEST_S, following)
            seconds = time.process_time() - start
            running.stop()
            with warnings.catch_warnings():  # a test may reach nothing of the package
                warnings.simplefilter("ignore")
                data = running.get_data()
            files = data.measured_files() if outcome == "passed" else ()
            lines = {Path(f).relative_to(ROOT).as_posix(): n for f in files if (n := data.lines(f))}
            file.write(
                json.dumps({"test": item.nodeid, "outcome": outcome, "s": seconds, "lines": lines}) + "\n"
            )
            file.flush()


class Reach:
    """Which tests reach a line, and what each takes."""

    def __init__(self, items: dict[str, pytest.Item]) -> None:
        self.seconds: dict[str, float] = {}
        self.by_line: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.by_file: dict[str, set[str]] = defaultdict(set)
        place = FOLDER / "reach.jsonl"
        self.known = set()
        for row in map(json.loads, place.read_text().splitlines() if place.exists() else ()):
            self.known.add(row["test"])
            if row["outcome"] != "passed" or row["test"] not in items:
                continue
            self.seconds[row["test"]] = row["s"]
            for file, lines in row["lines"].items():
                self.by_file[file].add(row["test"])
                for line in lines:
                    self.by_line[file, line].add(row["test"])

    def tests(self, path: str, lines: list[int]) -> list[str]:
        """Return the tests to try, quickest first: those of the package; of others where none of its tests reaches the line."""
        package = tuple(
            f"{root}/{path.split('/')[1]}/" for root in ("tests", "tracetool")
        )  # its doctests too
        reaching = next((t for n in lines if (t := self.by_line.get((path, n)))), set())
        tests = {t for t in reaching if t.startswith(package)} or set(reaching)
        ordered = sorted(tests, key=self.seconds.__getitem__)
        if len(ordered) < FEW or _looped(path):
            more = {t for t in self.by_file[path] if t.startswith(package)} - tests
            ordered += sorted(more, key=self.seconds.__getitem__)
        taken, total = [], 0.0
        for test in ordered:
            total += self.seconds[test]
            if taken and total > MOST_S:
                break
            taken.append(test)
        # those of a module one after the other: they share what it makes first, which may take longer than they do
        modules = list(dict.fromkeys(test.partition("::")[0] for test in taken))
        return sorted(taken, key=lambda test: modules.index(test.partition("::")[0]))


def _load_changed(changed: dict[str, str]) -> None:
    """Have the import system compile the changed source of a file."""
    loader = importlib.machinery.SourceFileLoader
    as_it_is = loader.get_code

    def get_code(self: Any, fullname: str) -> types.CodeType | None:
        if Path(self.path) == ROOT / changed["path"]:
            return compile(changed["source"], self.path, "exec")
        return as_it_is(self, fullname)

    loader.get_code = get_code  # type: ignore[method-assign]


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Import everything before anything else does."""
    if "MUTANTS_CHANGED" in os.environ:
        _load_changed(json.loads(Path(os.environ["MUTANTS_CHANGED"]).read_text()))
    _import_all()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Try the mutants instead of running the tests."""
    if "MUTANTS_CHANGED" in os.environ:
        return None
    items = {item.nodeid: item for item in session.items}
    reach = Reach(items)
    new = [item for item in session.items if item.nodeid not in reach.known]
    if new:
        print(f"{len(new)} tests to run with coverage", flush=True)
        _cover(new)
        reach = Reach(items)
    _index()
    with (FOLDER / "results").open("a") as file:
        for mutant in json.loads((FOLDER / "todo.json").read_text()):
            file.write(json.dumps(_tried(mutant, reach, items)) + "\n")
            file.flush()
    return True


def _tried(mutant: dict[str, Any], reach: Reach, items: dict[str, pytest.Item]) -> dict[str, Any]:
    """Return what became of a mutant. A test that fails with it must pass again without."""
    start, state, by = time.monotonic(), "survived", ""
    chosen = reach.tests(mutant["path"], mutant["lines"])
    _compile_unless(mutant["path"])
    undo, at_import = change(mutant["path"], mutant["source"]) if chosen else ([], False)
    try:
        following = [*(items[test] for test in chosen[1:]), None]
        for test, after in zip(chosen, following, strict=False):
            outcome = _outcome(items[test], HANG_S + 10 * reach.seconds[test], after)
            if outcome in ("failed", "slow"):
                state, by = "killed", test
                items[test].session._setupstate.teardown_exact(None)  # what was made with the change goes too
                break
    finally:
        restore(undo)
    if by and _outcome(items[by], MOST_TEST_S + HANG_S) != "passed":
        state = f"untried ({outcome} without it too)"
    elif state == "survived" and at_import:
        state = "at import"
    took = round(time.monotonic() - start, 1)
    return {"mutant": mutant["key"], "state": state, "s": took, "tests": len(chosen), "by": by}
