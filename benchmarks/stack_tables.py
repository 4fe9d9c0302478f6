"""Measured operators of several libraries on several GPUs, as rows of one law and one implementation.

Shared by fit_stacks.py and held_out_stacks.py.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from fit_time import proved_clock_mhz

from tracetool.calibrate.joint import GpuRows
from tracetool.calibrate.law_fit import LawRows, shape_groups
from tracetool.core.arrays import Bools
from tracetool.families.implementations import library_of, words_of
from tracetool.families.pricing import split_by_law
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.replay.operator_tables import read_table

#: What several libraries call, by law: they launch the same kernels with the same tiles.
SHARED = {"gemm": ("cublas", "cuBLAS products of 16 bits")}
#: Laws and libraries whose least times follow the GPU's clock (10 us at 2520 MHz, 15 at 1410): launches, of
#: which a host's floor would take the place.
WITHOUT_FLOOR = {("mla_decode", "trtllm")}
#: Words of an implementation's name that say how weights were made or what calls it, not which kernel runs.
IGNORED = (
    "vllm", "sglang", "trt_flow", "unquantizedfusedmoe", "compressedtensorsw4a4nvfp4moe", "modeloptfp8moe",
    "compressedtensorswna16marlinmoe", "compressedtensorsw4a4mxfp4moe", "mxfp4moe", "gptoss", "fp8moe",
    "monolithic", "modular", "flashinferexperts", "tritonexperts", "marlinexperts", "experts", "vit",
    "situ_as_silu", "trtllmbf16", "trtllmfp8", "trtllmnvfp4", "trtllmmxfp4", "mxfp4_bf16", "mxfp4_mxfp8",
)  # fmt: skip
#: Names of one kernel in several versions: what vLLM called fused_moe is the kernel of its Triton experts
#: (vllm/model_executor/layers/fused_moe/fused_moe.py).
RENAMED = {"vllm_fused_moe": "triton"}


@dataclass(frozen=True)
class Cell:
    """Rows of one law that one implementation ran on one GPU."""

    law: str
    stack: str  # with its version
    implementation: str  # as the table calls it
    operator: str  # of the file: gemm, prefill, encoder, ...
    part: GpuRows

    @property
    def set_name(self) -> str:
        """Name of the file its coefficients stand in."""
        if self.law in SHARED:
            return SHARED[self.law][0]
        return f"{library_of(self.stack)}-{kernel_words(self.implementation)}".replace("_", "-").strip("-")

    def half(self, number: int) -> GpuRows:
        """Return the rows of one half of the groups of shapes: 0 is fitted, 1 is held back."""
        chosen = np.flatnonzero(first_half(self.part.law_rows) == (number == 0))
        return GpuRows(self.part.gpu, self.part.law_rows.take(chosen))


def kernel_words(implementation: str) -> str:
    """Return what an implementation's name says of the kernel.

    >>> kernel_words("vllm_fp8moe_flashinfer_cutlass_flashinferexperts")
    'flashinfer_cutlass'
    >>> kernel_words("vllm_fused_moe")
    'triton'
    """
    text = RENAMED.get(words_of(implementation), words_of(implementation))
    for word in IGNORED:
        text = text.replace(word, "")
    return words_of(text.replace("_", " "))


def first_half(data: LawRows) -> Bools:
    """Return which rows belong to the half of the groups of shapes that is fitted. Shape (n,)."""
    groups, place = np.unique(data.group, return_inverse=True)
    chosen = np.random.default_rng(5).permutation(len(groups)) < (len(groups) + 1) // 2
    return np.asarray(chosen[place.reshape(-1)], dtype=np.bool_)


def cells(paths: Iterable[Path], wanted: Iterable[str] = ()) -> Iterator[Cell]:
    """Yield the rows of tables by law and implementation."""
    wanted = set(wanted)
    for path in sorted(paths):
        gpu = pl.read_parquet(path, columns=["gpu"])["gpu"][0]
        operator = path.stem.removeprefix(f"{gpu}_").split("_", 1)[1]
        yield from cells_of_frame(path, operator, wanted=wanted)


def cells_of_frame(path: Path, operator: str, stack: str = "", wanted: Container[str] = ()) -> list[Cell]:
    """Return the rows of a table by law and implementation; ``stack`` where it does not state its own."""
    frame = pl.read_parquet(path).filter(pl.col("measured_us") > 0)
    if "_".join(path.stem.split("_")[:2]) in WITHOUT_WRITE and "kv_dtype" in frame.columns:
        frame = frame.with_columns(pl.lit(value=False).alias("cache_write"))
    if "measured_w" in frame.columns:
        frame = frame.with_columns(pl.lit(LONG_LOOP).alias("loop_operators"))
    if path.stem in CALLED:
        frame = frame.with_columns(pl.lit(value=False).alias("router"))
    if path.stem in SHARED_VALUES:
        frame = frame.with_columns(pl.lit(value=True).alias("values_shared"))
    gpu, found = load_gpu(frame["gpu"][0]), []
    if "stack" not in frame.columns:
        named = CALLED.get(path.stem, "")
        frame = frame.with_columns(pl.lit(stack).alias("stack"), pl.lit(named).alias("implementation"))
    if operator == "moe":
        frame = with_loops(frame, frame["stack"][0])
    for (name,), part in frame.group_by(["implementation"], maintain_order=True):
        table = read_table(part.drop("measured_us", "gpu", "power_limit_w", "measured_w", strict=False))
        rows, seconds = table.rows.take(table.index), part["measured_us"].to_numpy() * 1e-6
        clock = predict_rows(rows, gpu, np.array([gpu.clock_boost_mhz])).clock_mhz[:, 0]
        clock = np.maximum(clock, proved_clock_mhz(rows, seconds, gpu))
        for family in sorted(set(rows.family.astype(str))):
            places = np.flatnonzero(rows.family == family)
            for law, inside in split_by_law(family, rows.take(places), gpu):
                if wanted and law.name not in wanted:
                    continue
                at = places[inside]
                of_law = rows.take(at)
                data = LawRows(of_law, seconds[at], clock[at, None] * 1e6, shape_groups(of_law))
                found.append(Cell(law.name, frame["stack"][0], str(name), operator, GpuRows(gpu, data)))
    return found


def with_loops(frame: pl.DataFrame, stack: str) -> pl.DataFrame:
    """Return a table of experts with what the loop that timed a version is known to do."""
    sizes = pl.concat_list("hidden", "intermediate")
    without = sizes.is_in([list(pair) for pair in UNGATED]) & (pl.col("top_k") > 1) & (stack in UNGATED_IN)
    called = pl.col("implementation").str.contains("nongated")
    frame = frame.with_columns(gated=~(without | called))
    bare = REMOTE_TO_FIRST.get(stack)
    some = pl.col("dtype").is_in(["bf16", "fp8_block"]) & sizes.is_in([list(pair) for pair in bare or []])
    return frame.with_columns(remote_to_first=some if bare is None or bare else pl.lit(value=True))


#: Tables of other versions of a library on a GPU that is fitted: file and stack.
OTHER_VERSIONS = {
    "h200-sxm_vllm": "vllm 0.22.0",
    "b200-sxm_trtllm": "trtllm 1.3.0rc15",
}
#: Of those, tables whose loops call a backend's attention alone. Where vLLM writes the cache by a call of its
#: own (vllm-project/vllm, ``forward_includes_kv_cache_update``), loops before version 0.24 left the write out
#: (ai-dynamo/aiconfigurator, ``collector/vllm/collect_attn.py``, before and since its commit d5bad971).
WITHOUT_WRITE = {"h200-sxm_vllm"}
#: Tables whose loops lay out a cache of keys alone, ``CacheType.SELFKONLY``, where values lie in the memory
#: of keys (ai-dynamo/aiconfigurator, ``collector/trtllm/collect_attn.py`` before its commit dec5f4cd2).
SHARED_VALUES = {"b200-sxm_trtllm_generation_attention", "a100-sxm_trtllm-1.0.0_decode"}
#: Tables of one function, which their loops call beside what the library would choose: vLLM's Triton kernels
#: of 16 bits, FP8 and FP8 with block scales (ai-dynamo/aiconfigurator, ``collector/vllm/collect_moe.py``
#: before its commit d5bad971, ``fused_experts``), as its tables call it. It is given the experts of each
#: token, which later loops let the layer choose from the router's logits.
CALLED = {"h200-sxm_vllm_moe": "vllm_fused_moe"}
#: Operators that a loop times at once where power is measured: as many as fill 0.3 s, at most 3000, some
#: hundred of those that take a millisecond. [1] By definition of ai-dynamo/aiconfigurator,
#: ``collector/helper.py``, ``benchmark_with_power``.
LONG_LOOP = 1000.0
#: Versions whose loops call some layers' kernels alone, experts of other GPUs taken for the first of this
#: one: hidden and intermediate sizes, all where none is given (ai-dynamo/aiconfigurator, collect_moe.py:
#: before its commit e23be5a79 all layers, then those whose router is a plain softmax).
REMOTE_TO_FIRST: dict[str, list[tuple[int, int]]] = {
    "sglang 0.5.10": [],
    "sglang 0.5.14": [(4096, 14336), (6144, 16384), (2816, 704), (2048, 1408)],
}
#: Versions whose loops leave out the gate where a model has none, and the sizes of those models (the same:
#: NemotronH, relu2). Loops before time a gate all the same; TensorRT-LLM's implementations say it.
UNGATED_IN = {"vllm 0.24.0", "sglang 0.5.14"}
UNGATED = [(1024, 2688), (2048, 5120), (2688, 1856), (4096, 2688), (8192, 5120)]
#: Operators as those tables' names end.
_ENDS = {"context_attention": "prefill", "generation_attention": "decode", "gemm": "gemm", "moe": "moe"}


def version_cells(root: Path, wanted: Container[str]) -> list[Cell]:
    """Return the tables measured under another version, of some laws."""
    found = []
    for start, stack in OTHER_VERSIONS.items():
        for path in sorted((root / "ops").glob(f"{start}_*.parquet")):
            operator = _ENDS[path.stem.removeprefix(f"{start}_")]
            if operator in wanted or operator not in {"prefill", "decode"}:
                found += cells_of_frame(path, operator, stack, wanted)
    return found
