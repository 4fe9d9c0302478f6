"""Which kernels of a campaign are meant: by part of their names, or those with most time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracetool.core.errors import BadInput


def chosen_kernel(times: Mapping[str, float], part: str | None = None) -> str | None:
    """Return the kernel called so, else that with most time whose name holds the part; None where none does.

    >>> chosen_kernel({"gemm": 1.0, "gemm_split": 3.0, "norm": 2.0}, "gemm"), chosen_kernel({"a": 1.0}, "b")
    ('gemm', None)
    """
    if part in times:
        return part
    fitting = {name: time for name, time in times.items() if (part or "") in name}
    return max(fitting, key=lambda name: fitting[name]) if fitting else None


def chosen_kernels(times: Mapping[str, float], parts: Sequence[str], top: int | None) -> list[str]:
    """Return the kernels meant by parts of their names, then, of the others, those with most time.

    Parameters
    ----------
    times : mapping of str to float
        Time of each kernel.
    parts : sequence of str
        Parts of names.
    top : int, optional
        How many kernels at least, where fewer are named.

    Raises
    ------
    BadInput
        If no kernel is called so, or two parts mean one kernel.

    Examples
    --------
    >>> chosen_kernels({"gemm": 1.0, "norm": 2.0, "copy": 3.0}, ["gemm"], 2)
    ['gemm', 'copy']
    """
    names: dict[str, str] = {}
    for part in parts:
        name = chosen_kernel(times, part)
        if name is None:
            raise BadInput(
                f"no kernel called {part!r} ran", "give part of its name as tracetool classify RUN shows it"
            )
        if name in names:
            raise BadInput(f"{names[name]!r} and {part!r} both mean {name}", "give more of their names")
        names[name] = part
    others = sorted((n for n in times if n not in names), key=lambda n: -times[n])
    return [*names, *others[: max((top or 0) - len(names), 0)]]
