"""Laws: from rows and coefficients to the parts of their time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Ints
from tracetool.core.operators import OperatorColumns
from tracetool.families.pieces import Pieces, joined
from tracetool.hardware.gpu import Gpu

Coefficients = Mapping[str, float]
#: What a host takes for each kernel that PyTorch code issues one by one. [us] A prior: between launches pass
#: 19 and 56 us in the median of two traces of PyTorch on an H100, 32 in their geometric mean.
KERNEL_US: Final = 32.0
#: Rows whose parts are computed together, so that the work stays in the processor's cache and its memory is
#: used again. [rows] By definition without effect on results.
_AT_ONCE = 4096
#: In place of an architecture: all whose matrix instructions are of single warps. [1] By definition here.
WARPS = "(warps)"
#: In place of an architecture: all of these whose instructions take the scales of blocks. [1] By definition
#: here.
SCALED_WARPS = "(warps with scales)"
#: In place of an architecture: all whose SMs have tensor memory. [1] By definition here.
TENSOR_MEMORY = "(tensor memory)"


@dataclass(frozen=True)
class Coefficient:
    """One coefficient of a law: its prior value, the bounds of a fit, its unit.

    One that is not ``fitted`` keeps its prior unless ``choices`` are tried: those are sizes and habits of a
    library, which have no value in between. ``stated_choices``, those of its source alone, are not tried.
    One that is not ``carried`` does not apply to another GPU, which keeps its prior. One with a ``pace``,
    ``memory``, ``l2``, ``one_l2``, ``dram``, ``pairs`` or ``tensor_memory``, scales with that of the chip
    on architectures without measurements: see :mod:`tracetool.model.chip_scaling`. The ``kind`` of evidence
    a prior rests on, ``source`` and ``meaning`` are in the data file; see
    :mod:`tracetool.families.coefficients`.
    """

    value: float
    low: float
    high: float
    unit: str
    fitted: bool = True
    choices: tuple[float, ...] = ()
    stated_choices: tuple[float, ...] = ()
    carried: bool = True
    pace: str = ""
    kind: str = "prior"
    source: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Law:
    """Time of one kind of kernel.

    Parameters
    ----------
    name : str
        Section of a calibration.
    parts : callable
        Pieces of rows on a GPU with every coefficient given.
    priors : mapping of str to Coefficient
        The coefficients.
    spread : (float, float)
        5 % and 95 % quantile of ln(measured / predicted) without a calibration.
    parent : str
        Law whose calibration stands in where this one has none.
    lent_as : mapping of str to str
        Coefficients that the parent's calibration lends as another of its own, or, where that is the empty
        string, not at all: its kernels do there what these do not.
    habits : tuple of mapping of str to float
        Choices of known libraries that only make sense together: a fit starts from each.
    library_habits : mapping of str to mapping of str to float
        Coefficients of libraries' kernels that their public source states, by library: those of a library
        nobody fitted. A key "library/architecture" holds there in place of that of the library.
    project_habits : mapping of str to mapping of str to float
        Coefficients that source states of kernels made for few architectures, by project: where nobody
        measured any of it. A key "project/word" holds beside them for kernels whose name has the word.
    library_host : mapping of str to mapping of str to (float, float)
        What the public source of an unfitted library states of its host code: a factor and what is added,
        by coefficient, to those of other libraries' kernels. A key "library/word" holds beside that of the
        library, on the architecture of that name or for kernels whose name has the word; :data:`WARPS` is any
        without matrix instructions of warpgroups, :data:`SCALED_WARPS` any of these whose instructions take
        scales by blocks.
    host_tells : frozenset of str
        Coefficients of the host code, whichever kernel it calls: where a library calls a kernel that was
        measured in another, those of its own kernels take the place of what its source tells.
    source_tells : frozenset of str
        Choices of kernels that no fit tells, since times do not depend on them or no table had rows of them:
        what ``library_host`` states of them holds for fitted kernels too.
    elsewhere : mapping of str to mapping of str to (float, float)
        The same of a library's own kernels on an architecture where none of them was measured, beside what
        ``library_host`` states; :data:`TENSOR_MEMORY` is any with tensor memory. A fit there is free of it.
    name_habits : mapping of str to mapping of str to float
        What a word of a kernel's name says of its choices where another's coefficients stand for it; of
        several words the longest. A key "word/architecture", or "word" with a kind of architectures as in
        ``elsewhere``, holds there in place of that of the word.
    by_version : mapping of str to mapping of str to mapping of str to float
        Choices of a library's kernels that its source states of a version and those after, by first version.
        A key "library/word" holds for implementations whose name has the word.
    kinds : tuple of str
        Kinds of rows that err differently, so that each has an interval of its own.
    kind_of : callable, optional
        Number of the kind of each row, shape (n,).
    by_vendor : mapping of str to mapping of str to float
        Coefficients that differ on a vendor's GPUs where only other vendors' GPUs lend any. Keys
        "vendor/lanes" and "vendor/architecture" hold beside that of the vendor, in their order: on GPUs whose
        warps have so many lanes, and on those of that architecture and of later ones whose warps are as wide.
    pin : callable, optional
        Rows of the same work that state the sizes a library would choose with these coefficients: a fit
        varies the coefficients about them without choosing anew.
    by_row : bool
        Whether the equations also take an array of each coefficient a fit moves, a value for every row: a fit
        then varies all of them at once.
    unmeasured : callable, optional
        Which rows run a kernel that source states with these coefficients and nobody measured on any GPU,
        shape (n,): their bounds are wider.
    libraries : callable, optional
        Rows that state no library as each library would state them, with the weight of each, shape (n,):
        their bounds hold 90 % of the mixture. An empty sequence where the rows state theirs.
    called_as : str
        How it is called, and not as ``beside``, the law of the same operator called otherwise: a note names
        both kernels where a library runs different ones.
    other_kernels : bool
        Whether it is for kernels made for another architecture (``Architecture.other_kernels``): GPUs of
        that one lend the coefficients of ``parent``.
    """

    name: str
    parts: Callable[[OperatorColumns, Gpu, Coefficients], Pieces]
    priors: Mapping[str, Coefficient]
    spread: tuple[float, float] = (-0.5, 0.5)
    parent: str = ""
    lent_as: Mapping[str, str] = field(default_factory=dict)
    habits: tuple[Mapping[str, float], ...] = ()
    library_habits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    project_habits: Mapping[str, Coefficients] = field(default_factory=dict)
    library_host: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    host_tells: frozenset[str] = frozenset()
    source_tells: frozenset[str] = frozenset()
    elsewhere: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    name_habits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    by_version: Mapping[str, Mapping[str, Coefficients]] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    kind_of: Callable[[OperatorColumns], Ints] | None = None
    by_vendor: Mapping[str, Coefficients] = field(default_factory=dict)
    pin: Callable[[OperatorColumns, Gpu, Coefficients], OperatorColumns] | None = None
    by_row: bool = False
    unmeasured: Callable[[OperatorColumns, Gpu, Coefficients], Bools] | None = None
    libraries: Callable[[OperatorColumns], Sequence[tuple[OperatorColumns, Floats]]] | None = None
    called_as: str = ""
    beside: str = ""
    other_kernels: bool = False

    def kind(self, rows: OperatorColumns) -> Ints:
        """Return the number of the kind of each row; 0 for all by default. Shape (n,)."""
        return np.zeros(len(rows), dtype=np.int64) if self.kind_of is None else self.kind_of(rows)

    def lent(self, values: Coefficients) -> dict[str, float]:
        """Return the coefficients of the parent's kernels that apply to these, by this law's names."""
        renamed = {name: values[source] for name, source in self.lent_as.items() if source in values}
        return {**{k: v for k, v in values.items() if k not in self.lent_as}, **renamed}

    def every_value(self, coefficients: Coefficients) -> dict[str, float]:
        """Return every coefficient: the one given, or its prior."""
        return {k: coefficients.get(k, c.value) for k, c in self.priors.items()}

    def pieces(self, rows: OperatorColumns, gpu: Gpu, coefficients: Coefficients) -> Pieces:
        """Return the parts of rows; a coefficient not given is its prior."""
        values = self.every_value(coefficients)
        if len(rows) <= _AT_ONCE or any(np.ndim(value) for value in values.values()):
            return self.parts(rows, gpu, values)
        starts = range(0, len(rows), _AT_ONCE)
        return joined([self.parts(rows.take(slice(i, i + _AT_ONCE)), gpu, values) for i in starts])
