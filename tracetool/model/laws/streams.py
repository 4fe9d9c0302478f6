"""Streaming kernels: memory, or the vector pipes."""

from __future__ import annotations

from tracetool.families.count import count_work
from tracetool.hardware.gpu import Gpu
from tracetool.model.laws.law import Coefficient, Coefficients, Law
from tracetool.model.laws.simple import stream_pieces
from tracetool.model.pieces import Pieces
from tracetool.vocabulary.operators import OperatorColumns

_PRIORS = {
    "launch_us": Coefficient(2.0, 0.3, 60.0, "us"),  # start and end of a kernel
    "latency_clk": Coefficient(1500.0, 200.0, 8000.0, "clk"),  # first load to last store of one block
    "dram_reach": Coefficient(0.85, 0.4, 1.0, "1"),  # share of the memory's peak a stream reaches
    "overlap_norm": Coefficient(3.0, 1.0, 8.0, "1"),  # overlap of memory and pipes
}


def _parts(rows: OperatorColumns, gpu: Gpu, c: Coefficients) -> Pieces:
    work = count_work(rows, gpu)
    return stream_pieces(
        work,
        gpu,
        launch_us=c["launch_us"],
        latency_clk=c["latency_clk"],
        reach=c["dram_reach"],
        norm=c["overlap_norm"],
    )


STREAM = Law("stream", _parts, _PRIORS)
