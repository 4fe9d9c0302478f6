"""What a loop that measures operators adds to each: its own start, and that of a graph."""

from __future__ import annotations

from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns

#: From the first event of a loop to its first kernel: a call from Python and the launch of a graph. [us] A
#: fit, told four times: products of vLLM on an H200 and of TensorRT-LLM on a B200 take 0.17 and 0.15 us more
#: in loops of 36 and 30 than in loops of hundreds; one kernel of an encoder, launched alone on a B200, takes
#: 0.5 us more in a loop of 6 than in one of 20; there whole ticks of 2.05 us leave 0.7 and 0.2 us in these.
LOOP_START_US: Final = 5.0
#: Operators that loops over attention time at once. [1] By definition of ai-dynamo/aiconfigurator,
#: ``collect_attn.py`` and ``collect_attn_encoder.py`` of vLLM and TensorRT-LLM, and of SGLang: the times of
#: tables are whole ticks of an event, 32 ns, divided by as many.
SHORT_LOOP, SGLANG_LOOP = 6.0, 20.0

#: Of a graph that holds one operator, its start beside that of a kernel that follows another in a graph, and
#: of a kernel more in a graph. [us] Both a prior.
GRAPH_US, NEXT_US = 1.5, 2.0
#: Graphs of one operator that loops over TensorRT-LLM's state-space layers time at once. [1] By definition of
#: ai-dynamo/aiconfigurator, ``collect_gdn.py``: those over vLLM's and SGLang's hold ten operators each.
SCAN_LOOP = 10.0

#: What the start of its loop adds to each operator of a library's tables of attention.
SHORT: Final[dict[str, tuple[float, float]]] = {"loop_us": (1.0, LOOP_START_US / SHORT_LOOP)}
LONGER: Final[dict[str, tuple[float, float]]] = {"loop_us": (1.0, LOOP_START_US / SGLANG_LOOP)}


def loop_more_us(rows: OperatorColumns) -> Floats | float:
    """Return what a row's loop adds to an operator beyond the usual loop of its library. (n,) or 0. [us]

    Coefficients hold the start of the loops that they were fitted to.
    """
    if "loop_operators" not in rows.columns:
        return 0.0
    own = np.full(len(rows), SHORT_LOOP)
    if "stack" in rows.columns:
        own = np.where(np.char.startswith(rows.text("stack").astype(str), "sglang"), SGLANG_LOOP, own)
    timed = rows.number("loop_operators")
    timed = np.where(np.isfinite(timed), timed, own)
    return np.asarray(LOOP_START_US * (1.0 / timed - 1.0 / own))
