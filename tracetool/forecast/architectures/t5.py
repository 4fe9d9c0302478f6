"""Encoder-decoders: T5, mT5, UMT5 (Raffel et al., 2020), and Switch with experts (Fedus et al., 2022).

One pass encodes prompts and decodes as many target tokens, as training and scoring do; an encoder alone where
the configuration says so. Decoding token by token is not forecast.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracetool.core.errors import BadInput
from tracetool.forecast.architecture import Architecture
from tracetool.forecast.decoder import gated_mlp, plain_mlp
from tracetool.forecast.fields import Config
from tracetool.forecast.model import Layers, Model, Parallel
from tracetool.forecast.operator_rows import Row, elementwise, gemm, softmax
from tracetool.forecast.parts import AllReduce, Embedding, Linear, Norm, Part, divided
from tracetool.forecast.passes import Step
from tracetool.forecast.quantization import formats_of


@dataclass(frozen=True)
class BiasedAttention(Part):
    """Attention whose scores take a bias by distance, so that scores, softmax and values are kernels each.

    Parameters
    ----------
    heads, head_dim : int
        Heads, and the size of each.
    buckets : int
        Distances a layer learns a bias of; 0 where an earlier layer's are used.
    """

    heads: int
    head_dim: int
    buckets: int = 0

    def check(self, parallel: Parallel) -> None:
        """Raise BadInput where tensor parallelism does not divide the heads."""
        if self.heads % parallel.tp:
            raise BadInput(f"num_heads: {self.heads} heads are not divisible by tp={parallel.tp}")

    def rows(self, step: Step) -> list[Row]:
        """Return scores, bias, softmax and values of prompts."""
        forward, parallel = step.forward, step.parallel
        if not forward.prefill_requests:
            return []
        batch = max(step.prefill_requests, 1.0) * divided(self.heads, parallel.tp)
        keys, queries = forward.prefill_tokens, forward.prefill_tokens / parallel.cp
        return [
            gemm(f"{self.name}.scores", step.dtype, queries, keys, self.head_dim, batch),
            elementwise(f"{self.name}.position_bias", step.dtype, batch * queries * keys, reads=2.0),
            softmax(f"{self.name}.softmax", "fp32", batch * queries, keys),
            gemm(f"{self.name}.values", step.dtype, queries, self.head_dim, keys, batch),
        ]

    @property
    def parameters(self) -> float:
        """Biases by distance."""
        return float(self.buckets * self.heads)

    def weight_bytes(self, parallel: Parallel) -> float:
        """Return bytes of the biases on one GPU. [B]"""
        return 2.0 * self.parameters / parallel.tp


@dataclass(frozen=True)
class SwitchExperts(Part):
    """Experts without a gate, one for each token, run one after the other, and their router."""

    hidden: int
    intermediate: int
    experts: int

    def check(self, parallel: Parallel) -> None:
        """Raise BadInput where the experts are not divided."""
        if self.experts % parallel.ep:
            raise BadInput(f"num_experts: {self.experts} experts are not divisible by ep={parallel.ep}")
        if self.intermediate % parallel.expert_tp:
            raise BadInput(
                f"d_ff: {self.intermediate} is not divisible by the {parallel.expert_tp} GPUs of an expert"
            )

    def rows(self, step: Step) -> list[Row]:
        """Return router and choice, and for each local expert its products over an equal share of tokens."""
        parallel = step.parallel
        tokens, local = step.all_tokens, self.experts // parallel.ep
        columns, share = self.intermediate / parallel.expert_tp, tokens / self.experts
        each = [
            gemm(f"{self.name}.wi", step.dtype, share, columns, self.hidden),
            elementwise(f"{self.name}.act", step.dtype, share * columns),
            gemm(f"{self.name}.wo", step.dtype, share, self.hidden, columns),
            elementwise(f"{self.name}.gather", step.dtype, share * self.hidden, reads=2.0, writes=2.0),
        ]
        for row in each:
            row["count"] = float(local)
        return [
            gemm(f"{self.name}.router", "fp32", step.tokens, self.experts, self.hidden),
            softmax(f"{self.name}.top_1", "fp32", step.tokens, self.experts),
            *each,
            *AllReduce(self.name, self.hidden).rows(step),
        ]

    @property
    def parameters(self) -> float:
        """Weights of all experts and of the router."""
        return float(self.experts) * self.hidden * (2.0 * self.intermediate + 1.0)

    @property
    def active(self) -> float:
        """Weights of the expert a token is routed to, and of the router."""
        return float(self.hidden) * (2.0 * self.intermediate + self.experts)

    def weight_bytes(self, parallel: Parallel) -> float:
        """Return bytes of the experts on one GPU. [B]"""
        return 2.0 * self.parameters / (parallel.ep * parallel.expert_tp)


@dataclass(frozen=True)
class _Sizes:
    """Sizes common to all layers of a configuration."""

    hidden: int
    inner: int
    heads: int
    head_dim: int
    gated: bool
    experts: int
    buckets: int
    everywhere: bool  # every layer learns distances of its own

    def attention(self, name: str, buckets: int = 0) -> tuple[Part, ...]:
        """Return the norm and attention of a block, its projections products of their own."""
        units = ((self.heads, self.head_dim),)
        inputs = self.heads * self.head_dim
        return (
            Norm(f"{name}.layer_norm", self.hidden, residual=True),
            *(Linear(f"{name}.{part}", self.hidden, units, "outputs") for part in "qkv"),
            BiasedAttention(name, self.heads, self.head_dim, buckets),
            Linear(f"{name}.o", inputs, ((self.hidden, 1),), "inputs"),
            AllReduce(name, self.hidden),
        )

    def layer(self, *, first: bool, sparse: bool, crossed: bool) -> tuple[Part, ...]:
        """Return a layer; ``crossed``: it attends to the encoded prompt as well."""
        buckets = self.buckets if first or self.everywhere else 0
        feed: tuple[Part, ...]
        if sparse:
            feed = (SwitchExperts("mlp", self.hidden, self.inner, self.experts),)
        elif self.gated:
            feed = gated_mlp("mlp", self.hidden, self.inner, field="d_ff")
        else:
            feed = plain_mlp("mlp", self.hidden, self.inner, field="d_ff", bias=False)
        return (
            *self.attention("self_attn", buckets),
            *(self.attention("cross_attn") if crossed else ()),
            Norm("mlp.layer_norm", self.hidden, residual=True),
            *feed,
        )


def _stack(config: Config, sizes: _Sizes, kind: str, count: int) -> list[Layers]:
    """Return the layers of the encoder or the decoder, like ones together."""
    step = config.size(f"{kind}_sparse_step", default=2, least=0) if sizes.experts else 0
    layers: dict[tuple[bool, bool], int] = {}
    for place in range(count):
        key = (place == 0, step > 0 and (step == 1 or place % step == 1))
        layers[key] = layers.get(key, 0) + 1
    return [
        Layers(
            number,
            sizes.layer(first=first, sparse=sparse, crossed=kind == "decoder"),
            f"layers.{kind}.{'0' if first else 'experts' if sparse else '*'}",
        )
        for (first, sparse), number in layers.items()
    ]


def read(config: Config, name: str) -> Model:
    """Return the model."""
    switch = config.text("model_type") == "switch_transformers"
    style = config.text("feed_forward_proj", default="relu")
    sizes = _Sizes(
        hidden=config.size("d_model"),
        inner=config.size("d_ff"),
        heads=config.size("num_heads", most=100_000),
        head_dim=config.size("d_kv", default=64, most=100_000),
        gated=config.flag("is_gated_act", default="gated" in style),
        experts=config.size("num_experts", default=8, most=100_000) if switch else 0,
        buckets=config.size("relative_attention_num_buckets", default=32, most=100_000),
        everywhere=config.text("model_type") == "umt5",
    )
    layers, vocabulary = config.size("num_layers", most=2_000), config.size("vocab_size")
    groups = _stack(config, sizes, "encoder", layers)
    head: list[Part] = [Norm("encoder.norm", sizes.hidden, residual=True)]
    alone = any("EncoderModel" in text for text in config.texts("architectures", most=10))
    if not alone:
        groups += _stack(
            config, sizes, "decoder", config.size("num_decoder_layers", default=layers, most=2_000)
        )
        tied = config.flag("tie_word_embeddings", default=True)
        head += [
            Norm("decoder.norm", sizes.hidden, residual=True),
            Linear("predictions", sizes.hidden, ((vocabulary, 1),), "outputs", tied=tied),
        ]
    return Model.of(
        name, "t5", "encoder", groups, embedding=(Embedding("embed_tokens", vocabulary, sizes.hidden),),
        head=head, hidden=sizes.hidden, dtype=formats_of(config).base,
    )  # fmt: skip


ARCHITECTURE = Architecture(("t5", "mt5", "umt5", "switch_transformers"), read)
