"""Text generation on one A100 as the PyTorch profiler writes it: prompts read at once, tokens one by one."""

from __future__ import annotations

from math import ceil

from kernels import HALF, elementwise, gemm
from machine import A100
from timeline import Kernel, Span, Timeline


def _flash(rows: int, batch: int, heads: int, width: int) -> Kernel:
    length = rows // batch
    traits = (
        "Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::half_t, "
        "Flash_kernel_traits<128, 128, 64, 4, cutlass::half_t> >"
    )
    return Kernel(
        f"void pytorch_flash::flash_fwd_kernel<{traits}, false, true, false, false, false, true, false, false>"
        "(pytorch_flash::Flash_fwd_params)",
        "flash_fwd_kernel",
        "attention",
        2.0 * batch * heads * length * length * width,
        8.0 * rows * heads * width,
        (length // 128, batch, heads),
        (128, 1, 1),
        255,
        0,
        81920,
        "aten::_scaled_dot_product_flash_attention",
        ((batch, heads, length, width),) * 3 + ((), ()),
        (HALF, HALF, HALF, "Scalar", "Scalar"),
        ("", "", "", "0.", "True"),
    )


def _flash_decode(batch: int, heads: int, kept: int, width: int, splits: int) -> list[Kernel]:
    traits = (
        "Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::half_t, "
        "Flash_kernel_traits<128, 64, 128, 4, cutlass::half_t> >"
    )
    dims = ((batch, heads, 1, width), (batch, heads, kept, width), (batch, heads, kept, width), (), ())
    types = (HALF, HALF, HALF, "Scalar", "Scalar")
    concrete = ("", "", "", "0.", "False")
    operator = "aten::_scaled_dot_product_flash_attention"
    main = Kernel(
        f"void pytorch_flash::flash_fwd_splitkv_kernel<{traits}, false, false, false, false, true, true, false>"
        "(pytorch_flash::Flash_fwd_params)",
        "flash_fwd_splitkv_kernel",
        "attention_decode",
        4.0 * batch * heads * kept * width,
        4.0 * batch * heads * kept * width,
        (1, splits, batch * heads),
        (128, 1, 1),
        254,
        0,
        81920,
        operator,
        dims,
        types,
        concrete,
    )
    combine = Kernel(
        f"void pytorch_flash::flash_fwd_splitkv_combine_kernel<{traits}, 4, 2, true>(pytorch_flash::Flash_fwd_params)",
        "flash_fwd_splitkv_combine_kernel",
        "reduction",
        2.0 * splits * batch * heads * width,
        4.0 * (splits + 1) * batch * heads * width,
        (ceil(batch * heads / 4), 1, 1),
        (128, 1, 1),
        64,
        4352,
        0,
        operator,
        dims,
        types,
        concrete,
    )
    return [main, combine]


def _functor(functor: str, arrays: int) -> str:
    return (
        f"void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, {arrays}ul> >"
        f"(int, {functor}, std::array<char*, {arrays}ul>)"
    )


def _layer(rows: int, batch: int, hidden: int, inner: int, attention: list[Kernel]) -> list[Kernel]:
    shape = (batch, rows // batch, hidden)
    skinny = rows < 128
    if skinny:
        name, tile, stages, kind = "64x64_sliced1x2_ldg8_f2f_stages_64x5_tn", (64, 64, 64), 5, "gemm_skinny"
    else:
        name, tile, stages, kind = "128x256_ldg8_f2f_stages_64x3_tn", (128, 256, 64), 3, "gemm"
    name = f"ampere_fp16_s16816gemm_fp16_{name}"
    threads = 128 if skinny else 256

    def linear(n: int, k: int) -> Kernel:
        return gemm(
            name,
            rows,
            n,
            k,
            tile,
            stages,
            dtype=HALF,
            operator="aten::linear",
            threads=threads,
            registers=234,
            kind=kind,
        )

    norm = Kernel(
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::Half, float>(int, float, "
        "c10::Half const*, c10::Half const*, c10::Half const*, float*, float*, c10::Half*)",
        "vectorized_layer_norm_kernel",
        "norm",
        8.0 * rows * hidden,
        4.0 * rows * hidden,
        (rows, 1, 1),
        (32, 4, 1),
        38,
        24,
        0,
        "aten::native_layer_norm",
        (shape, (), (hidden,), (hidden,), ()),
        (HALF, "ScalarList", HALF, HALF, "Scalar"),
    )
    silu = elementwise(
        _functor(
            "at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}::operator()() "
            "const::{lambda()#5}::operator()() const::{lambda(c10::Half)#1}",
            2,
        ),
        "vectorized_elementwise_kernel",
        rows * inner,
        1,
        1,
        "aten::silu",
        ((*shape[:2], inner),),
        HALF,
    )
    add = elementwise(
        _functor("at::native::CUDAFunctor_add<c10::Half>", 3),
        "vectorized_elementwise_kernel",
        rows * hidden,
        2,
        1,
        "aten::add",
        (shape, shape, ()),
        HALF,
    )
    copy = elementwise(
        _functor(
            "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::"
            "{lambda()#10}::operator()() const::{lambda(c10::Half)#1}",
            2,
        ),
        "vectorized_elementwise_kernel",
        2 * rows * hidden,
        1,
        1,
        "aten::copy_",
        ((batch, rows // batch, 2 * hidden),) * 2,
        HALF,
        kind="copy",
    )
    return [
        norm,
        linear(3 * hidden, hidden),
        copy,
        *attention,
        linear(hidden, hidden),
        add,
        norm,
        linear(inner, hidden),
        silu,
        linear(hidden, inner),
        add,
    ]


def a100_generation() -> Timeline:
    """Return eighteen requests: a prompt of 32 sequences, then some tokens for each of them."""
    batch, length, hidden, inner, heads, width, words, layers = 32, 1024, 4096, 16384, 32, 128, 32000, 8
    job = Timeline(A100, seed=20261)
    prompt = _layer(batch * length, batch, hidden, inner, [_flash(batch * length, batch, heads, width)])
    for request in range(18):
        begin = job.host_ns
        for _ in range(layers):
            job.run(prompt)
        job.spans.append(Span("prefill", begin, job.host_ns))
        begin = job.host_ns
        for _ in range(3):
            token = _layer(batch, batch, hidden, inner, _flash_decode(batch, heads, length, width, splits=2))
            for _ in range(layers):
                job.run(token)
            job.run([_head(batch, words, hidden), _softmax(batch, words)])
        job.spans.append(Span("decode", begin, job.host_ns))
        job.pause((0.060, 0.140, 0.250)[request % 3])
    return job


def _head(batch: int, words: int, hidden: int) -> Kernel:
    return gemm(
        "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn",
        batch,
        words,
        hidden,
        (64, 64, 64),
        5,
        dtype=HALF,
        operator="aten::linear",
        threads=128,
        registers=234,
        kind="gemm_skinny",
    )


def _softmax(batch: int, words: int) -> Kernel:
    return Kernel(
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::Half, float, c10::Half, "
        "at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(c10::Half*, c10::Half const*, int)",
        "cunn_SoftMaxForward",
        "softmax",
        6.0 * batch * words,
        4.0 * batch * words,
        (batch, 1, 1),
        (1024, 1, 1),
        32,
        0,
        128,
        "aten::_softmax",
        ((batch, words), (), ()),
        (HALF, "Scalar", "Scalar"),
    )
