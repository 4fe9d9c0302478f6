"""Projects by kernel name, where several libraries call a kernel, from public source (projects.toml)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

import tomli

from tracetool.families.implementations import Implementation, has_warpgroups


@dataclass(frozen=True)
class Project:
    """Kernels that several libraries call."""

    title: str
    words: tuple[str, ...]  # any of them in a kernel's name identifies the project
    whole_operator: bool  # they are all of an operator, so that it takes as long in any library
    untimed: frozenset[str]  # libraries that run a default where others have the kernels timed first
    formats: frozenset[str]  # laws it is for: whose kernels come in tiles to time, or are made for few
    only: frozenset[str]  # architectures they are made for, none where any
    rebuilt_laws: frozenset[
        str
    ]  # laws whose kernels are others where matrix instructions are of single warps

    def names(self, called: str) -> bool:
        """Return whether a name is that of one of the project's kernels."""
        return any(word in called for word in self.words)

    def includes(self, one: Implementation) -> bool:
        """Return whether an implementation's kernels are the project's."""
        return any(self.names(name) for name in one.names)


def project_of(called: str) -> Project | None:
    """Return the project a kernel is from by its name, None where the name does not show it.

    >>> project_of("vllm_flash_attn_fa2").whole_operator, project_of("sglang_fused_moe_triton")
    (False, None)
    """
    return next((project for project in _projects() if project.names(called)), None)


def is_untimed(one: Implementation, law: str) -> bool:
    """Return whether a library runs a law's kernels by a default that others' measurements replace."""
    by_default = (p for p in _projects() if one.stack in p.untimed and law in p.formats)
    return any(project.includes(one) for project in by_default)


def runs_on(one: Implementation, law: str, architecture: str) -> bool:
    """Return whether an implementation's kernels may run on an architecture, by their projects' support."""
    stated = [p.only for p in _projects() if p.only and law in p.formats and p.includes(one)]
    return all(architecture in only for only in stated)


def built_separately(one: Implementation, law: str, measured: Iterable[str], architecture: str) -> bool:
    """Return whether an architecture's matrix instructions run other kernels than any that was measured."""
    is_rebuilt = any(p.includes(one) for p in _projects() if law in p.rebuilt_laws)
    return is_rebuilt and all(has_warpgroups(place) != has_warpgroups(architecture) for place in measured)


@cache
def _projects() -> tuple[Project, ...]:
    text = resources.files(__package__).joinpath("projects.toml").read_text("utf-8")
    return tuple(
        Project(
            title,
            tuple(entry["words"]),
            entry["whole"],
            frozenset(entry["untimed"]),
            frozenset(entry["formats"]),
            frozenset(entry.get("only", ())),
            frozenset(entry.get("apart", ())),
        )
        for title, entry in tomli.loads(text).items()
    )
