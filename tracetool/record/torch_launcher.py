"""Runs a Python program inside the PyTorch profiler. Stands alone: it runs in the program's own environment.

``python torch_launcher.py --trace FILE.json.gz [--stack] [--memory] -- PROGRAM`` where PROGRAM is
``script.py ...``, ``-m module ...`` or ``-c code``.
"""

from __future__ import annotations

import inspect
import os
import runpy
import signal
import sys
from typing import Any

_OPTIONS = {"--stack": "with_stack", "--memory": "profile_memory"}


def _take(arguments: list[str]) -> tuple[str, dict[str, bool], list[str]]:
    """Return the trace's path, the profiler's options, and the program."""
    trace, options = "", {}
    while arguments and arguments[0] != "--":
        word = arguments.pop(0)
        if word == "--trace" and arguments:
            trace = arguments.pop(0)
        elif word in _OPTIONS:
            options[_OPTIONS[word]] = True
        else:
            sys.exit(f"torch_launcher: unknown option {word}; known: {', '.join(_OPTIONS)}")
    if not trace or len(arguments) < 2:
        sys.exit("torch_launcher: --trace FILE -- PROGRAM is needed")
    return trace, options, arguments[1:]


def _run(program: list[str]) -> None:
    """Run a script, a module or code as ``__main__``, its arguments in ``sys.argv``."""
    if program[0] == "-m":
        sys.argv = program[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    elif program[0] == "-c":
        sys.argv = ["-c", *program[2:]]
        sys.path[0] = ""
        exec(compile(program[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - as python -c does
    else:
        sys.argv = program
        sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
        runpy.run_path(program[0], run_name="__main__")


def _export(profiler: Any, trace: str) -> None:
    """Write aside, then rename: a trace is whole or absent."""
    beside = os.path.join(os.path.dirname(trace), ".part-" + os.path.basename(trace))
    profiler.export_chrome_trace(beside)
    os.replace(beside, trace)


def main() -> None:
    """Run the program and leave its trace, whatever way it ends; its exit code is kept."""
    trace, options, program = _take(sys.argv[1:])
    from torch.profiler import ProfilerActivity, profile, supported_activities

    kinds = (ProfilerActivity.CPU, ProfilerActivity.CUDA)
    activities = [a for a in kinds if a in supported_activities()]
    owner = os.getpid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if "acc_events" in inspect.signature(profile.__init__).parameters:  # else newer releases warn of cycles
        options["acc_events"] = True
    profiler = profile(activities=activities, record_shapes=True, **options)
    profiler.__enter__()
    try:
        _run(program)
    finally:
        if os.getpid() == owner:  # a forked child that comes here must not write its parent's trace
            failing = sys.exc_info()[0] is not None
            for number in (signal.SIGINT, signal.SIGTERM):  # a second Ctrl-C must not tear the trace
                signal.signal(number, signal.SIG_IGN)
            profiler.__exit__(None, None, None)
            try:
                _export(profiler, trace)
            except Exception as error:
                if not failing:
                    raise
                sys.stderr.write(f"torch_launcher: the trace could not be written: {error}\n")


if __name__ == "__main__":
    main()
