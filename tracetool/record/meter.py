"""Interface of a vendor's library to record from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

#: Column of the power log to its value; absent or None where the GPU does not report it.
Values = Mapping[str, int | str | None]


class MeterLost(Exception):  # noqa: N818 - reads as what happened
    """The library no longer answers for a GPU that it answered for before."""


@dataclass(frozen=True)
class Device:
    """One GPU that can be read."""

    index: int
    name: str
    uuid: str
    bus: str
    limit_mw: int | None = None
    fields: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


class Meter(Protocol):
    """Readings of every GPU of one vendor."""

    vendor: str
    library: str
    driver: str

    def open(self) -> Sequence[Device]:
        """Load the library and return its GPUs.

        Raises
        ------
        MissingPart
            If the library or its GPUs are absent.
        """

    def read_power(self, index: int) -> Values:
        """Return power and energy of one GPU: the quick read whose duration is logged.

        Raises
        ------
        MeterLost
            If the GPU does not answer.
        """

    def read_state(self, index: int) -> Values:
        """Return clocks, temperature, utilization, limit and throttle reasons of one GPU.

        Raises
        ------
        MeterLost
            If the GPU does not answer.
        """

    def close(self) -> None:
        """Release the library; never fails."""
