"""Time of launches, and the time that a measuring loop adds to each operator: its start, that of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.access_pattern import of_a_trace
from tracetool.hardware.gpu import Gpu

#: From the first event of a loop to its first kernel: a call from Python and the launch of a graph. [us] A
#: fit, seen four times: products of vLLM on an H200 and of TensorRT-LLM on a B200 take 0.17 and 0.15 us more
#: in loops of 36 and 30 than in loops of hundreds; one kernel of an encoder, launched alone on a B200, takes
#: 0.5 us more in a loop of 6 than in one of 20; there whole ticks of 2.05 us leave 0.7 and 0.2 us in these.
LOOP_START_US: Final = 5.0
#: How much the time of an operator differs from one start to the next of a loop, relative standard deviation.
#: [1] A fit of how sharply the times of 12 tables of a B200 lie on its steps, from 10 to 160 us.
JITTER: Final = 0.007
#: How sharply whole steps give way to half of one where times are not known well enough. [1] A prior.
COUNTED_NORM: Final = 8.0
#: Operators that loops over attention time at once. [1] By definition of ai-dynamo/aiconfigurator,
#: ``collect_attn.py`` and ``collect_attn_encoder.py`` of vLLM and TensorRT-LLM, and of SGLang: the times of
#: tables are whole ticks of an event, 32 ns, divided by as many.
SHORT_LOOP, SGLANG_LOOP = 6.0, 20.0
#: Those that loops over products time at once, by library: vLLM and SGLang take six weights in each of six
#: graphs, TensorRT-LLM five. [1] By definition of ai-dynamo/aiconfigurator, ``collect_gemm.py`` of each.
PRODUCT_LOOPS: Final = {"vllm": 36.0, "sglang": 36.0, "trtllm": 30.0}
#: The same where weights have scales by blocks or 4 bits, of which vLLM takes one. [1] By definition as
#: above.
ONE_WEIGHT_LOOPS: Final = {**PRODUCT_LOOPS, "vllm": SHORT_LOOP}
#: Layers of experts where tokens fall by a power law: five of one graph, of ten graphs of SGLang. [1] By
#: definition of ai-dynamo/aiconfigurator, ``collect_moe.py`` of each.
EXPERT_LOOPS: Final = {"vllm": 5.0, "trtllm": 5.0, "sglang": 50.0}
#: Those of a loop over an unnamed library. [1] A prior: so many that the start is none of each.
LONG_LOOP = 1000.0

#: Of a graph that holds one operator, its start beside that of a kernel that follows another in a graph, and
#: of a kernel more in a graph. [us] Both a prior.
GRAPH_US, NEXT_US = 1.5, 2.0
#: Graphs of one operator that loops over TensorRT-LLM's state-space layers time at once. [1] By definition of
#: ai-dynamo/aiconfigurator, ``collect_gdn.py``: those over vLLM's and SGLang's hold ten operators each.
SCAN_LOOP = 10.0

#: Clock that times of launches are stated at. [MHz] By definition: the boost clock of an H100.
LAUNCH_MHZ: Final = 1980.0

#: What the start of its loop adds to each operator of a library's tables of attention.
SHORT: Final[dict[str, tuple[float, float]]] = {"loop_us": (1.0, LOOP_START_US / SHORT_LOOP)}
LONGER: Final[dict[str, tuple[float, float]]] = {"loop_us": (1.0, LOOP_START_US / SGLANG_LOOP)}


def launch_pace(gpu: Gpu) -> float:
    """Return the time of a GPU to launch and end a kernel, relative to one that boosts to 1980 MHz.

    What starts blocks runs at the GPU's own clock: under TensorRT-LLM an empty attention takes some 14000
    clocks on an A100 and on an L40S, 9.9 and 5.5 us.
    """
    return LAUNCH_MHZ / gpu.clock_boost_mhz


def _usual_loop(rows: OperatorColumns, unnamed: float, loops: Mapping[str, float] | None = None) -> Floats:
    """Return how many operators the loops of each row's library time at once, or ``unnamed``. (n,) [1]

    The loops are those over attention, or ``loops`` by library; of others infinitely many.
    """
    if "stack" not in rows.columns:
        return np.full(len(rows), unnamed)
    stack = rows.text("stack").astype(str)
    if loops is not None:
        of_library = [np.char.startswith(stack, library) for library in loops]
        return np.select(of_library, list(loops.values()), np.inf)
    timed = np.where(np.char.startswith(stack, "sglang"), SGLANG_LOOP, SHORT_LOOP)
    return np.where(stack == "", unnamed, timed)


def own_loop(rows: OperatorColumns, unnamed: float, loops: Mapping[str, float] | None = None) -> Floats:
    """Return how many operators the loop of each row timed at once, as it states or as usual. (n,) [1]

    Usual are the loops over attention, or ``loops`` by library.
    """
    usual = _usual_loop(rows, unnamed, loops)
    if "loop_operators" not in rows.columns:
        return usual
    stated = rows.number("loop_operators")
    return np.where(np.isnan(stated), usual, stated)


def loop_more_us(rows: OperatorColumns, loops: Mapping[str, float] | None = None) -> Floats | float:
    """Return the time a row's loop adds to an operator beyond its library's usual loop. (n,) or 0. [us]

    Coefficients hold the start of the loops that they were fitted to: those over attention, or ``loops`` by
    library. Rows may state how many operators their loop times at once, ``loop_operators``: those of a pass,
    an infinity.
    """
    if "loop_operators" not in rows.columns:
        return 0.0
    unnamed = SHORT_LOOP if loops is None else np.inf
    of_row, usual = own_loop(rows, unnamed, loops), _usual_loop(rows, unnamed, loops)
    return np.asarray(LOOP_START_US * (1.0 / of_row - 1.0 / usual))


def graph_steps_s(
    rows: OperatorColumns, gpu: Gpu, library: str = "", operators: float | None = None
) -> dict[str, Floats]:
    """Return those fields of :class:`tracetool.families.pieces.Pieces` that loops over graphs fill.

    Where a GPU begins graphs of one operator on steps, they take whole ones; an operator of a trace or of a
    pass is in no such loop. Only loops over ``library`` hold such graphs where one is named, ``operators`` of
    them, or as many as those over attention.
    """
    if gpu.graph_step_us <= 0.0:
        return {}
    alone = ~of_a_trace(rows)
    if library:
        alone = alone & np.char.startswith(rows.text("stack").astype(str), library)
    timed = own_loop(rows, LONG_LOOP)
    if operators is not None:
        timed = np.where(np.isfinite(timed), operators, timed)
    start_us = np.where(alone, LOOP_START_US / timed, 0.0)
    step_s = np.where(start_us > 0.0, gpu.graph_step_us * 1e-6, 0.0)
    return {"graph_step_s": step_s, "loop_s": start_us * 1e-6}


def on_steps(total_s: Floats, step_s: Floats, loop_s: Floats, vary: Floats) -> Floats:
    r"""Return the time of operators whose graphs begin on steps of the GPU. Shape of ``total_s``. [s]

    .. math:: t' = l + \left(1 - \frac{1}{n}\right) \left[ \frac{b}{s} \right] s + \frac{b}{n},
       \quad b = t - l

    of a loop over n operators whose start adds l to each: all but the last of them take whole steps s. Those
    are the nearest, as if what an operator waits were on average the usual start of a graph, which it hides.
    From start to start an operator varies, which rounds the corners (the sawtooth's Fourier series, each term
    damped). Steps are counted where ``vary``, by which half of such times are off [1], is less than a quarter
    of one, so that the median error is least.
    """
    begun = total_s - loop_s
    turn = 2.0 * np.pi * begun / step_s
    sharp = np.exp(-0.5 * (JITTER * turn) ** 2)
    to_nearest = -step_s / np.pi * np.arctan2(sharp * np.sin(turn), 1.0 + sharp * np.cos(turn))
    counted = 1.0 / (1.0 + (4.0 * vary * begun / step_s) ** COUNTED_NORM)
    return np.asarray(total_s + (1.0 - loop_s / (LOOP_START_US * 1e-6)) * counted * to_nearest)
