"""GPUs as they are named on the command line."""

from __future__ import annotations

from typing import Literal

from tracetool.core.errors import BadInput


def chosen_vendor(text: str | None) -> Literal["nvidia", "amd"] | None:
    """Return the vendor asked for, None where it is left open.

    Raises
    ------
    BadInput
        If no vendor is called so.
    """
    if text in ("nvidia", "amd"):
        return text  # type: ignore[return-value]
    if text:
        raise BadInput(f"no vendor called {text}", "known: nvidia, amd")
    return None


def chosen_devices(text: str | None) -> tuple[int, ...]:
    """Return the GPUs of ``0,2``; none where none is named.

    Raises
    ------
    BadInput
        If it is not a list of numbers from 0 up.
    """
    try:
        numbers = tuple(int(n) for n in (text or "").split(",") if n.strip())
    except ValueError as error:
        raise BadInput(f"--devices {text}: not a list of numbers", "write e.g. --devices 0,2") from error
    if any(n < 0 for n in numbers):
        raise BadInput(f"--devices {text}: GPUs are numbered from 0")
    return numbers
