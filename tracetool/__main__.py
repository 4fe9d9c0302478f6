"""``python -m tracetool`` and the ``tracetool`` command."""

from __future__ import annotations

INTERRUPTED = 130


def main() -> None:
    """Run the command line and leave with its exit code."""
    import gc  # noqa: PLC0415 - keeps `import tracetool` bare
    import os  # noqa: PLC0415
    import sys  # noqa: PLC0415

    # What polars frees goes back to the system soon: its allocator would keep pages as long as nobody asks.
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:100,muzzy_decay_ms:0")
    # A command ends soon and its millions of records form no cycles: looking for some took a sixth of a read.
    gc.set_threshold(200_000, 50, 100)
    from tracetool.cli.app import run  # noqa: PLC0415 - keeps `import tracetool` free of the terminal

    code = run()
    if code == INTERRUPTED:
        # An interrupt inside eval(), as namedtuples use it, marks the interpreter: it would end itself by the
        # signal although the interrupt was handled. What had to be closed and removed is by now.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
