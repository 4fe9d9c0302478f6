"""The runtimes' own kernels: ROCclr copies and fills, CUDA graph memory nodes, DRAM scrubbing."""

from __future__ import annotations

from tracetool.kernels.grammar import Grammar, Rule, Token

GRAMMAR = Grammar(
    library="runtime",
    title="copies and fills of the CUDA and ROCm runtimes",
    source="ROCm/clr, rocclr/device/blitcl.cpp; names in public traces",
    gate=r"__amd_rocclr|^Memcpy|^Memset|^\[CUDA mem|^CopyDeviceToDevice|^CopyHostTo|^CopyDeviceToHost|^FillBuffer|^memcpy|^memset|^hipMem|^copyBuffer|^fillBuffer|^MEMORY_COPY|^Marker|^__cuda_|^cudaGraph|^CopyDeviceTo",
    rules=(
        Rule(r"__amd_rocclr_(?:copyBuffer|copyImage)\w*", "copy", "copy"),
        Rule(r"__amd_rocclr_fill\w*|[Mm]emset\w*|[Ff]ill[Bb]uffer\w*", "copy", "fill"),
        Rule(r"__amd_rocclr_\w*", "other", "runtime"),
        Rule(r"[Mm]emcpy\w*|\[CUDA memcpy|hipMem\w*|Copy\w*To\w*|copyBuffer\w*|MEMORY_COPY\w*", "copy", "copy", where="text"),
        Rule(r"\[CUDA memset", "copy", "fill", where="text"),
        Rule(r"__cuda_|cudaGraph|Marker", "other", "runtime"),
    ),
    tokens=(
        Token(r"__amd_rocclr_\w+", "kernel of the ROCm runtime"),
        Token(r"HtoD|DtoH|DtoD|PtoP", "direction"),
        Token(r"Pageable|Pinned|Device", "kind of memory: pageable copies are slower"),
    ),
    examples={"__amd_rocclr_fillBufferAligned.kd": "copy", "Memcpy HtoD (Pinned -> Device)": "copy"},
    rank=5,
    gate_on="text",
)  # fmt: skip
