"""``python -m tracetool`` and the ``tracetool`` command."""

from __future__ import annotations

CANNOT = 2
INTERRUPTED = 130
_BIG_BYTES = 256 << 20
_BIG_RUN = 16 << 20  # its columns are packed


def main() -> None:
    """Run the command line and leave with its exit code."""
    import os  # noqa: PLC0415 - keeps `import tracetool` bare

    lost = ""
    try:
        from tracetool.core.stop_signals import unwind_on_signals  # noqa: PLC0415

        unwind_on_signals()
        code = _command()
        lost = "its output may be cut short"
        code = _closed(code)
    except EOFError:  # Python wrote a compiled file on a full disk
        os.write(
            2, b"error: a compiled file of this installation is cut short: remove its __pycache__ folders\n"
        )
        code = CANNOT
    except BaseException as error:  # no name is sure to be loaded when an interrupt comes
        if type(error).__name__ not in ("KeyboardInterrupt", "Terminated"):
            raise
        code = _stopped(error, lost)
    os._exit(code)


def _command() -> int:
    """Prepare the process, load the command line and run it; return its exit code."""
    import gc  # noqa: PLC0415
    import os  # noqa: PLC0415
    import sys  # noqa: PLC0415

    from tracetool.cli.streams import tolerate_lost_readers  # noqa: PLC0415

    tolerate_lost_readers()
    # What polars frees of a big input goes back to the system soon, or it adds to the peak, and comes as huge
    # pages, where there are. Of a small one it is kept for the next table: asking for it anew takes a tenth
    # of the time.
    files = (f for given in sys.argv[1:] for f in (given, f"{given}/kernels.parquet"))
    sizes = {f: os.path.getsize(f) for f in files if os.path.isfile(f)}  # noqa: PTH113, PTH202
    big = any(size > (_BIG_RUN if f.endswith(".parquet") else _BIG_BYTES) for f, size in sizes.items())
    pages = ",thp:always" if big and sys.platform == "linux" else ""
    decay_ms = 100 if big else 5000
    os.environ.setdefault("_RJEM_MALLOC_CONF", f"dirty_decay_ms:{decay_ms},muzzy_decay_ms:0{pages}")
    # The matrices are small: threads that wait for one another spend more than they save, and on a busy
    # machine a fit of a second takes minutes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A command ends soon and its millions of records form no cycles: looking for some took a sixth of a read.
    gc.set_threshold(200_000, 50, 100)
    from tracetool.tables import stopping  # noqa: PLC0415

    stopping.install()
    from tracetool.cli.app import run  # noqa: PLC0415 - keeps `import tracetool` free of the terminal

    return run()


def _closed(code: int) -> int:
    """Write out what the streams still hold; return the exit code, 2 where standard output failed."""
    import atexit  # noqa: PLC0415
    import contextlib  # noqa: PLC0415
    import sys  # noqa: PLC0415

    from tracetool.cli.streams import flush_output  # noqa: PLC0415
    from tracetool.core.stop_signals import ignored, restored  # noqa: PLC0415
    from tracetool.tables.library_output import release  # noqa: PLC0415

    # What had to be closed and removed is by now: taking millions of records apart one by one would only cost
    # time. And an interrupt inside eval(), as namedtuples use it, marks the interpreter: it would end itself
    # by the signal although the interrupt was handled.
    before = ignored()  # Python would print a signal there as an exception that it ignores
    atexit._run_exitfuncs()
    release()
    restored(before)  # a reader that takes nothing may hold up the rest
    fault = flush_output()
    if fault and not code:  # another code has said its line: a failed check stays failed
        code = CANNOT
        with contextlib.suppress(OSError):
            print(f"error: standard output: {fault.strerror}", file=sys.stderr)  # noqa: T201
    with contextlib.suppress(OSError):  # the code says it too
        sys.stderr.flush()
    return code


def _stopped(error: BaseException, lost: str) -> int:
    """Say in one line what a signal ended while the program loads or leaves; return the exit code."""
    import contextlib  # noqa: PLC0415
    import os  # noqa: PLC0415
    import signal  # noqa: PLC0415
    import sys  # noqa: PLC0415

    from tracetool.core.stop_signals import manner_of, number_of  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is being obeyed
    number = number_of(error)
    if stopping := sys.modules.get("tracetool.tables.stopping"):  # it was loaded
        stopping.release()
        lost = lost or stopping.outcome()
    with contextlib.suppress(OSError):  # the code says it too
        os.write(2, f"error: {manner_of(number)}; {lost or 'nothing was written'}\n".encode())
    return 128 + number


if __name__ == "__main__":
    main()
