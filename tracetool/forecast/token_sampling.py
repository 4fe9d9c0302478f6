"""The choice of the next token from its logits, as a part after the layers."""

from __future__ import annotations

from dataclasses import dataclass

from tracetool.core.dtype import BYTES
from tracetool.forecast.operator_rows import Row, collective, elementwise, softmax
from tracetool.forecast.parts import Part
from tracetool.forecast.passes import Step


@dataclass(frozen=True)
class Logits(Part):
    """The choice of the next token: logits to one GPU, penalties, temperature, softmax, draw."""

    vocabulary: int

    def rows(self, step: Step) -> list[Row]:
        """Return gather, conversion to fp32, penalties, temperature, softmax, and the draw.

        A draw divides probabilities by exponentials and takes the largest (vLLM ``sample/ops``).
        """
        elements = step.logit_rows * self.vocabulary
        rows = []
        if step.parallel.tp > 1:
            message = elements * BYTES[step.dtype]
            rows.append(collective(f"{self.name}.all_gather", "all_gather", message, step.parallel.tp))
        return [
            *rows,
            elementwise(f"{self.name}.float", "fp32", elements, reads=0.5),
            elementwise(f"{self.name}.penalties", "fp32", elements, reads=2.0),
            elementwise(f"{self.name}.temperature", "fp32", elements),
            softmax(f"{self.name}.softmax", "fp32", step.logit_rows, self.vocabulary),
            elementwise(f"{self.name}.exponentials", "fp32", elements, reads=0.0),
            elementwise(f"{self.name}.draw", "fp32", elements, reads=2.0),
            elementwise(f"{self.name}.largest", "fp32", elements, writes=0.0),
        ]
