"""Linear attention and delta nets: the Triton kernels of flash-linear-attention, also as copied into servers.

``[fused_]{chunk|recurrent|parallel}_{rule}_{fwd|bwd}_kernel[_{output}]``; a delta rule by chunks runs several: products of keys
(``chunk_scaled_dot_kkt``), their triangular inverse (``solve_tril``, ``merge_16x16_to_64x64_inverse``), ``recompute_w_u``, states
(``chunk_.._h``) and outputs (``chunk_.._o``), beside prefix sums and gates.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import format_in
from tracetool.kernels.symbols import Symbol


def _step(match: re.Match[str], symbol: Symbol) -> Attributes:
    back = re.search(r"_(?:bwd|backward)(?:_|$)", symbol.head)
    return {"dtype": format_in(symbol.head), "direction": "bwd" if back else None}


GRAMMAR = Grammar(
    library="flash_linear_attention",
    title="linear attention and delta nets: flash-linear-attention, and its copies in vLLM, SGLang and AITER",
    source="fla-org/flash-linear-attention, fla/ops; ROCm/aiter, aiter/ops/triton/_triton_kernels/gated_delta_rule; flashinfer-ai/flashinfer, csrc/kda",
    gate=r"(?:^|_|:)(?:(?:fused_)?(?:chunk|chunkwise|recurrent)_|kda_|gdn2?_|gdr_|delta_rule|token_shift|mesa_net|parallel_(?:path|deltaformer|based|rebased|retention|simple_gla|delta))|_(?:kda|gdn2?|gdr)(?:_|$)|qkvzba|_kkt|_pkt_|wy_repr|_w_u_|^wu_fwd|solve_tril|x16_to_\d+x\d+_inverse|^(?:fused_)?addcmul_(?:fwd|bwd)|^swish_(?:fwd|bwd)",
    rules=(
        Rule(r"\w*(?:_kkt|_pkt|wy_repr|_w_u_|solve_tril|x16_to_\d+x\d+_inverse|householder)\w*|wu_(?:fwd|bwd)\w*", "ssm", "delta_rule", sign=_step),
        Rule(r"\w*chunk_(?:\w+_)?cumsum_(?:scalar|vector)\w*|\w*chunk_\w+_cumsum\w*", "scan", "cumsum", sign=_step),
        Rule(r"\w*(?:gdn2?|kda)_gat(?:e|ing)\w*", "elementwise", "gate", sign=_step),
        Rule(r"(?:fused_)?addcmul_(?:fwd|bwd)\w*", "elementwise", "pointwise", sign=_step),
        Rule(r"swish_(?:fwd|bwd)\w*", "elementwise", "pointwise", sign=_step),
        Rule(r"\w*qkvzba\w*", "copy", "cat", sign=_step),
        Rule(r"parallel_(?:path|deltaformer)_\w*(?:bwd|backward)\w*", "attention", "flash_bwd", sign=_step),
        Rule(r"parallel_(?:path|deltaformer)_\w*", "attention", "flash_fwd", sign=_step),
        Rule(r"parallel_(?:based|rebased|retention|simple_gla|delta)\w*", "ssm", "scan", sign=_step),
        Rule(r"_?(?:fused_|intra_)?(?:chunk|chunkwise|recurrent)_\w*(?:fwd|bwd|forward|backward|update|inference|kernel)\w*", "ssm", "scan", sign=_step),
        Rule(r"_?(?:\w+_)?(?:kda|gdn2?|gdr|delta_rule|mesa_net|token_shift)(?:_\w+|$)", "ssm", "scan", sign=_step),
    ),
    tokens=(
        Token(r"chunk\w*", "by chunks of the sequence, with a state between them"),
        Token(r"fused_recurrent\w*", "token by token, as in decode"),
        Token(r"\w*_kkt\w*|\w*_pkt\w*", "products of the keys of a chunk"),
        Token(r"solve_tril\w*|merge_\d+x\d+_to_\d+x\d+_inverse\w*", "triangular inverse of a chunk"),
        Token(r"\w*addcmul\w*", "each projection's own blend of a token with the one before it (RWKV)"),
        Token(r"\w*_w_u_\w*|\w*wy_repr\w*", "keys and values transformed by it"),
    ),
    examples={"chunk_scaled_dot_kkt_fwd_kernel": "ssm", "fused_recurrent_kda_fwd_kernel": "ssm", "chunk_local_cumsum_scalar_kernel": "scan", "fused_gdn_gating_kernel": "elementwise",
              "fused_addcmul_fwd_kernel": "elementwise", "swish_bwd_kernel": "elementwise"},
    rank=18,
)  # fmt: skip
