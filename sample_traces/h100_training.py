"""A small transformer's training on one H100, named as Nsight Systems names it."""

from __future__ import annotations

from math import ceil

from kernels import BF16, FLOAT, elementwise, gemm
from machine import H100
from timeline import Kernel, Span, Timeline


def _vectorized(functor: str, arrays: int) -> str:
    return (
        f"void at::native::vectorized_elementwise_kernel<(int)4, {functor}, "
        f"std::array<char *, (unsigned long){arrays}>>(int, T2, T3)"
    )


def _lambda(kernel: str, dtype: str, nested: str = "(instance 2)") -> str:
    return (
        f"at::native::{kernel}(at::TensorIteratorBase &, at::native::GeluType)::[lambda() {nested}]::operator ()() "
        f"const::[lambda() (instance 4)]::operator ()() const::[lambda({dtype}) (instance 1)]"
    )


def h100_training() -> Timeline:
    """Return 52 training and 4 evaluation steps with data-loader stalls and four checkpoints."""
    batch, length, hidden, inner, heads, width, words, layers = 8, 2048, 4096, 16384, 32, 128, 32000, 4
    rows = batch * length
    sms = H100.sm_count

    def linear(name: str, m: int, n: int, k: int) -> Kernel:
        return gemm(f"nvjet_tst_{name}", m, n, k, (128, 256, 64), 4, persistent=sms, threads=384)

    forward_name, dgrad, wgrad = (
        "128x256_64x4_1x2_h_bz_coopA_TNT",
        "128x256_64x4_2x1_v_bz_coopA_NNT",
        "128x256_64x4_2x1_v_bz_coopB_NTT",
    )
    qkv, proj = linear(forward_name, rows, 3 * hidden, hidden), linear(forward_name, rows, hidden, hidden)
    up, down = linear(forward_name, rows, inner, hidden), linear(forward_name, rows, hidden, inner)
    head = linear(forward_name, rows, words, hidden)
    traits = (
        "Flash_fwd_kernel_traits<(int)128, (int)128, (int)64, (int)4, (bool)0, (bool)0, cutlass::bfloat16_t, "
        "Flash_kernel_traits<(int)128, (int)128, (int)64, (int)4, cutlass::bfloat16_t>>"
    )
    flops = 2.0 * 2.0 * batch * heads * length * length * width / 2  # causal
    qkv_dims = ((batch, heads, length, width),) * 3 + ((), ())
    qkv_types = (BF16, BF16, BF16, "Scalar", "Scalar")
    attention = Kernel(
        f"void pytorch_flash::flash_fwd_kernel<{traits}, (bool)0, (bool)1, (bool)0, (bool)0, (bool)0, (bool)1, "
        "(bool)0, (bool)0>(pytorch_flash::Flash_fwd_params)",
        "flash_fwd_kernel",
        "attention",
        flops,
        4.0 * 2 * rows * hidden,
        (length // 128, batch, heads),
        (128, 1, 1),
        255,
        0,
        81920,
        "aten::_scaled_dot_product_flash_attention",
        qkv_dims,
        qkv_types,
        ("", "", "", "0.", "True"),
    )
    backward_traits = (
        "Flash_bwd_kernel_traits<(int)128, (int)64, (int)128, (int)8, (int)2, (int)4, (int)2, (bool)0, (bool)0, "
        "cutlass::bfloat16_t, Flash_kernel_traits<(int)128, (int)64, (int)128, (int)8, cutlass::bfloat16_t>>"
    )
    attention_dot = Kernel(
        f"void pytorch_flash::flash_bwd_dot_do_o_kernel<(bool)1, {backward_traits}>(pytorch_flash::Flash_bwd_params)",
        "flash_bwd_dot_do_o_kernel",
        "reduction",
        2.0 * rows * hidden,
        2.0 * 2 * rows * hidden,
        (length // 64, batch, heads),
        (256, 1, 1),
        64,
        0,
        0,
        "aten::_scaled_dot_product_flash_attention_backward",
        ((batch, heads, length, width),) * 5,
        (BF16,) * 5,
    )
    attention_backward = Kernel(
        f"void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<{backward_traits}, (bool)0, (bool)1, "
        "(bool)0, (bool)0, (bool)0, (bool)1, (bool)0>(pytorch_flash::Flash_bwd_params)",
        "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel",
        "attention_backward",
        2.5 * flops,
        8.0 * 2 * rows * hidden,
        (length // 128, batch, heads),
        (256, 1, 1),
        255,
        0,
        147456,
        "aten::_scaled_dot_product_flash_attention_backward",
        ((batch, heads, length, width),) * 5,
        (BF16,) * 5,
    )
    wide, tall = (batch, length, hidden), (batch, length, inner)
    norm = Kernel(
        "void at::native::<unnamed>::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, T2, const T1 *, "
        "const T1 *, const T1 *, T2 *, T2 *, T1 *)",
        "vectorized_layer_norm_kernel",
        "norm",
        8.0 * rows * hidden,
        2.0 * 2 * rows * hidden,
        (rows, 1, 1),
        (32, 4, 1),
        38,
        24,
        0,
        "aten::native_layer_norm",
        (wide, (), (hidden,), (hidden,), ()),
        (BF16, "ScalarList", BF16, BF16, "Scalar"),
    )
    norm_backward = Kernel(
        "void at::native::<unnamed>::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>(const T1 *, "
        "const T1 *, const T2 *, const T2 *, const T1 *, T1 *, int)",
        "layer_norm_grad_input_kernel_vectorized",
        "norm",
        12.0 * rows * hidden,
        3.0 * 2 * rows * hidden,
        (rows, 1, 1),
        (128, 1, 1),
        48,
        128,
        0,
        "aten::native_layer_norm_backward",
        (wide, wide, ()),
        (BF16, BF16, "ScalarList"),
    )
    gelu = elementwise(
        _vectorized(_lambda("GeluCUDAKernelImpl", BF16), 2),
        "vectorized_elementwise_kernel",
        rows * inner,
        1,
        1,
        "aten::gelu",
        (tall,),
    )
    gelu_backward = elementwise(
        _vectorized(_lambda("GeluBackwardCUDAKernelImpl", f"{BF16}, {BF16}"), 3),
        "vectorized_elementwise_kernel",
        rows * inner,
        2,
        1,
        "aten::gelu_backward",
        (tall, tall),
    )
    add = elementwise(
        _vectorized("at::native::CUDAFunctor_add<c10::BFloat16>", 3),
        "vectorized_elementwise_kernel",
        rows * hidden,
        2,
        1,
        "aten::add",
        (wide, wide, ()),
    )
    softmax_name = (
        "void at::native::<unnamed>::{0}<(int)8, c10::BFloat16, float, {1}, at::native::<unnamed>::{2}>({3})"
    )
    log_softmax = Kernel(
        softmax_name.format(
            "cunn_SoftMaxForward", "float", "LogSoftMaxForwardEpilogue", "T4 *, const T2 *, int"
        ),
        "cunn_SoftMaxForward",
        "softmax",
        6.0 * rows * words,
        6.0 * rows * words,
        (rows, 1, 1),
        (1024, 1, 1),
        32,
        0,
        128,
        "aten::_log_softmax",
        ((rows, words), (), ()),
        (BF16, "Scalar", "Scalar"),
    )
    softmax_backward = Kernel(
        softmax_name.format(
            "cunn_SoftMaxBackward",
            "float",
            "LogSoftMaxBackwardEpilogue",
            "T2 *, const T4 *, const T4 *, long",
        ),
        "cunn_SoftMaxBackward",
        "softmax",
        6.0 * rows * words,
        10.0 * rows * words,
        (rows, 1, 1),
        (1024, 1, 1),
        40,
        0,
        128,
        "aten::_log_softmax_backward_data",
        ((rows, words), (rows, words), (), ()),
        (FLOAT, FLOAT, "Scalar", "Scalar"),
    )
    embedding = Kernel(
        "void at::native::<unnamed>::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, (int)2, (int)2, "
        "(int)-2, (bool)1>(at::cuda::detail::TensorInfo<T1, T3>, at::cuda::detail::TensorInfo<const T1, T3>, "
        "at::cuda::detail::TensorInfo<const T2, T3>, int, int, T3, T3, long)",
        "indexSelectLargeIndex",
        "gather",
        0.0,
        2.0 * 2 * rows * hidden,
        (1056, 1, 1),
        (128, 1, 1),
        40,
        0,
        0,
        "aten::embedding",
        ((words, hidden), (batch, length), (), (), ()),
        (BF16, "long int", "Scalar", "", ""),
    )
    chunk = 320 * 65536  # elements one launch of a fused optimizer takes
    parameters = layers * (4 * hidden * hidden + 2 * hidden * inner) + words * hidden
    adam = Kernel(
        "void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::<unnamed>::"
        "FusedOptimizerTensorListMetadata<(int)4>, at::native::<unnamed>::FusedAdamMathFunctor<float, (int)4, "
        "(at::native::ADAM_MODE)1, (bool)0>, const float *, double, double, double, double, double, bool, "
        "const float *, const float *>(T1, T2, T3...)",
        "multi_tensor_apply_kernel",
        "optimizer",
        14.0 * chunk,
        28.0 * chunk,
        (320, 1, 1),
        (512, 1, 1),
        64,
        0,
        0,
        "aten::_fused_adamw_",
        (),
        (),
    )
    token_copy = Kernel(
        "[CUDA memcpy HtoD]",
        "",
        "memcpy",
        0.0,
        8.0 * rows,
        (0, 0, 0),
        (0, 0, 0),
        0,
        copy_kind="HtoD",
        operator="aten::copy_",
        dims=((batch, length),) * 2,
        types=("long int",) * 2,
    )
    checkpoint = Kernel(
        "[CUDA memcpy DtoH]",
        "",
        "memcpy",
        0.0,
        2.0 * hidden * inner,
        (0, 0, 0),
        (0, 0, 0),
        0,
        copy_kind="DtoH",
        operator="aten::copy_",
        dims=((hidden, inner),) * 2,
        types=(BF16,) * 2,
    )

    layer = [norm, qkv, attention, proj, add, norm, up, gelu, down, add]
    back = [
        linear(dgrad, rows, inner, hidden),
        linear(wgrad, hidden, inner, rows),
        gelu_backward,
        linear(dgrad, rows, hidden, inner),
        linear(wgrad, inner, hidden, rows),
        norm_backward,
        add,
        linear(dgrad, rows, hidden, hidden),
        linear(wgrad, hidden, hidden, rows),
        attention_dot,
        attention_backward,
        linear(dgrad, rows, hidden, 3 * hidden),
        linear(wgrad, 3 * hidden, hidden, rows),
        norm_backward,
        add,
    ]
    head_back = [
        softmax_backward,
        linear(dgrad, rows, hidden, words),
        linear(wgrad, words, hidden, rows),
        norm_backward,
    ]
    job = Timeline(H100, seed=20260)
    for step in range(56):
        begin = job.host_ns
        job.run([token_copy, embedding])
        for number in range(layers):
            job.run(layer, f"layer {number} forward")
        job.run([norm, head, log_softmax], "loss")
        if step % 14 < 13:  # every 14th step is an evaluation: forward only
            job.run(head_back, "loss backward")
            for number in reversed(range(layers)):
                job.run(back, f"layer {number} backward")
            job.run([adam] * ceil(parameters / chunk), "optimizer")
        job.spans.append(Span(f"step {step}", begin, job.host_ns))
        job.pause((0.021, 0.034, 0.047)[step % 3])  # the data loader
        if step % 14 == 13:
            job.run([checkpoint] * (2 * layers), "checkpoint")
            job.pause(0.180)
    return job
