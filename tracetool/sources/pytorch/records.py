"""Records of a Chrome-trace document: typed events, and the fields beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec


class Args(msgspec.Struct, gc=False):
    """Fields of an event's arguments; an operator's lists are kept as the JSON they are."""

    device: Any = None
    context: Any = None
    stream: Any = None
    correlation: Any = None
    external: Any = msgspec.field(default=None, name="External id")
    external_old: Any = msgspec.field(default=None, name="external id")
    registers: Any = msgspec.field(default=None, name="registers per thread")
    shared: Any = msgspec.field(default=None, name="shared memory")
    grid: msgspec.Raw = msgspec.Raw(b"")
    block: msgspec.Raw = msgspec.Raw(b"")
    node: Any = msgspec.field(default=None, name="graph node id")
    bytes: Any = None
    dims: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input Dims")
    dims_old: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input dims")
    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Input type")
    concrete: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Concrete Inputs")
    sequence: Any = msgspec.field(default=None, name="Sequence number")
    record_function: Any = msgspec.field(default=None, name="Record function id")
    group_name: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Process Group Name")
    group_ranks: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="Process Group Ranks")
    collective_sequence: Any = msgspec.field(default=None, name="Seq")
    group_size: Any = msgspec.field(default=None, name="Group size")
    sent_elements: Any = msgspec.field(default=None, name="In msg nelems")
    received_elements: Any = msgspec.field(default=None, name="Out msg nelems")
    message_dtype: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="dtype")


NO_ARGS = Args()


class BareEvent(msgspec.Struct, gc=False):
    """One event without its arguments. Any type is let through, so that one odd event spoils nothing else."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    id: Any = None


class Event(BareEvent, gc=False):
    """One event."""

    args: Any = None


class RawEvent(Event, gc=False):
    """An event whose arguments are left as they are."""

    args: msgspec.Raw = msgspec.Raw(b"null")


class ProfilerEvent(Event, gc=False):
    """An event of PyTorch's profiler, its arguments read at once."""

    args: Args | None = None


E = TypeVar("E", bound=Event)


class ExactTimes(msgspec.Struct, gc=False):
    """The digits of an event's times, for those beyond a double."""

    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"null")


class ExactTail(msgspec.Struct):
    """The end of a document, its events as their times alone."""

    events: list[ExactTimes] = msgspec.field(default_factory=list, name="traceEvents")


class Header(msgspec.Struct):
    """Fields beside the events. Names of users, hosts and jobs are not read."""

    schema: Any = msgspec.field(default=None, name="schemaVersion")
    devices: Any = msgspec.field(default=None, name="deviceProperties")
    base_ns: Any = msgspec.field(default=None, name="baseTimeNanoseconds")
    distributed: Any = msgspec.field(default=None, name="distributedInfo")
    record_shapes: Any = None
    cuda_runtime_version: Any = None
    cupti_version: Any = None
    roctracer_version: Any = None
    hip_runtime_version: Any = None
    rocprofiler_version: Any = None

    def update(self, other: Header) -> None:
        """Take over what the other states."""
        for name in self.__struct_fields__:
            if getattr(self, name) is None:
                setattr(self, name, getattr(other, name))


class Tail(Header, Generic[E]):
    """The end of a document: its last events, and the fields after them."""

    events: list[E] = msgspec.field(default_factory=list, name="traceEvents")


@dataclass
class Chunk:
    """Events of one stretch of the file, with its bytes."""

    first: int
    events: list[Event]
    raw: bytes
    #: Entries that are not objects: (event number, what it is).
    odd: list[tuple[int, str]] = field(default_factory=list)
