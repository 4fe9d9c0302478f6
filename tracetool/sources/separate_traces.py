"""Traces of other times read into one run: the time between them would count as idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tracetool.sources.clocks import Source

#: Time without work between two traces from which they are no one job's, and its least share of the time of
#: all of them. [ns] and [1] Both a prior: ranks and restarts of a job lie minutes apart.
_APART_NS: Final = 600 * 10**9
_APART_SHARE: Final = 10.0
_UNITS: Final = ((86_400e9, "days"), (3_600e9, "hours"), (60e9, "minutes"))


def far_apart(sources: Sequence[Source], entries: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence on traces so far apart that the run is mostly the time between them.

    Parameters
    ----------
    sources : sequence of Source
        Their activities count [ns], those of one source as one span.
    entries : sequence of dict
        The alignment of each: only sources ``placed`` on the run's clock are compared.
    """
    spans = sorted(
        (int(ran["start_ns"].min()), int((ran["start_ns"] + ran["duration_ns"]).max()), source.path.name)  # type: ignore[arg-type]
        for source, entry in zip(sources, entries, strict=True)
        if entry["placed"] and (ran := source.trace.activities).height
    )
    most = max(_APART_NS, _APART_SHARE * sum(last - first for first, last, _ in spans))
    sentences = []
    for place in range(1, len(spans)):
        _, end, before = max(spans[:place], key=lambda span: span[1])
        begin, _, name = spans[place]
        if begin - end > most:
            size, unit = next((s, u) for s, u in _UNITS if begin - end >= s)
            sentences.append(
                f"{before} and {name} lie {(begin - end) / size:.1f} {unit} apart, which count as idle: "
                "ingest each into a run of its own"
            )
    return sentences
