"""``python -m tracetool`` and the ``tracetool`` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line and leave with its exit code."""
    from tracetool.cli.app import run  # noqa: PLC0415 - keeps `import tracetool` free of the terminal

    raise SystemExit(run())


if __name__ == "__main__":
    main()
