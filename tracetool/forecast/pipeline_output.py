"""Output of a diffusion pipeline's batch, its division over GPUs, and the stages that make it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tracetool.core.errors import BadInput
from tracetool.forecast.operator_rows import Row

_MOST_PIXELS: Final = 100_000


@dataclass(frozen=True)
class SequenceRanks:
    """GPUs that share the tokens of one batch: ``ulysses`` exchange heads, ``ring`` pass on keys."""

    ulysses: int = 1
    ring: int = 1

    def __post_init__(self) -> None:
        for name, value in (("ulysses", self.ulysses), ("ring", self.ring)):
            if value < 1 or value != int(value):
                raise BadInput(f"{name}: {value!r} is not a whole number of at least 1")

    @property
    def gpus(self) -> int:
        """GPUs of a batch."""
        return self.ulysses * self.ring


@dataclass(frozen=True)
class Canvas:
    """Output of one batch of a pipeline.

    Parameters
    ----------
    batch : int
        Prompts.
    height, width : int
        Size of a picture. [pixels]
    frames : int
        Pictures of a film; 1 for one picture.
    steps : int
        Steps of denoising.

    Raises
    ------
    BadInput
        If one is not a whole number in range.
    """

    batch: int = 1
    height: int = 1024
    width: int = 1024
    frames: int = 1
    steps: int = 28

    def __post_init__(self) -> None:
        for name in ("batch", "height", "width", "frames", "steps"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_PIXELS:
                raise BadInput(f"{name}: {value!r} is not a whole number between 1 and {_MOST_PIXELS}")


@dataclass(frozen=True)
class Stage:
    """A part of a pipeline: its rows on one GPU and how often a batch runs them."""

    name: str
    runs: float
    rows: list[Row] = field(repr=False)
