"""A model as the forecast prices it: operators of a pass, weights and what requests keep."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tracetool.core.errors import BadInput
from tracetool.forecast.graph import Graph
from tracetool.forecast.operator_rows import Row
from tracetool.forecast.parts import Part
from tracetool.forecast.passes import Forward, Parallel, Step
from tracetool.forecast.pipeline_output import Canvas, SequenceRanks, Stage
from tracetool.forecast.stage_sends import Sends, served_sends
from tracetool.forecast.training_operators import TrainingPlan
from tracetool.forecast.transformers_eager import Prompt

__all__ = [
    "Canvas",
    "Forward",
    "Layers",
    "Model",
    "Parallel",
    "Prompt",
    "Row",
    "SequenceRanks",
    "Stage",
    "TrainingPlan",
    "grouped",
]


@dataclass(frozen=True)
class Layers:
    """Equal layers: how many, parts in order, module, whether all share one set of weights."""

    count: int
    parts: tuple[Part, ...]
    name: str = "layers.*"
    shared: bool = False

    @property
    def sets(self) -> int:
        """Sets of weights."""
        return 1 if self.shared else self.count


def grouped(layers: Iterable[tuple[Part, ...]]) -> tuple[Layers, ...]:
    """Return layers in order, like ones together: ``layers.*`` the most common, others by number."""
    first: dict[tuple[Part, ...], int] = {}
    counts: Counter[tuple[Part, ...]] = Counter()
    for place, parts in enumerate(layers):
        first.setdefault(parts, place)
        counts[parts] += 1
    most = max(counts, key=lambda parts: counts[parts])
    return tuple(
        Layers(counts[parts], parts, "layers.*" if parts == most else f"layers.{place}")
        for parts, place in first.items()
    )


@dataclass(frozen=True)
class Model:
    """A model read from its configuration.

    Parameters
    ----------
    name, architecture : str
        Its name, and the registry's entry that read it.
    kind : str
        ``language``, ``encoder``, ``vision`` or ``diffusion``.
    parameters, active_parameters : float
        Unique weights; weights one token uses.
    layers : int
        Layers a pass runs.
    embedding, groups, head
        What runs before the layers, the layers, and what runs after them.
    hidden : int
        Numbers of a token between layers.
    dtype : str
        Number format of activations.
    tower_parameters : float
        Of the weights, those of towers of pictures and sound.
    eager : callable, optional
        Adds the operators of a batch of prompts as the transformers library runs them.
    most_tokens : float
        Tokens of a request its configuration states positions for. [tokens]
    unused_format : str
        Number format its configuration states of which no module of it takes any; empty for none.
    asked_as : str
        Name it was asked for by, where it is another one; empty for its own.
    """

    name: str
    architecture: str
    kind: str
    parameters: float
    active_parameters: float
    layers: int
    embedding: tuple[Part, ...]
    groups: tuple[Layers, ...]
    head: tuple[Part, ...]
    hidden: int
    dtype: str = "bf16"
    tower_parameters: float = 0.0
    eager: Callable[[Graph, Prompt], None] | None = field(default=None, repr=False, compare=False)
    most_tokens: float = math.inf
    unused_format: str = ""
    asked_as: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        architecture: str,
        kind: str,
        groups: Sequence[Layers],
        *,
        embedding: Iterable[Part] = (),
        head: Iterable[Part] = (),
        hidden: int,
        dtype: str = "bf16",
    ) -> Model:
        """Return a model with its weights counted."""
        before, after = tuple(embedding), tuple(head)
        ends = sum(p.parameters for p in (*before, *after))
        active_ends = sum(p.active for p in (*before, *after))
        layer_weights = sum(g.sets * sum(p.parameters for p in g.parts) for g in groups)
        active = sum(g.sets * sum(p.active for p in g.parts) for g in groups)
        layers = sum(g.count for g in groups)
        return cls(
            name, architecture, kind, ends + layer_weights, active_ends + active, layers,
            before, tuple(groups), after, hidden, dtype,
        )  # fmt: skip

    def with_towers(self, parameters: float) -> Model:
        """Return the model with the weights of towers that no pass of text runs."""
        return replace(self, parameters=self.parameters + parameters, tower_parameters=parameters)

    def check(self, parallel: Parallel) -> None:
        """Raise BadInput, naming the field, where a division does not fit the model."""
        if parallel.pp > self.layers:
            raise BadInput(f"num_hidden_layers: {self.layers} layers are fewer than pp={parallel.pp} stages")
        for part in self._every_part():
            part.check(parallel)

    def holds(self, dtype: str) -> bool:
        """Return whether a part has weights in a number format."""
        return dtype in self.product_formats

    @property
    def product_formats(self) -> frozenset[str]:
        """Number formats of its products."""
        return frozenset(str(part.dtype) for part in self._every_part() if hasattr(part, "dtype"))

    @property
    def cache_formats(self) -> frozenset[str]:
        """Number formats of the keys and values requests keep; none where they keep none."""
        return frozenset(part.cache_dtype for part in self._every_part() if part.cache_dtype)

    def with_cache(self, dtype: str) -> Model:
        """Return the model with the keys and values that requests keep in a number format."""
        groups = (replace(g, parts=tuple(part.with_cache(dtype) for part in g.parts)) for g in self.groups)
        return replace(self, groups=tuple(groups))

    def _every_part(self) -> Iterable[Part]:
        yield from self.embedding
        for group in self.groups:
            yield from group.parts
        yield from self.head

    def _stage_share(self, parallel: Parallel) -> float:
        """Share of the layers that the stage with most of them runs."""
        return math.ceil(self.layers / parallel.pp) / self.layers

    def operators(self, forward: Forward, parallel: Parallel, sends: Sends = served_sends) -> list[Row]:
        """Return the rows one GPU runs for a pass, in order, each with ``count`` and ``module``.

        With pipeline stages, those of the stage with most layers, first and last stage's ends included, and
        what a stage ``sends`` to the next.

        Raises
        ------
        BadInput
            If the division does not fit the model.
        """
        self.check(parallel)
        step = Step(forward, parallel, self.dtype)
        if not forward.tokens:
            return []
        rows = [row for part in self.embedding for row in part.rows(step)]
        share = self._stage_share(parallel)
        for group in self.groups:
            for part in group.parts:
                for row in part.rows(step):
                    row["module"] = f"{group.name}.{row['module']}"
                    row["count"] = float(row["count"]) * group.count * share
                    rows.append(row)
        if parallel.pp > 1:
            rows += sends(step.tokens * self.hidden * 2.0, parallel)
        rows += [row for part in self.head for row in part.rows(step)]
        return rows

    def pipeline(self, canvas: Canvas, ranks: SequenceRanks | None = None) -> tuple[Stage, ...]:  # noqa: ARG002
        """Raise BadInput: only diffusion pipelines make pictures."""
        raise BadInput(
            f"{self.name} is no diffusion pipeline", "forecast it with --mode prefill, decode or serve"
        )

    def eager_operators(self, prompt: Prompt) -> list[Row]:
        """Return the rows of a batch of prompts on one GPU as the transformers library runs them, in order.

        Raises
        ------
        BadInput
            If its architecture is not written down for that library.
        """
        if self.eager is None:
            raise BadInput(
                f"{self.name}: how transformers runs {self.architecture} is not known", "use --stack vllm"
            )
        graph = Graph(self.dtype)
        self.eager(graph, prompt)
        return graph.rows

    def weight_bytes(self, parallel: Parallel) -> float:
        """Return bytes of weights on the GPU with most of them. [B]"""
        before, after = (sum(p.weight_bytes(parallel) for p in end) for end in (self.embedding, self.head))
        before += 2.0 * self.tower_parameters / parallel.tp
        ends = max(before, after) if parallel.pp > 1 else before + after
        layers = sum(g.sets * sum(p.weight_bytes(parallel) for p in g.parts) for g in self.groups)
        return layers * self._stage_share(parallel) + ends

    def kv_bytes_per_token(self, parallel: Parallel) -> float:
        """Return bytes one GPU keeps for each token of a request. [B]"""
        return self._layer_sum(parallel, Part.kv_bytes.__name__)

    def state_bytes_per_request(self, parallel: Parallel) -> float:
        """Return bytes one GPU keeps for each request however long: states, and windows filled. [B]"""
        return self._layer_sum(parallel, Part.state_bytes.__name__)

    def _layer_sum(self, parallel: Parallel, quantity: str) -> float:
        total = sum(g.count * sum(getattr(p, quantity)(parallel) for p in g.parts) for g in self.groups)
        return float(total) * self._stage_share(parallel)
