"""Specification of a family: everything the rest of the program knows of it.

A folder of ``families/`` holds families of like work. Its ``spec.py`` defines ``FAMILIES``, a tuple of them;
any of its modules may define ``LAWS``, the laws that time them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from tracetool.core.arrays import Ints
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.arguments import Sizes
from tracetool.hardware.gpu import Gpu


class Streams(Enum):
    """Whether a family's work is a number of elements read and written."""

    NO = auto()
    OWN = auto()  #: its elements may be an index or a tile of its operator's tensors
    WHOLE = auto()  #: it passes over the largest tensor of its operator


class Sequence(Enum):
    """Effect on a family's time of running among other kernels; see ``model/sequence.py``."""

    ALONE = auto()  #: as in a loop of its own
    PRODUCT = auto()  #: a product with weights, which come from memory
    STREAM = auto()  #: streams, slower on a slow core clock
    SOFTMAX = auto()  #: streams of scores that may lie on the chip


#: Columns every operator of a table may give beside its own: the library and version it ran under, the kernel
#: or path in it, and how a collective was issued.
LIBRARY_COLUMNS = ("stack", "implementation", "backend")


@dataclass(frozen=True)
class TableOperator:
    """One ``op`` of an operator table.

    Parameters
    ----------
    op : str
        Value of the column ``op``.
    needs, takes : tuple of str
        Columns a row must and may give, beside :data:`LIBRARY_COLUMNS`.
    dtype : bool
        Whether it must give a number format.
    choices : mapping of str to tuple of str
        Words a text column may hold.
    same : mapping of str to str
        Columns that default to another of the row.
    in_phase : mapping of str to tuple of str
        Columns a row of that ``phase`` must give beside ``needs``.
    at_most : mapping of str to str
        Columns whose number is no larger than another's of the row.
    multiple_of : mapping of str to str
        Columns whose number is a whole multiple of another's of the row.
    """

    op: str
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()
    dtype: bool = True
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    in_phase: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    at_most: Mapping[str, str] = field(default_factory=dict)
    multiple_of: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class UserWords:
    """Words in the name of a user's own kernel that identify the family.

    Parameters
    ----------
    rank : int
        Where words of several families occur, the lowest rank answers.
    op : str
        The finer class such a kernel gets.
    words : str
        The words, and pairs of neighboring words joined by ``_``, separated by blanks.
    """

    rank: int
    op: str
    words: str


@dataclass(frozen=True)
class Family:
    """One family of kernels.

    Parameters
    ----------
    name : str
        The word users see.
    meaning : str
        What its kernels do, in one line.
    example : str
        Name of a kernel that belongs to it.
    place : int
        Where lists show it: families of like work stand beside one another.
    shares : tuple of float
        Where the time of a kernel of unknown shape goes as a rule: core clock, memory clock, neither.
        They sum to 1. A prior.
    pipe : str
        Unit the core share of such a kernel is mostly spent on: ``tensor``, ``fp32`` or ``latency``.
    needs : tuple of tuple of str
        Sets of columns; a row's work is known when every column of one set is. Empty where no profiler or
        table states the work: kernels are then priced by ``shares`` of their measured duration.
    count : callable, optional
        Work of rows of known shape. Given exactly where ``needs`` is.
    laws : tuple of str
        Names of the laws that time it.
    choose : callable, optional
        Place in ``laws`` of the law of each row, shape (n,). Given exactly where there are several laws.
    table : tuple of TableOperator
        Rows of operator tables it reads.
    operators : mapping of str to Sizes
        Framework operators whose main kernel is of the family, and where their calls state its sizes.
    words : tuple of UserWords
        How a user's own kernel of the family is recognized, by finer class.
    helpers : mapping of str to str
        Finer classes that prepare or finish the main kernel, and the family whose law prices each.
    streams : Streams
        Whether its work is a number of elements.
    sequence : Sequence
        What running among other kernels does to it.
    inferred : str
        The size its duration determines where that alone is missing: ``k``, ``cols`` or ``kv_len``.
    product_grid : bool
        Its grid is that of a matrix product in tiles, in the view of the library that launches it.
    row_blocks : bool
        It is launched with a block per row, and its backward pass reads the gradient beside the rows.
    activity : bool
        Profilers list it as an activity of its own, not as a kernel with a name.
    """

    name: str
    meaning: str
    example: str
    place: int
    shares: tuple[float, float, float]
    pipe: str = "fp32"
    needs: tuple[tuple[str, ...], ...] = ()
    count: Callable[[OperatorColumns, Gpu], Work] | None = None
    laws: tuple[str, ...] = ("stream",)
    choose: Callable[[OperatorColumns, Gpu], Ints] | None = None
    table: tuple[TableOperator, ...] = ()
    operators: Mapping[str, Sizes] = field(default_factory=dict)
    words: tuple[UserWords, ...] = ()
    helpers: Mapping[str, str] = field(default_factory=dict)
    streams: Streams = Streams.NO
    sequence: Sequence = Sequence.ALONE
    inferred: str = ""
    product_grid: bool = False
    row_blocks: bool = False
    activity: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError where needs and counter, laws and choice, or the shares do not fit together."""
        if bool(self.needs) != (self.count is not None):
            raise ValueError("a family counts its work exactly where it says what that needs")
        if (len(self.laws) > 1) != (self.choose is not None):
            raise ValueError("a family chooses among its laws exactly where it has several")
        if abs(sum(self.shares) - 1.0) > 1e-9:
            raise ValueError(f"the shares of time sum to {sum(self.shares)}, not to 1")

    @property
    def in_bytes(self) -> bool:
        """Whether profilers state the work as bytes."""
        return self.needs == (("bytes",),)
