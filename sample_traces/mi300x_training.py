"""Forward steps of a small transformer on one MI300X, as rocprofv3 names them (grids in work-items)."""

from __future__ import annotations

from kernels import elementwise, gemm
from machine import MI300X
from timeline import Kernel, Span, Timeline


def _tensile(tile: str, wave_tile: str) -> str:
    return (
        f"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT{tile}_MI16x16x1_SN_LDSB0_AFC1_AFEM1_AFEM1_ASEM1_CLR1_"
        "CADS0_DTVA0_DTVB0_EPS0_FDSI0_GRPM1_GRVWA8_GRVWB8_GSUAMB_GLS0_ISA942_IU1_K1_LBSPPA1024_LBSPPB1024_"
        f"LPA16_LPB16_LRVW8_MIAV0_MIWT{wave_tile}_MO40_NTn1_NEPBS16_NLCA1_NLCB1_PGR2_PLR1_PKA1_SIA3_SS1_SPO0_"
        "SRVW0_SSO0_SVW8_TLDS1_USFGROn1_VWA8_VWB4_WSGRA0_WSGRB0_WG32_8_1.kd"
    )


def mi300x_training() -> Timeline:
    """Return twelve forward steps with idle time between them."""
    batch, length, hidden, inner, heads, width, layers = 8, 2048, 4096, 16384, 32, 128, 6
    rows = batch * length

    def linear(n: int, k: int) -> Kernel:
        return gemm(
            _tensile("256x256x64", "8_8"), rows, n, k, (256, 256, 64), 1, work_items=True, registers=256
        )

    norm = Kernel(
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, "
        "c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*) "
        "[clone .kd]",
        "vectorized_layer_norm_kernel",
        "norm",
        8.0 * rows * hidden,
        4.0 * rows * hidden,
        (rows, 1, 1),
        (64, 4, 1),
        40,
        24,
    )
    attention = Kernel(
        "attn_fwd.kd",
        "attn_fwd",
        "attention",
        2.0 * batch * heads * length * length * width,
        8.0 * rows * hidden,
        (length // 128, heads, batch),
        (256, 1, 1),
        256,
        0,
        32768,
    )

    def functor(text: str, arrays: int) -> str:
        return (
            f"void at::native::vectorized_elementwise_kernel<4, {text}, std::array<char*, {arrays}ul> >(int, {text}, "
            f"std::array<char*, {arrays}ul>) [clone .kd]"
        )

    gelu = elementwise(
        functor(
            "at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}::"
            "operator()() const::{lambda()#4}::operator()() const::{lambda(c10::BFloat16)#1}",
            2,
        ),
        "vectorized_elementwise_kernel",
        rows * inner,
        1,
        1,
        "",
        (),
    )
    add = elementwise(
        functor("at::native::CUDAFunctor_add<c10::BFloat16>", 3),
        "vectorized_elementwise_kernel",
        rows * hidden,
        2,
        1,
        "",
        (),
    )
    layer = [
        norm,
        linear(3 * hidden, hidden),
        attention,
        linear(hidden, hidden),
        add,
        norm,
        linear(inner, hidden),
        gelu,
        linear(hidden, inner),
        add,
    ]
    job = Timeline(MI300X, seed=20262)
    for step in range(12):
        begin = job.host_ns
        for _ in range(layers):
            job.run(layer)
        job.spans.append(Span(f"step {step}", begin, job.host_ns))
        job.pause(0.020)
    return job
