# ruff: noqa: E501 - kernel names are long
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tracetool.families.access_pattern import CHUNK
from tracetool.families.registry import count_work
from tracetool.hardware.load import load_gpu
from tracetool.kernels.structure import describe
from tracetool.model.timing import time_rows
from tracetool.replay.operator_tables import as_columns

LATENCY = Path(__file__).parents[3] / "shared/data/latency"
H100 = "NVIDIA H100 80GB HBM3"


def row(*, name, grid=(None,) * 3, block=(None,) * 3, op=None, dims=None, scalars=None, us=None, **more):
    axes = dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True))
    axes |= dict(zip(("block_x", "block_y", "block_z"), block, strict=True))
    call = {"operator_name": op, "input_dims": json.dumps(dims) if dims else None}
    call |= {"input_types": None, "concrete_inputs": json.dumps(scalars) if scalars else None}
    time = {"duration_median_ns": us * 1e3 if us else None, "device_name": H100}
    return {"name": name, "kind": "kernel", **axes, **call, **time, "bytes": None} | more  # fmt: skip


def one(**kwargs):
    return describe(pl.DataFrame([row(**kwargs)], infer_schema_length=None)).row(0, named=True)


SGEMM = "ampere_sgemm_128x64_tn"


def test_operator_gives_the_sizes_and_tiles_lie_along_them():
    got = one(
        name=SGEMM, grid=(6, 4, 1), block=(128, 1, 1), op="aten::addmm", dims=[[768], [200, 512], [512, 768]]
    )
    assert (got["m"], got["n"], got["k"], got["batch"]) == (200, 768, 512, 1)
    assert (got["tile_m"], got["tile_n"]) == (64, 128)  # the name's first number runs along n
    assert got["grid_fits"] and got["tiles"] == 24
    assert got["shape_source"] == "operator" and got["inferred"] == ""


def test_parts_of_a_split_k_are_counted_from_the_grid():
    got = one(name=SGEMM, grid=(6, 4, 3), block=(128, 1, 1), op="aten::mm", dims=[[200, 512], [512, 768]])
    assert got["split_k"] == 3 and got["grid_fits"]
    batched = one(
        name=SGEMM, grid=(6, 4, 3), block=(128, 1, 1), op="aten::bmm", dims=[[3, 200, 512], [3, 512, 768]]
    )
    assert batched["split_k"] is None and batched["batch"] == 3


def test_without_an_operator_tiles_and_grid_give_m_and_n_and_the_duration_k():
    gpu = load_gpu("h100-sxm")
    k = 4096.0
    flops = 2 * (32 * 64) * (16 * 128) * k
    seconds = flops / (0.65 * float(gpu.peak_flops("fp32", gpu.clock_boost_mhz))) / (512 / (4 * 132))
    got = one(name=SGEMM, grid=(16, 32, 1), block=(128, 1, 1), us=seconds * 1e6 + 2)
    assert (got["m"], got["n"], got["batch"]) == (2048, 2048, 1)
    assert got["k"] == pytest.approx(k, rel=0.02)
    assert got["inferred"] == "k" and got["shape_source"] == "grid"
    assert got["inferred_low"] < 1 < got["inferred_high"]


def test_the_depth_of_a_product_is_inferred_at_the_clock_it_ran_at():
    frame = pl.DataFrame([row(name=SGEMM, grid=(16, 32, 1), us=5000.0)])
    gpu = load_gpu("h100-sxm")
    half = describe(frame, clock_mhz=gpu.clock_boost_mhz / 2.0)["k"][0]
    assert half == pytest.approx(describe(frame)["k"][0] / 2.0, rel=0.01)


def test_an_unknown_gpu_infers_nothing_unless_one_is_given():
    frame = pl.DataFrame([row(name=SGEMM, grid=(16, 32, 1), us=100.0, device_name="some GPU")])
    assert describe(frame)["shape_source"][0] == "none"
    assert describe(frame, load_gpu("a100-sxm"))["inferred"][0] == "k"


def test_a_product_launched_by_a_convolution_is_one():
    got = one(
        name="void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x4_nn_align4>(X::Params)",
        op="aten::cudnn_convolution", dims=[[8, 64, 56, 56], [128, 64, 1, 1]], scalars=["", "", "[0, 0]", "[1, 1]", "[1, 1]", "1"],
    )  # fmt: skip
    assert got["family"] == "conv" and got["basis"] == "operator"
    assert (got["batch"], got["channels"], got["filters"], got["kernel_h"], got["stride"]) == (
        8,
        64,
        128,
        1,
        1,
    )


def test_a_gradient_of_weights_takes_the_filter_of_its_forward_call():
    data, result, weight = [8, 16, 28, 28], [8, 32, 14, 14], [32, 16, 3, 3]
    forward = row(name="volta_scudnn_128x64_relu_medium_nn_v1", op="aten::cudnn_convolution", dims=[data, weight],
                  scalars=["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"])  # fmt: skip
    call = {"op": "aten::cudnn_convolution_backward_weight"}
    back = row(name="volta_scudnn_128x64_stridedB_splitK_small_nn_v1", dims=[[], result, data], **call)
    lone = row(
        name="volta_scudnn_128x64_stridedB_splitK_small_nn_v1", dims=[[], result, [8, 99, 28, 28]], **call
    )
    got = describe(pl.DataFrame([forward, back, lone], infer_schema_length=None))
    assert got["kernel_h"].to_list() == [3, 3, None]
    assert got["stride"].to_list()[:2] == [2, 2]
    assert got["shape_source"].to_list() == ["operator", "operator", "none"]
    bare = forward | {"concrete_inputs": None}  # older profilers record no scalars
    told = describe(pl.DataFrame([bare, back], infer_schema_length=None))
    assert (told["stride"][0], told["padding"][0]) == (2, 1)


def test_blocks_beyond_a_tile_share_the_pixels_of_a_gradient_of_weights():
    xmma = "sm90_xmma_wgrad_indexed_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize64x64x64_warpgroupsize1x1x1_g1_execute_"
    call = {
        "op": "aten::convolution_backward", "dims": [[256, 64, 56, 56], [256, 64, 56, 56], [64, 64, 3, 3]],
        "scalars": ["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", ""], "block": (384, 1, 1),
    }  # fmt: skip
    shared = one(name=xmma + "segment_k_on_kernel__5x_cudnn", grid=(117, 1, 1), **call)
    assert shared["family"] == "conv" and shared["split_k"] == pytest.approx(13)  # nine tiles
    whole = one(name=xmma + "segment_k_off_kernel__5x_cudnn", grid=(9, 1, 1), **call)
    assert whole["split_k"] in (None, 1)
    sums = one(name=xmma + "split_k_kernel__5x_cudnn", grid=(117, 1, 1), **call)
    assert sums["family"] == "splitk_reduce"
    clears = "void cask_plugin__5x_cudnn::xmma__5x_cudnn::init_device_workspace_kernel<x::wgrad_indexed::Params>(x::wgrad_indexed::Params, bool)"
    assert one(name=clears, grid=(1, 1, 1), **call)["family"] == "copy"


def test_a_product_taller_than_a_grid_keeps_the_rows_of_its_piece():
    got = one(
        name=SGEMM,
        grid=(1, 16384, 1),
        block=(128, 1, 1),
        op="aten::mm",
        dims=[[4194304, 256], [256, 128]],
        us=3700.0,
    )
    assert (got["m"], got["n"], got["k"]) == (16384 * 64, 128, 256)
    assert got["tiles"] == got["blocks"]


def test_a_functor_tells_the_tensors_a_kernel_with_offsets_touches():
    kernel = (
        "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::{}> >"
    )
    binary = one(
        name=kernel.format("BinaryFunctor<float, float, float, f>"), grid=(64, 1, 1), block=(128, 1, 1)
    )
    scaled = one(
        name=kernel.format("AUnaryFunctor<float, float, float, f>"), grid=(64, 1, 1), block=(128, 1, 1)
    )
    assert (binary["operands"], binary["reads"]) == (3, 2.0)
    assert (scaled["operands"], scaled["reads"]) == (2, 1.0)


def test_dimensions_that_every_operand_spans_alike_are_walked_as_one():
    kernel = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<f> >"
    for dims, count in (
        ([[16, 559, 1024], [1024]], 2),
        ([[16, 16, 559, 64], [16, 16, 559, 64]], 3),
        ([[4096, 1024], [4096, 1024]], 2),
        ([[4, 768, 14, 14], [1, 768, 1, 1]], 3),
    ):
        got = one(name=kernel, grid=(64, 1, 1), block=(128, 1, 1), op="aten::mul", dims=dims)
        assert got["walked_dims"] == count


def test_a_grid_far_too_small_for_the_operators_result_tells_another_product():
    call = {"op": "aten::mm", "dims": [[4194304, 256], [256, 128]]}
    got = one(name=SGEMM, grid=(4, 8, 1), block=(128, 1, 1), us=30.0, **call)
    assert (got["m"], got["n"]) == (8 * 64, 4 * 128)
    assert got["inferred"] == "k" and got["shape_source"] == "grid"
    got = one(
        name="void splitKreduce_kernel<float, float, float>(float)", grid=(4, 8, 1), block=(32, 1, 1), **call
    )
    assert got["elements"] is None and got["shape_source"] == "none"


@pytest.mark.parametrize("call", ["CompiledFunction", "torch::autograd::CppNode<Lookup>"])
def test_functions_of_many_kernels_lend_their_tensors_to_none(call):
    add = "void at::native::elementwise_kernel<128, 2, at::native::CUDAFunctor_add<float>>(int)"
    got = one(name=add, grid=(1000, 1, 1), block=(128, 1, 1), op=call, dims=[[128, 440], [1024, 58272]])
    assert got["elements"] == pytest.approx(1000 * 256, rel=1e-2)
    assert got["shape_source"] == "grid"


def test_scans_and_sorts_inside_an_operator_need_not_pass_over_its_tensors():
    name = (
        "void cub::DeviceScanInitKernel<cub::ScanTileState<int, true> >(cub::ScanTileState<int, true>, int)"
    )
    got = one(
        name=name, grid=(5, 1, 1), block=(128, 1, 1), op="fbgemm::permute_features", dims=[[979], [13901542]]
    )
    assert got["shape_source"] == "none"


def test_helpers_do_not_take_the_numbers_of_their_operator():
    got = one(
        name="void splitKreduce_kernel<float, float, float>(float)",
        op="aten::mm",
        dims=[[200, 512], [512, 768]],
    )
    assert got["family"] == "splitk_reduce" and got["m"] is None
    assert got["elements"] == 200 * 768


TRAITS = "Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::bfloat16_t, Flash_kernel_traits<128, 64, 128, 4, cutlass::bfloat16_t> >"
COMBINE = f"void flash::flash_fwd_splitkv_combine_kernel<{TRAITS}, 4, 3, true>(flash::Flash_fwd_params)"
SPLIT = f"void flash::flash_fwd_splitkv_kernel<{TRAITS}, false, false, false, true, true, true, false>(flash::Flash_fwd_params)"
DECODE = {"op": "aten::_scaled_dot_product_flash_attention", "dims": [[1, 32, 1, 128], [1, 8, 32768, 128], [1, 8, 32768, 128]]}  # fmt: skip


def test_a_combine_kernel_is_priced_by_its_own_bytes_not_as_its_attention():
    gpu = load_gpu("h100-sxm")
    frame = pl.DataFrame(
        [row(name=SPLIT, grid=(1, 8, 32), **DECODE), row(name=COMBINE, grid=(8, 1, 1), **DECODE)],
        infer_schema_length=None,
    )
    got = describe(frame)
    assert got["family"].to_list() == ["attention", "attention"]
    assert got["priced_as"].to_list() == [None, "splitk_reduce"]
    assert got["kv_len"].to_list() == [32768, None]
    assert got["elements"][1] == 32 * 128
    # parts in fp32 for results in bf16, six of at most eight
    assert (got["reads"][1], got["writes"][1]) == (12, 1)
    assert (got["inferred"][1], got["shape_source"][1]) == ("reads", "grid")
    rows = as_columns(got.drop("family"), got["family"])
    work = count_work(rows, gpu)
    assert work.dram_bytes[1] == 13 * 32 * 128 * 2
    assert work.tensor_flops[1] == 0
    assert work.dram_bytes[0] > 100 * work.dram_bytes[1]
    time = time_rows(rows, gpu, np.array([1500.0])).duration_s[:, 0]
    assert time[1] < 0.5 * time[0]


def test_helpers_without_an_operator_count_what_their_grid_covers():
    got = one(name=COMBINE, grid=(8, 1, 1))
    assert (got["elements"], got["shape_source"]) == (8 * 4 * 128, "grid")
    name = f"void flash::flash_bwd_dot_do_o_kernel<true, {TRAITS}>(flash::Flash_bwd_params)"
    got = one(name=name, grid=(16, 2, 12))
    assert (got["op"], got["elements"], got["reads"], got["writes"]) == (
        "preprocess",
        16 * 64 * 2 * 12 * 128,
        2,
        2,
    )
    assert got["inferred"] == ""


def test_routing_of_experts_is_not_the_experts():
    call = {"op": "vllm::moe_forward", "dims": [[888, 3072], [888, 128], []]}
    got = one(name="void vllm::moe::moe_align_block_size_kernel<int>(int*)", us=5.0, **call)
    assert (got["family"], got["op"], got["priced_as"]) == ("moe", "routing", "gather_scatter")
    assert got["shape_source"] == "none"


def test_elements_of_a_vectorized_kernel_come_from_its_blocks():
    got = one(
        name="void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)",
        grid=(1000, 1, 1), block=(128, 1, 1),
    )  # fmt: skip
    assert got["elements"] == pytest.approx(1000 * 512, rel=1e-3)
    assert (got["reads"], got["writes"], got["dtype"], got["shape_source"]) == (2, 1, "fp32", "grid")


def test_multi_tensor_kernels_count_chunks():
    got = one(
        name="void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(int)", grid=(10, 1, 1)
    )
    assert got["family"] == "optimizer" and 5 * CHUNK < got["elements"] <= 10 * CHUNK
    assert got["inferred"] == "elements"


def test_attention_grid_gives_queries_batch_and_heads():
    name = "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::half_t>, false, true>(Flash_fwd_params)"
    got = one(name=name, grid=(8, 4, 16), block=(128, 1, 1))
    assert (got["q_len"], got["batch"], got["heads"], got["head_dim"]) == (1024, 4, 16, 64)
    assert got["kv_len"] == 1024 and got["inferred"] == "kv_len"


def test_lengths_of_keys_nobody_records_are_assumed_or_inferred():
    gpu, call = load_gpu("h100-sxm"), {"op": "vllm::unified_attention", "name": "kernel_unified_attention_2d"}
    prefill = one(dims=[[640, 32, 128], [640, 8, 128], [640, 8, 128]], us=200.0, **call)
    assert (prefill["q_len"], prefill["kv_len"], prefill["inferred"]) == (640, 640, "kv_len")
    assert prefill["inferred_low"] < 1 <= prefill["inferred_high"]
    seconds = 30_000 * 8 * 128 * 2 * 4 / (0.7 * gpu.dram_bytes_per_s * gpu.dram_efficiency)
    decode = one(dims=[[1, 32, 128], [1, 8, 128], [1, 8, 128]], us=seconds * 1e6 + 2, **call)
    assert decode["kv_len"] == pytest.approx(30_000, rel=0.01)
    assert decode["shape_source"] == "grid"


def test_compiled_kernels_carry_their_true_traffic():
    name = "triton_poi_fused_add_mul_3"
    got = one(
        name=name, grid=(4, 1, 1), op=name, dims=[[1024], [1024], [1024], []], scalars=["", "", "", "1024"]
    )
    assert (got["elements"], got["reads"], got["writes"], got["shape_source"]) == (1024, 2, 1, "operator")
    name = "triton_poi_fused_relu_18"
    inside = one(name=name, grid=(4, 1, 1), op=name, dims=[[8, 128], [128], []], scalars=["", "", "1024"])
    assert (inside["elements"], inside["reads"], inside["writes"]) == (
        1024,
        1.125,
        1,
    )  # in place: read and written
    rows = one(name="triton_per_fused_native_layer_norm_1", op="triton_per_fused_native_layer_norm_1",
               dims=[[32, 256], [256], [32, 256], [], []], scalars=["", "", "", "32", "256"])  # fmt: skip
    assert (rows["family"], rows["rows"], rows["cols"]) == ("norm", 32, 256)


def test_shared_memory_tells_the_stages_a_name_leaves_open():
    name = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
    got = one(name=name, grid=(66, 2, 1), shared_dynamic_bytes=231_424)
    assert got["stages"] == 7
    stated = one(
        name="ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", shared_dynamic_bytes=98_304
    )
    assert stated["stages"] == 3 and stated["shared_fits"]
    wrong = one(
        name="ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", shared_dynamic_bytes=16_384
    )
    assert wrong["shared_fits"] is False


def test_one_block_per_multiprocessor_is_persistent():
    name = "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4, cute::tuple<cute::C<2>, cute::C<1>, cute::C<1>>>, cute::tuple<cute::C<128>, cute::C<128>, cute::C<64>>, cutlass::half_t>>>(float)"
    count = load_gpu("h100-sxm").sm_count
    assert one(name=name, grid=(count, 1, 1), us=50.0)["persistent"] is True
    spread = one(name=name, grid=(count + 7, 1, 1), us=50.0)
    assert spread["persistent"] is None and spread["m"] is not None


def test_a_run_shows_its_work_per_thread():
    gpu = load_gpu("h100-sxm")
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"

    def run(per_thread: int) -> pl.DataFrame:
        seconds = [1e5 * k * 128 * per_thread * 12 / (0.9 * gpu.dram_bytes_per_s) for k in (1, 2, 3, 4)]
        rows = [
            row(name=name, grid=(100_000 * (i + 1), 1, 1), block=(128, 1, 1), us=s * 1e6)
            for i, s in enumerate(seconds)
        ]
        return describe(pl.DataFrame(rows, infer_schema_length=None))

    assert run(4)["elements"][0] == pytest.approx(1e5 * 512, rel=1e-3)
    assert run(8)["elements"][0] == pytest.approx(1e5 * 1024, rel=1e-3)


def test_copies_move_each_side_in_its_own_format():
    name = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>(int)"
    cast = row(name=name, op="aten::copy_", dims=[[64, 32], [64, 32], []])
    frame = pl.DataFrame([cast | {"input_types": json.dumps(["float", "c10::BFloat16", "Scalar"])}])
    got = describe(frame).row(0, named=True)
    assert (got["family"], got["dtype"], got["elements"], got["reads"], got["writes"]) == (
        "copy",
        "fp32",
        2048,
        0.5,
        1,
    )


def test_a_graph_replay_borrows_the_operator_of_the_like_kernel():
    eager = row(
        name=SGEMM, grid=(6, 4, 1), block=(128, 1, 1), op="aten::mm", dims=[[200, 512], [512, 768]], us=20.0
    )
    other = row(
        name=SGEMM, grid=(6, 4, 1), block=(128, 1, 1), op="aten::mm", dims=[[200, 64], [64, 768]], us=5.0
    )
    replay = row(name=SGEMM, grid=(6, 4, 1), block=(128, 1, 1), us=21.0)
    gridless = row(name=SGEMM, us=5.2)
    alien = row(name=SGEMM, grid=(6, 4, 1), block=(128, 1, 1), us=90.0)
    got = describe(pl.DataFrame([eager, other, replay, gridless, alien], infer_schema_length=None))
    assert got["lent"].to_list() == [False, False, True, True, False]
    assert got["k"].to_list()[:4] == [512, 64, 512, 64]


def test_copies_and_messages_are_known_by_their_bytes():
    frame = pl.DataFrame(
        [
            row(name="Memcpy HtoD", kind="memcpy", bytes=1000),
            row(name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", bytes=64),
        ]
    )
    got = describe(frame)
    assert got["family"].to_list() == ["memcpy", "collective"]
    assert got["shape_source"].to_list() == ["bytes", "bytes"]


def test_rows_keep_their_order_and_only_names_are_needed():
    got = describe(pl.DataFrame({"name": ["b", "ampere_sgemm_32x32_nn", "a"]}))
    assert got["name"].to_list() == ["b", "ampere_sgemm_32x32_nn", "a"]
    assert describe(pl.DataFrame({"name": []}, schema={"name": pl.String})).height == 0


@pytest.mark.parametrize(
    "dims", ["{", "[[1,", "[[1e9]]", "[[99999999999999999999]]", "[[-1, 2]]", '"x"', "[" * 3000, "null"]
)
def test_damaged_shapes_are_absent_not_fatal(dims):
    frame = pl.DataFrame([row(name=SGEMM, op="aten::mm") | {"input_dims": dims}])
    assert describe(frame)["shape_source"][0] == "none"


@pytest.mark.data
@pytest.mark.skipif(not LATENCY.is_dir(), reason="the measured data is not beside the checkout")
@pytest.mark.parametrize(
    ("file", "least"), [("linear", 0.99), ("bmm", 0.99), ("amd_linear", 0.99), ("amd_bmm", 0.99)]
)
def test_tiles_account_for_measured_grids(file, least):
    data = pl.read_parquet(LATENCY / f"{file}.parquet").head(4000)
    amd = file.startswith("amd")  # these grids count work-items
    sizes = data.select("b", "m", "k", "n").iter_rows()  # the file's k is the width of the result
    if file.endswith("bmm"):
        dims = [json.dumps([[b, m, k], [b, k, n]]) for b, m, n, k in sizes]
    else:
        dims = [json.dumps([[b * m, k], [n, k]]) for b, m, n, k in sizes]
    frame = data.select(
        pl.col("kernel").alias("name"),
        *((pl.col(f"grid_{x}") // (pl.col(f"block_{x}") if amd else 1)).alias(f"grid_{x}") for x in "xyz"),
        *(pl.col(f"block_{x}") for x in "xyz"),
        pl.col("device").alias("device_name"),
        (pl.col("measured_ms") * 1e6).alias("duration_median_ns"),
    )
    op = "aten::bmm" if file.endswith("bmm") else "aten::linear"
    got = describe(frame.with_columns(operator_name=pl.lit(op), input_dims=pl.Series(dims)))
    fits = got.filter(pl.col("tile_m").is_not_null())["grid_fits"]
    assert fits.len() > 0.99 * data.height
    assert fits.mean() >= least
    # without the operator K comes from the duration: its stated interval must hold it
    alone = describe(frame)
    true = got["k"].to_numpy()
    low, high = (alone["k"].to_numpy() * alone[f"inferred_{e}"].to_numpy() for e in ("low", "high"))
    told = np.isfinite(low)
    assert np.mean((low[told] <= true[told]) & (true[told] <= high[told])) >= 0.85
