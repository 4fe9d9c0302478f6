"""Notes on kernels and versions of libraries that rows state and nobody measured: what is taken instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

import numpy as np

from tracetool.core.library_versions import nearest_version, version_number
from tracetool.core.operators import OperatorColumns
from tracetool.families.implementations import fitted_libraries, implementations, library_of, words_of
from tracetool.families.law import Law
from tracetool.families.pricing import laws, split_by_law
from tracetool.families.registry import groups
from tracetool.hardware.gpu import Gpu
from tracetool.model.candidates import candidates, is_known, is_recognized, other_version
from tracetool.model.eligible_implementations import members
from tracetool.model.stand_ins import unlike
from tracetool.model.time_calibration import TimeCalibration
from tracetool.model.time_files import time_calibration_of
from tracetool.model.unmeasured_libraries import habits_of_name, of_project

#: Most names of kernels or versions that a note lists.
_MOST_NAMED: Final = 6
#: Letters of a stated name that a note repeats.
_MOST_LETTERS: Final = 40


def unmeasured_notes(
    rows: OperatorColumns, gpu: Gpu, calibration: TimeCalibration | None = None
) -> list[str]:
    """Return notes on the implementations and versions that rows state and that were not measured.

    Parameters
    ----------
    rows : OperatorColumns
        n rows of operators, with the columns ``stack`` and ``implementation`` where they are stated.
    gpu : Gpu
        The GPU they are predicted on.
    calibration : TimeCalibration, optional
        Coefficients of time in force, by default those delivered. Laws of the user's own state no library.
    """
    fitted = calibration or time_calibration_of(gpu)
    stated = sorted(
        (law, stack, name)
        for law, stack, name in _stated(rows, gpu)
        if law in fitted.delivered and implementations(law)
    )
    notes = [_kernel_note(laws()[law], stack, name, gpu) for law, stack, name in stated]
    notes += [_call_note(laws()[law], stack, gpu) for law, stack, name in stated if stack and not name]
    if stated and not any(members(laws()[law], gpu, stack, name) for law, stack, name in stated):
        said = "a stated library or kernel changes no time, intervals are wider"
        return [f"no library's kernels were fitted to GPUs such as {gpu.name}: {said}"]
    notes += _other_library_notes(stated, gpu)
    return [*dict.fromkeys(note for note in notes if note), *_version_notes(stated, gpu)]


def _stated(rows: OperatorColumns, gpu: Gpu) -> set[tuple[str, str, str]]:
    """Return each law with the stacks and implementations that its rows state, but rows that state none."""
    stacks, of_stack = rows.distinct("stack")
    names, of_name = rows.distinct("implementation")
    if not any(stacks) and not any(names):
        return set()
    pair = np.asarray(of_stack) * len(names) + np.asarray(of_name)
    stated = set()
    for family, of_family in groups(rows):
        for law, inside in split_by_law(family, rows.take(of_family), gpu):
            for code in np.unique(pair[np.asarray(of_family)[inside]]).tolist():
                stack, name = stacks[code // len(names)], names[code % len(names)]
                if stack or name:
                    stated.add((law.name, stack, name))
    return stated


def _kernel_note(law: Law, stack: str, name: str, gpu: Gpu) -> str:
    """Return a note on a name that no kernel measured and no library's source has; "" where one has."""
    if not name:
        return ""
    if is_recognized(law, name):
        return _stand_in_note(law, stack, name, gpu)
    library = library_of(stack)
    others = [one for one in implementations(law.name) if one.stack == library]
    known = sorted({text for one in others or implementations(law.name) for text in one.names})
    near = get_close_matches(words_of(name), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {_listed(known)}"
    taken = dict.fromkeys(member.name for member in members(law, gpu, stack, name))
    of_library = f" of {library}" if library in fitted_libraries() else ""
    return f"{law.name}{of_library}: no kernel {_short(name)} was fitted: {_listed(taken)} taken; {hint}"


def _stand_in_note(law: Law, stack: str, name: str, gpu: Gpu) -> str:
    """Return a note where only kernels unlike the name's were measured; "" where one is like it."""
    called = words_of(name)
    chosen = candidates(law.name, gpu.architecture, stack, name)
    of_source = habits_of_name(law, called, gpu.architecture) or of_project(
        law, gpu.architecture, stack, called, implementations(law.name)
    )
    if of_source or not chosen or not all(unlike(one, called) for one in chosen):
        return ""
    taken = _listed(dict.fromkeys(member.name for member in members(law, gpu, stack, name)))
    return f"{law.name}: kernel {_short(name)} was not measured: {taken} taken, with wider intervals"


def _call_note(law: Law, stack: str, gpu: Gpu) -> str:
    """Return a note where a library calls another kernel than of the same operator otherwise; "" if not."""
    if not law.beside or library_of(stack) not in fitted_libraries():
        return ""
    kernels, others = (members(one, gpu, stack, "") for one in (law, laws()[law.beside]))
    usual = max(others, key=lambda member: member.weight, default=None)
    if usual is None or usual.name in {member.name for member in kernels}:
        return ""
    taken = _listed(dict.fromkeys(member.name for member in kernels))
    return f"{law.name}: {library_of(stack)} runs {taken} {law.called_as}, not {usual.name}"


def _other_library_notes(stated: Iterable[tuple[str, str, str]], gpu: Gpu) -> list[str]:
    """Return notes on measured libraries whose kernels of an operator were not: others' stand for them."""
    laws_of = defaultdict[tuple[str, str], list[str]](list)
    for law, stack, name in stated:
        if library_of(stack) not in fitted_libraries() or is_known(law, stack):
            continue
        if lenders := {one.stack for one in candidates(law, gpu.architecture, stack, name)} - {""}:
            laws_of[library_of(stack), _listed(sorted(lenders))].append(law)
    return [
        f"{_listed(dict.fromkeys(of_laws))}: no kernels of {library} were fitted (only of {lenders}): "
        "intervals are wider"
        for (library, lenders), of_laws in laws_of.items()
    ]


def _version_notes(stated: Sequence[tuple[str, str, str]], gpu: Gpu) -> list[str]:
    """Return a note on each stack whose version was not measured or is not stated, with those that were.

    It names the operators where others of the table were measured in that version.
    """
    taken, measured = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    of_stack, other = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for law, stack, name in stated:
        for one in candidates(law, gpu.architecture, stack, name):
            fitted = one.laws[law]
            if one.stack != library_of(stack):
                continue
            of_stack[stack].add(law)
            if other_version(fitted, stack, gpu.architecture):
                other[stack].add(law)
                versions = fitted.versions_on(gpu.architecture)
                taken[stack].add(nearest_version(stack, versions))
                measured[stack] |= versions
    named = {s: f"{_listed(sorted(other[s]))}: " if other[s] != of_stack[s] else "" for s in taken}
    return [
        named[stack]
        + _version_note(stack, gpu, _listed(_by_version(nearest)), _listed(_by_version(measured[stack])))
        for stack, nearest in taken.items()
    ]


def _version_note(stack: str, gpu: Gpu, taken: str, measured: str) -> str:
    if not version_number(stack):
        return (
            f"version of {_short(stack)} is not stated: kernels of {taken} taken, intervals hold other "
            "versions; a stated one narrows them"
        )
    return (
        f"version of {_short(stack)} was not measured on {gpu.architecture}: kernels of {taken} taken; "
        f"measured: {measured}"
    )


def _by_version(stacks: Iterable[str]) -> list[str]:
    """Return stacks as users write them, older versions first."""
    return [stack.replace("_", " ") for stack in sorted(stacks, key=lambda one: (version_number(one), one))]


def _listed(texts: Iterable[str]) -> str:
    """Return the first of some names, and how many more there are."""
    names = list(texts)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _short(text: str) -> str:
    return repr(text[:_MOST_LETTERS])
