"""Which implementations may have run an operator: by the name a table states, the library and the GPU."""

from __future__ import annotations

from tracetool.families.implementations import (
    OTHER_KERNELS,
    FittedLaw,
    Implementation,
    architecture_distance,
    distinctive_words,
    implementations,
    library_of,
    release_of,
    words_of,
)
from tracetool.families.law import Law
from tracetool.hardware.architecture import load_architecture
from tracetool.hardware.load import load_gpu
from tracetool.hardware.priors import prior_table
from tracetool.model.kernel_projects import built_separately, is_untimed, project_of, runs_on
from tracetool.model.other_formats import architectures_of
from tracetool.model.stand_ins import kernels_of, same_kernels, stands_in

#: Laws whose coefficients a generation does not change: 1 where neighbors share nothing. [1]
_TOWARDS_CENTER_OF = prior_table("implementations.towards_center_of")
#: Word of kernels that a compiler makes of one source for any architecture. [1] By definition of Triton.
_COMPILED = "triton"
#: Words of a name from which on it is a function's (fused_recurrent_gated_delta_rule), not a backend's
#: (flash_attention). [words] A prior.
_FUNCTION = 3
#: Fewer letters in the midst of a name are no abbreviation of it: fa, mla. [1] A prior.
_LEAST_LETTERS = 5


def candidates(
    law: str,
    architecture: str,
    stack: str = "",
    name: str = "",
    available: tuple[Implementation, ...] | None = None,
) -> tuple[Implementation, ...]:
    """Return the implementations that may have run an operator; none where the vendor has none fitted.

    Parameters
    ----------
    law : str
        Name of the law that times it.
    architecture : str
        Of the GPU: where some candidates were measured on it, others are none.
    stack, name : str
        The library, with or without a version, and what it calls the implementation; "" where unknown.
    available : tuple of Implementation, optional
        Those to choose from, by default the delivered ones.
    """
    vendor = load_architecture(architecture).vendor
    available = tuple(
        one
        for one in (implementations(law) if available is None else available)
        if _made_for(one, law, vendor)
    )
    library, called = library_of(stack), words_of(name)
    # a kernel that ran with the matrix instructions of two architectures, in any format, is made for any
    same = tuple(one for one in available if library and one.stack == library and called in one.names)
    if called and (anywhere := tuple(one for one in same if _made_for_any(one, law, architecture))):
        return anywhere
    # what a library runs untimed says nothing of others that call the same kernels, nor of other lists
    timed = (one for one in available if not library or _lists_its_tiles(one, law, library, architecture))
    available = tuple(timed) or available
    available = tuple(one for one in available if runs_on(one, law, architecture)) or available
    anywhere = available
    shortened = tuple(
        one for one in available if library and one.stack == library and _abbreviates(called, one)
    )
    near = tuple(
        one
        for one in available
        if _distance(one, law, architecture)[1] < OTHER_KERNELS or _COMPILED in one.words
    )
    available = near or available
    shortened = tuple(one for one in shortened if one in available)
    of_library = tuple(one for one in available if library and one.stack in {library, ""})
    if not called:
        return _nearest(of_library or available, law, architecture)
    named = any(called in one.names or _matches(one, called) for one in of_library)
    # a function's whole name is that function, whichever library calls it, and none of a longer name
    same_function = tuple(
        one for one in available if called in one.names and called.count("_") + 1 >= _FUNCTION
    )
    if same_function and not named:
        return _nearest(same_function, law, architecture)
    if shortened and not named:
        return _nearest(shortened, law, architecture)
    pool = anywhere if _TOWARDS_CENTER_OF.get(law, 0.0) >= 1.0 else available
    if not named and (project := _of_project(pool, library, called)):
        chosen = _nearest(project, law, architecture)
    else:
        chosen = _called(
            called, of_library, _made_elsewhere(available, library, called), available, law, architecture
        )
    if all(stands_in(one, called) for one in chosen):  # another library's same kernel says more
        return (
            _nearest(tuple(one for one in available if same_kernels(one, called)), law, architecture)
            or chosen
        )
    return chosen


def runs_there(one: Implementation, law: str, architecture: str) -> bool:
    """Return whether an implementation was made for a GPU's vendor, and for its architecture if for few."""
    vendor = load_architecture(architecture).vendor
    return _made_for(one, law, vendor) and runs_on(one, law, architecture)


def _called(
    called: str,
    of_library: tuple[Implementation, ...],
    made_elsewhere: tuple[Implementation, ...],
    available: tuple[Implementation, ...],
    law: str,
    architecture: str,
) -> tuple[Implementation, ...]:
    """Return the implementations a name matches: the library's, else another's, else those most similar."""
    for pool in (of_library, made_elsewhere, available):
        if exact := tuple(one for one in pool if called in one.names):
            return exact
        matching = [(sum(map(len, one.words)), one) for one in pool if _matches(one, called)]
        if matching:
            most = max(weight for weight, _ in matching)
            return tuple(one for weight, one in matching if weight == most)
        if pool is made_elsewhere and pool:
            return _nearest(pool, law, architecture)
    return _nearest(_most_similar(of_library or available, called), law, architecture)


def _made_for_any(implementation: Implementation, law: str, architecture: str) -> bool:
    """Return whether a kernel ran on two architectures, and its source builds no other for this one."""
    measured = architectures_of(implementation, law)
    return len(measured) > 1 and not built_separately(implementation, law, measured, architecture)


def _lists_its_tiles(implementation: Implementation, law: str, library: str, architecture: str) -> bool:
    """Return whether a kernel was timed, or ran by the first tile of a library's list for an architecture."""
    is_in_list = implementation.stack == library and architecture in implementation.laws[law].architectures
    return is_in_list or not is_untimed(implementation, law)


def _distance(implementation: Implementation, law: str, architecture: str) -> tuple[bool, float]:
    """Return the distance of the nearest architecture that an implementation was measured on."""
    return min(
        (architecture_distance(a, architecture) for a in implementation.laws[law].architectures),
        default=(False, 0.0),
    )


def _made_elsewhere(
    available: tuple[Implementation, ...], library: str, called: str
) -> tuple[Implementation, ...]:
    """Return the implementations of other libraries that a name refers to, e.g. ``trtllm_mha`` of SGLang."""
    makers = {one.stack for one in available if one.stack not in {"", library} and one.stack in called}
    return tuple(
        one
        for one in available
        if one.stack != library
        and (one.stack in makers or any(maker in word for maker in makers for word in one.words))
    )


def _of_project(
    available: tuple[Implementation, ...], library: str, called: str
) -> tuple[Implementation, ...]:
    """Return the library's kernels of the project in a name, else others' if those are all of an operator."""
    project = project_of(called)
    if project is None:
        return ()
    pool = tuple(one for one in available if project.includes(one))
    return tuple(one for one in pool if one.stack == library) or (pool if project.whole_operator else ())


def _most_similar(pool: tuple[Implementation, ...], called: str) -> tuple[Implementation, ...]:
    """Return those that share most words with a name."""
    words = distinctive_words(called)
    shared = [sum(len(word) for word in one.words if word in words) for one in pool]
    most = max(shared, default=0)
    return tuple(one for one, count in zip(pool, shared, strict=True) if count == most)


def _made_for(implementation: Implementation, law: str, vendor: str) -> bool:
    return any(load_gpu(name).vendor == vendor for name in implementation.laws[law].gpus)


def is_known(law: str, stack: str, available: tuple[Implementation, ...] | None = None) -> bool:
    """Return whether an implementation of a stack's library was fitted; True where no library is stated."""
    library = library_of(stack)
    return not library or any(one.stack in {library, ""} for one in available or implementations(law))


def is_recognized(law: Law, name: str) -> bool:
    """Return whether a name refers to a kernel of a law: one that was fitted, or one public source states."""
    called = words_of(name)
    stated = {key.split("/")[0] for key in law.name_habits}
    stated |= {word for key in law.library_host for word in key.split("/")[1:]}
    return (
        bool(kernels_of(called))
        or project_of(called) is not None
        or any(word in called for word in stated)
        or any(
            called in one.names or _matches(one, called) or _abbreviates(called, one)
            for one in implementations(law.name)
        )
    )


def other_version(one: FittedLaw, stack: str, architecture: str) -> bool:
    """Return whether a stack may be of a version not measured on an architecture: it states one, or none.

    False where it states no library either: any library's kernels are then as they were measured.
    """
    library, version = release_of(stack)
    measured = {release_of(release) for release in one.versions_on(architecture)}
    return bool(library) and (library, version) not in measured


def _matches(implementation: Implementation, called: str) -> bool:
    return bool(implementation.words) and all(word in called for word in implementation.words)


def _abbreviates(called: str, implementation: Implementation) -> bool:
    """Return whether a name is part of what tables call an implementation: deep_gemm, triton_mla."""
    words = set(called.split("_")) - {implementation.stack, ""}
    if not distinctive_words("_".join(words)):
        return False
    joined = called.replace("_", "").removeprefix(implementation.stack)
    return any(
        words <= set(name.split("_")) or (len(joined) >= _LEAST_LETTERS and joined in name.replace("_", ""))
        for name in implementation.names
    )


def _nearest(pool: tuple[Implementation, ...], law: str, architecture: str) -> tuple[Implementation, ...]:
    """Return those measured on the nearest architecture: where there are some on its own, only these."""
    away = [_distance(one, law, architecture) for one in pool]
    least = min(away, default=(False, 0.0))
    return tuple(one for one, distance in zip(pool, away, strict=True) if distance <= least)
