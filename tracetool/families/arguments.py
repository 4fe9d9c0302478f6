"""Where a framework's operator states the sizes of its work: argument places, by operator name.

Places count from 0 in the operator's schema: that of PyTorch (``native_functions.yaml``), or of the library
that registers it. ``kernels/shapes.py`` holds a function for each :class:`Reading`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto


class Reading(Enum):
    """Ways to turn the arguments of a call into numbers; in brackets the places each takes."""

    PRODUCT = auto()  #: first operand, the second behind it [first]
    CONVOLUTION = auto()  #: [data, weights, stride, padding, groups]
    CONVOLUTION_GRADIENT = auto()  #: [gradient of the result, other operand]
    ATTENTION = auto()  #: queries, keys and values behind them [queries, causal]
    PACKED_ATTENTION = auto()  #: a server's: tokens of all sequences behind one another []
    LAYER_NORM = auto()  #: [data, normalized shape]
    LAST_AXIS = auto()  #: rows along the last axis [data]
    CHANNELS = auto()  #: rows are channels [data]
    GROUP_NORM = auto()  #: [data, batch, groups]
    AXIS = auto()  #: rows along one axis [data, axis]
    REDUCED = auto()  #: rows along the axes that are reduced []
    EMBEDDING = auto()  #: [table, index]
    COPIED = auto()  #: result, then source []
    CONCATENATED = auto()  #: a list of tensors []
    POOLED = auto()  #: data, window and steps behind it [data]
    TOKENS = auto()  #: token tensors [first, how many]
    FOURIER = auto()  #: [data, axes, last size: 99 where the data holds it]
    STATE_SCAN = auto()  #: input, step size, transition behind it [input]
    EXPERTS = auto()  #: tokens, then their scores of every expert []


@dataclass(frozen=True)
class Sizes:
    """Sizes that one operator states: the reading, its argument places and flags."""

    reading: Reading
    places: tuple[int, ...] = ()
    flags: Mapping[str, int | bool] = field(default_factory=dict)


def sizes(reading: Reading, *places: int, **flags: int | bool) -> Sizes:
    """Return the sizes that an operator states.

    >>> sizes(Reading.PRODUCT, 0, transposed=True).places
    (0,)
    """
    return Sizes(reading, places, flags)


def same_sizes(names: Iterable[str], stated: Sizes) -> dict[str, Sizes]:
    """Return the operators of ``names``, which may be one text of words, with the same sizes.

    >>> sorted(same_sizes("mm bmm", sizes(Reading.PRODUCT, 0)))
    ['bmm', 'mm']
    """
    return dict.fromkeys(names.split() if isinstance(names, str) else names, stated)
