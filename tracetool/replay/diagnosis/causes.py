"""The closed list of causes that a run's energy is cut into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tracetool.replay.gap_causes import WORDS, Gap


@dataclass(frozen=True)
class Cause:
    """One cause.

    Parameters
    ----------
    name : str
        As tables name it.
    remedy : str
        What takes it away, in plain words.
    effort : str
        ``setting``, ``code``, ``numerics`` or ``system``: what has to be changed.
    model_error : float
        Half-width at 90 % of the share that the cause is given, relative to it; a prior. [1] Causes that
        the trace itself shows (copies, exposed communication, idle time by cause) have none: their intervals
        are those of ``summary``.
    """

    name: str
    remedy: str = ""
    effort: str = ""
    model_error: float = 0.0


USEFUL: Final = "useful"
COPIES: Final = "redundant copies"
HOST_COPIES: Final = "host copies"
CHAIN: Final = "unfused chain"
PRECISION: Final = "fp32 fallback"
MISALIGNED: Final = "misaligned product"
SLOW: Final = "slower than attainable"
BATCH: Final = "small batch"
PADDING: Final = "padding"
TAIL: Final = "tail"
FAST_CLOCK: Final = "oversized clock"
CAP: Final = "power cap"
THERMAL: Final = "thermal throttle"
LOW_CLOCK: Final = "low clock"
EXPOSED: Final = "exposed communication"
RANKS: Final = "waiting for ranks"
HOST: Final = WORDS[Gap.HOST]
SYNC: Final = WORDS[Gap.SYNC]
DEPENDENCY: Final = WORDS[Gap.DEPENDENCY]
IDLE: Final = WORDS[Gap.TAIL]
UNEXPLAINED: Final = WORDS[Gap.UNKNOWN]

#: Every cause, in the order in which each takes its share.
CAUSES: Final = (
    Cause(USEFUL),
    Cause(COPIES, "keep the layout that the next kernel reads", "code", 0.05),
    Cause(HOST_COPIES, "copy from pinned memory while kernels run", "code"),
    Cause(CHAIN, "fuse the chain into one kernel (a compiler does)", "code", 0.15),
    Cause(PRECISION, "run these products in bf16", "numerics", 0.25),
    Cause(MISALIGNED, "pad N and K to multiples of 8", "code", 0.2),
    Cause(SLOW, "another kernel for this shape", "code", 0.3),
    Cause(BATCH, "more rows to each pass over the weights", "setting", 0.15),
    Cause(PADDING, "sizes that fill the tiles", "setting", 0.05),
    Cause(TAIL, "sizes or tiles that fill whole waves", "setting", 0.2),
    Cause(FAST_CLOCK, "lock the clock of least energy", "setting", 0.25),
    Cause(CAP, "raise the power limit", "setting", 0.25),
    Cause(THERMAL, "cool the GPU", "system", 0.25),
    Cause(LOW_CLOCK, "lock the clock of least energy", "setting", 0.25),
    Cause(EXPOSED, "start communication while kernels still compute", "code"),
    Cause(RANKS, "even out the ranks", "system"),
    Cause(HOST, "launch as graphs (CUDA, HIP), or make the host faster", "code"),
    Cause(SYNC, "leave out the waits of the host", "code"),
    Cause(DEPENDENCY, "issue independent work beside it", "code"),
    Cause(IDLE, "give the GPU back, or feed it", "system"),
    Cause(UNEXPLAINED, "record what it waited for (host calls, other queues)", "setting"),
)
#: Causes recognized by when activities ran, not by what they are.
BY_TIMING: Final = (EXPOSED, RANKS, HOST, SYNC, DEPENDENCY, IDLE, UNEXPLAINED)
NAMES: Final = tuple(cause.name for cause in CAUSES)
PLACE: Final = {name: i for i, name in enumerate(NAMES)}


def cause(name: str) -> Cause:
    """Return a cause by its name.

    Examples
    --------
    >>> cause("tail").effort
    'setting'
    """
    return CAUSES[PLACE[name]]
