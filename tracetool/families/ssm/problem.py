"""State-space scans and recurrent cells: a state of N numbers per channel is carried along the sequence.

Recurrent cells state no shape and are priced by the family's usual shares of their measured duration.
"""

from __future__ import annotations

import numpy as np

from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import dtype_of, element_bytes
from tracetool.families.ssm.delta_net import delta_net_work, is_delta_net
from tracetool.families.ssm.mamba2 import is_mamba2, layers, mamba2_work
from tracetool.hardware.gpu import Gpu

#: Operations per number of the state and element: two products (step and transition, scaled input and its
#: projection), a multiply-add that updates the state and one that adds it to the output. [op] By definition
#: of the recurrence in :func:`scan_work`.
_PER_STATE = 6.0


#: Per element of the sequence: step times input, and the multiply-add of what passes by the state. [op] By
#: definition of the same recurrence.
_PER_ELEMENT = 3.0


def ssm_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of Mamba-2 layers, gated delta nets and selective scans."""
    mamba, delta = is_mamba2(rows), is_delta_net(rows)
    work = Work.of(len(rows))
    for chosen, count in (
        (mamba, lambda chosen_rows: mamba2_work(layers(chosen_rows))),
        (delta, delta_net_work),
        (~(mamba | delta), lambda chosen_rows: scan_work(chosen_rows, gpu)),
    ):
        places = np.flatnonzero(chosen)
        if places.size:
            work.put(places, count(rows.take(places)))
    return work


def scan_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    r"""Count the operations and bytes of selective scans.

    Sequences of ``elements`` = batch x length x channels, ``state`` numbers to a channel. Each step is [1]_

    .. math:: h \leftarrow e^{\Delta A} h + \Delta B u, \qquad y = C h + D u

    with one exponential per number of the state, O(elements x state) operations in all. The state stays on
    the chip: input and step sizes are read once, the output is written once (section 3.3.2).

    References
    ----------
    .. [1] Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023,
       arXiv:2312.00752, equations 2a, 2b and 4, algorithm 2.
    """
    del gpu
    elements, state = rows.number("elements"), rows.number("state")
    moved = (rows.number("reads", 2.0) + rows.number("writes", 1.0)) * elements
    moved = moved * element_bytes(dtype_of(rows), 2.0)
    flops = (_PER_STATE * state + _PER_ELEMENT) * elements
    return Work.of(
        len(rows),
        useful_flops=flops,
        fp32_flops=flops,
        sfu_ops=state * elements,
        int_ops=2.0 * elements,
        l2_bytes=moved,
        dram_bytes=moved,
    )
