"""What-if questions: changes to a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tracetool.core.errors import BadInput

#: Half-width at 90 % of each saving, relative to it: what the model errs by in the change alone. [1] Priors.
ERRORS: Final = {
    "scale": 0.10, "drop": 0.05, "clock": 0.25, "power cap": 0.25, "precision": 0.25, "batch": 0.30,
    "fuse": 0.20, "overlap": 0.20, "host": 0.10, "without": 0.10,
}  # fmt: skip


@dataclass(frozen=True)
class WhatIf:
    """Changes to a run, all of them at once.

    Parameters
    ----------
    scale : mapping of str to float
        Factor on the time of every kernel of a family; its operations and bytes stay.
    drop : tuple of str
        Ranges left out with their kernels and host time.
    clock_mhz, power_cap_w : float, optional
        Core clock [MHz] and power cap [W].
    precision : str, optional
        Number format of matrix products that run in a wider one.
    batch : float, optional
        Factor on the rows of a step; energy is then per unit of work.
    fuse : tuple of (str, str)
        Families or name patterns of kernels: where the second follows the first, it runs within it.
    overlap : bool
        Communication runs beside computation wherever there is any.
    without : tuple of str
        Causes of the run's energy that are taken out.
    instant_host : bool
        The host takes no time of its own: it still waits for the device where it did.
    no_waits : bool
        The host waits for nothing: it runs ahead of the device.
    """

    scale: Mapping[str, float] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    clock_mhz: float | None = None
    power_cap_w: float | None = None
    precision: str | None = None
    batch: float | None = None
    fuse: tuple[tuple[str, str], ...] = ()
    overlap: bool = False
    without: tuple[str, ...] = ()
    instant_host: bool = False
    no_waits: bool = False

    def each(self) -> list[tuple[str, str, WhatIf]]:
        """Return each change alone: its kind, its description, and the question with it alone."""
        questions = [("scale", f"{k} x {v:g}", WhatIf(scale={k: v})) for k, v in self.scale.items()]
        questions += [("drop", f"without {name}", WhatIf(drop=(name,))) for name in self.drop]
        if self.clock_mhz is not None:
            questions.append(("clock", f"clock {self.clock_mhz:,.0f} MHz", WhatIf(clock_mhz=self.clock_mhz)))
        if self.power_cap_w is not None:
            questions.append(
                ("power cap", f"cap {self.power_cap_w:,.0f} W", WhatIf(power_cap_w=self.power_cap_w))
            )
        if self.precision is not None:
            questions.append(("precision", f"products in {self.precision}", WhatIf(precision=self.precision)))
        if self.batch is not None:
            questions.append(("batch", f"batch x {self.batch:g}", WhatIf(batch=self.batch)))
        questions += [("fuse", f"{a} with {b} fused", WhatIf(fuse=((a, b),))) for a, b in self.fuse]
        if self.overlap:
            questions.append(("overlap", "communication overlapped", WhatIf(overlap=True)))
        questions += [("without", f"without '{name}'", WhatIf(without=(name,))) for name in self.without]
        if self.instant_host:
            questions.append(("host", "a host that takes no time", WhatIf(instant_host=True)))
        if self.no_waits:
            questions.append(("host", "a host that does not wait", WhatIf(no_waits=True)))
        return questions


def parse_pairs(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of ``--fuse A,B``.

    Raises
    ------
    BadInput
        If one is not two names.

    Examples
    --------
    >>> parse_pairs(["norm,elementwise"])
    (('norm', 'elementwise'),)
    """
    pairs = []
    for text in texts:
        first, comma, second = (word.strip() for word in text.partition(","))
        if not (first and comma and second) or "," in second:
            raise BadInput(f"--fuse {text!r} is not two kinds of kernels", "e.g. --fuse norm,elementwise")
        pairs.append((first, second))
    return tuple(pairs)
