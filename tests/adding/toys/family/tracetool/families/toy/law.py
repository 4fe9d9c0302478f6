"""Toys: memory, or the FP32 pipe, behind one latency. The page is docs/families/streams.md."""

from __future__ import annotations

from tracetool.core.operators import OperatorColumns
from tracetool.families.coefficients import read_coefficients
from tracetool.families.law import Coefficients, Law
from tracetool.families.pieces import Pieces
from tracetool.families.streamed import stream_pieces
from tracetool.families.toy.problem import toy_work
from tracetool.hardware.gpu import Gpu


def _toy_pieces(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    return stream_pieces(
        toy_work(rows, gpu), gpu,
        launch_us=c["launch_us"], latency_clk=1000.0, efficiency=c["efficiency"], norm=3.0
    )


LAWS = (Law("toy", _toy_pieces, read_coefficients(__package__)["toy"]),)
