"""ATen native: PyTorch's own kernels. The head symbol says how work is laid out, the functor what is done.

``vectorized_elementwise_kernel<V, functor, array<char*, P>>`` touches P tensors, outputs included. ``reduce_kernel<T, V,
ReduceOp<in, ops, index, out, V0, V1>>``; ``softmax_warp_forward<in, out, acc, log2_elements, is_log, masked>``.
"""

from __future__ import annotations

import re

from tracetool.kernels.grammar import Attributes, Grammar, Rule, Token
from tracetool.kernels.name_readers import number_format
from tracetool.kernels.symbols import Symbol

_POINTERS = re.compile(r"(?:[Aa]rray|NS_5array\w*)<char ?\*, (\d+)>")
_SKETCHED_POINTERS = re.compile(r"\barray, char, (\d+)")
_FUNCTION = re.compile(r"\b(\w{3,80})(?:<[^()]{0,120}>)?\((?:const )?at::Tensor")
_SKETCHED_FUNCTION = re.compile(r"\b(\w+?)(?:_kernel_cuda|_kernel_impl|KernelImpl|_kernel|CUDAKernelImpl)\b")
_ADD = re.compile(r"CUDAFunctor(?:OnSelf|OnOther)?_(\w+)")
_FUNCTOR = re.compile(r"\b(\w{0,60}?)_?[Ff]unctor(?:_t)?\b")
_FUNCTOR_TYPE = re.compile(
    r"\b(?:\w{0,60}Functor\w{0,20}|CUDAFunctor\w{0,20}|\w{1,40}_functor|func_wrapper_t)(?:<|, )((?:c10::)?complex<[\w:]{1,20}>|[\w: ]{1,40})[,>]"
)
#: Functors by the tensors they read: a scalar beside one, or two.
_ONE_INPUT = re.compile(r"\b[AB]UnaryFunctor|FunctorOn(?:Self|Other)|direct_copy|copy_kernel")
_TWO_INPUTS = re.compile(r"\bBinaryFunctor<|CUDAFunctor_\w+<|_backward_(?:kernel|cuda)")
_OPS = re.compile(r"\b(\w+?)Ops(?:<|,|$)")
_LAMBDA = re.compile(r"lambda\(([\w:,<> ]{1,200})[)]")
_TYPE = re.compile(
    r"c10::complex<(?:double|float|c10::Half)>|c10::(?:Half|BFloat16|Float8_\w+)|unsigned int|unsigned long|\b(?:double|float|long long|long|int|short|"
    r"signed char|unsigned char|bool|Half|BFloat16|half|bf16|complex)\b|Float8_\w+"
)
_OPAQUE = re.compile(r"OpaqueType<(\d+)>|OpaqueType, (\d+)")
_DEPTH = re.compile(r"TensorList(?:ScalarList)?Metadata<(?:[\w:<>]+, )?(\d+)")
_TRIM = re.compile(r"(?:_?[Kk]ernel|_?cuda|_?CUDA|_?impl|_?Impl|_out|_nocast|_functor|Functor)+$")
#: Kernels whose first two arguments are threads per block and elements per thread.
_COUNTED = ("elementwise_kernel", "index_elementwise", "_scatter_gather")
#: Kernels whose outermost lambda takes an index.
_INDEXED = ("elementwise_kernel", "index_elementwise", "_scatter_gather")
_PLAIN_FUNCTORS = ("AUnary", "BUnary", "Binary", "func_wrapper", "")

#: What a functor's name says of the family: group name is ``family__op``.
_FUNCTOR_FAMILY = re.compile(
    r"(?P<elementwise__norm_apply>batch_?norm|group_?norm|GroupNorm|layer_?norm|NormKernel|NormBackward)"
    r"|(?P<rng__distribution>distribution|normal_and|uniform_and|bernoulli|random_from|philox|exponential_kernel)"
    r"|(?P<gather_scatter__index>index_put|index_fill|index_copy|index_kernel|scatter|gather|masked_select|take_put)"
    r"|(?P<copy__copy_cast>direct_copy|float\w{0,20}copy|float\w{0,8}tofloat|copy_device_to_device|copy_kernel)"
    r"|(?P<copy__fill>Fill|fill_kernel)|(?P<pooling__resample>upsample|interpolat|grid_sampl)|(?P<quantize__quantize>[Qq]uanti[sz]e)"
)


def _format_of(text: str, *, by_index: bool = False) -> str | None:
    """Return the number format a functor works on.

    A functor states it first among its arguments, a lambda as its own first argument; the outermost
    lambda of kernels that walk an index (``by_index``) takes that index.
    """
    stated = _FUNCTOR_TYPE.search(text) if "unctor" in text or "func_wrapper" in text else None
    dtype = number_format(stated[1]) if stated else None
    if dtype:
        return dtype
    lambdas = _LAMBDA.findall(text)
    for one in reversed(lambdas[:-1] if by_index else lambdas):
        formats = [f for f in map(number_format, one.split(", ")) if f]
        if formats:  # a condition comes before the values it chooses from
            return next((f for f in formats if f != "bool"), "bool")
    return next((f for f in map(number_format, _TYPE.findall(text)) if f), None)


def functor_of(text: str) -> str | None:
    """Return the plain name of the function a kernel applies.

    >>> functor_of(
    ...     "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>"
    ... )
    'Mul'
    """
    named = [
        f
        for f in _FUNCTION.findall(text)
        if f not in ("gpu_kernel_impl", "gpu_kernel_impl_nocast", "gpu_kernel")
    ]
    if named:
        return str(_TRIM.sub("", named[0]) or named[0])
    functors = "unctor" in text
    if functors and (added := _ADD.search(text)):
        return str(added[1])
    inner = [f for f in _FUNCTOR.findall(text) if f not in _PLAIN_FUNCTORS] if functors else []
    if inner:
        return str(inner[0])
    if sketched := _SKETCHED_FUNCTION.search(text):
        return str(sketched[1])
    ops = _OPS.search(text)
    return str(ops[1]) if ops else None


def _work(symbol: Symbol) -> Attributes:
    inside = symbol.inside
    size = _OPAQUE.search(inside)
    return {
        "dtype": None if size else _format_of(inside, by_index=symbol.head.startswith(_INDEXED)),
        "element_bytes": int(size[1] or size[2]) if size else None,
        "functor": functor_of(inside),
    }


def _tensors_of(inside: str) -> int | None:
    """Return the tensors a functor reads and writes, None where its name does not state them."""
    if _ONE_INPUT.search(inside):
        return 2
    return 3 if _TWO_INPUTS.search(inside) else None


def _elementwise(match: re.Match[str], symbol: Symbol) -> Attributes:
    inside = symbol.inside
    out = _work(symbol)
    pointers = _POINTERS.search(inside) or _SKETCHED_POINTERS.search(inside) if "char" in inside else None
    out["operands"] = int(pointers[1]) if pointers else _tensors_of(inside)
    head, arguments = match[0], symbol.arguments
    if head.startswith("vectorized") and arguments and arguments[0].isdigit():
        out["vec"] = int(arguments[0])
    elif (
        head.startswith(_COUNTED) and len(arguments) > 1 and arguments[0].isdigit() and arguments[1].isdigit()
    ):
        out["threads"], out["elements_per_thread"] = int(arguments[0]), int(arguments[1])
    functor = _FUNCTOR_FAMILY.search(str(out["functor"] or inside))
    if functor and functor.lastgroup:
        family, _, op = functor.lastgroup.partition("__")
        return {**out, "family": family, "op": op}
    return {**out, "op": str(out["functor"]).lower() if out["functor"] else None}


def _reduce(match: re.Match[str], symbol: Symbol) -> Attributes:
    arguments = symbol.arguments
    out = _work(symbol)
    if len(arguments) > 1 and arguments[0].isdigit() and arguments[1].isdigit():
        out["max_threads"], out["out_vec"] = int(arguments[0]), int(arguments[1])
    opened = symbol.inside.partition("ReduceOp<")[2]
    inside = [a.strip() for a in (opened.partition(",")[0],) if a.strip()]
    out["dtype"] = (number_format(inside[0]) if inside else None) or out["dtype"]
    out["op"] = str(out["functor"]).lower() if out["functor"] else "reduce"
    return out


def _foreach(match: re.Match[str], symbol: Symbol) -> Attributes:
    inside = symbol.inside
    out = _work(symbol)
    depth = _DEPTH.search(inside)
    out["depth"] = int(depth[1]) if depth else None
    out["op"] = f"foreach_{out['functor']}" if out["functor"] else "foreach"
    if "LpNorm" in inside or "LpMax" in inside or "L2Norm" in inside or "MaxNorm" in inside:
        out.update(family="reduction", op="norm")
    return out


def _typed(match: re.Match[str], symbol: Symbol) -> Attributes:
    return {k: v for k, v in _work(symbol).items() if k != "functor"}


def _softmax(match: re.Match[str], symbol: Symbol) -> Attributes:
    arguments = symbol.arguments
    numbers = [a for a in arguments if a.isdigit()]
    flags = [a for a in arguments if a in ("true", "false")]
    log = (bool(flags) and flags[0] == "true") or "LogSoftMax" in symbol.inside
    back = "ackward" in match[0]
    out = _typed(match, symbol)
    if "warp" in match[0] and numbers:
        out["log2_elements"] = int(numbers[0])
    elif numbers:
        out["vec"] = int(numbers[0])
    out["op"] = ("log_softmax" if log else "softmax") + ("_bwd" if back else "")
    out["direction"] = "bwd" if back else "fwd"
    return out


def _cat(match: re.Match[str], symbol: Symbol) -> Attributes:
    return {**_typed(match, symbol), "threads": None}


_NORMS = r"batch_?norm|BatchNorm|layer_?norm|LayerNorm|group_?norm|GroupNorm|instance_?norm|rms_?norm|RMSNorm|local_response"

GRAMMAR = Grammar(
    library="pytorch",
    title="ATen: PyTorch's own kernels, and the same code in torch extensions",
    source="pytorch/pytorch, aten/src/ATen/native/cuda: Loops.cuh, CUDALoops.cuh, Reduce.cuh, PersistentSoftmax.cuh, MultiTensorApply.cuh, Shape.cu, Indexing.cu",
    gate=r"^at(?:_cuda_detail)?::|(?:^|::)(?:vectorized_|unrolled_|vectorized_templated_)?elementwise_kernel|(?:^|::)reduce_(?:\d+d_)?kernel$|softmax_warp|cunn_Soft|cunn_Spatial|"
    r"multi_tensor_apply|CatArray|distribution_|fused_dropout|indexSelect|indexFunc|indexing_backward|index_elementwise|embedding_|Embedding|layer_norm|LayerNorm|"
    r"cuCompute|GammaBeta|RowwiseMoments|batch_norm|lp(?:norm|max)_cleanup|vectorized_gather|compute_grad_weight|krn_partial|sum_and_scatter|compute_num_of_partial|"
    r"max_pool|avg_pool|average_pool|upsample|nll_loss|bitonicSort|gatherTopK|radixFind|mbtopk|tensor_kernel_scan|compute_cuda_kernel|scatter_gather|"
    r"split_with_sizes|conv_depthwise|triu_tril|roll_cuda|reflection_pad|cross_entropy|ctc_loss|masked_scale|renorm_kernel|write_indices|kernelPointwise|"
    r"kernelHistogram|spatialDepthwise|im2col|col2im|vol2col|col2vol|flip_cuda|unfold|searchsorted|to_dense_rep|assert_async|cdist|GroupNorm|ComputeFusedParams|"
    r"ComputeInternalGradients|ComputeBackwardFused|fillSliceWithIndex|sortKeyValueInplace|adaptive_|slow_conv",
    rules=(
        Rule(r"(?:vectorized_templated_|vectorized_|unrolled_)?elementwise_kernel\w*", "elementwise", sign=_elementwise),
        Rule(r"elementwise_\w+", "elementwise", sign=_elementwise),
        Rule(r"multi_tensor_apply_kernel", "optimizer", "foreach", sign=_foreach),
        Rule(r"lp(?:norm|max)_cleanup", "reduction", "norm", sign=_typed),
        Rule(r"reduce_(?:\d+d_)?kernel", "reduction", "reduce", sign=_reduce),
        Rule(r"(?:dense_)?softmax_warp_\w+|cunn_(?:Spatial)?SoftMax\w*|\w*[Ss]oft[Mm]ax\w*", "softmax", "softmax", sign=_softmax),
        Rule(r"CatArrayBatched\w*", "copy", "cat", sign=_cat),
        Rule(r"split_with_sizes\w*|chunk_cat\w*", "copy", "split", sign=_typed),
        Rule(r"fused_dropout\w*|masked_scale\w*|\w*[Dd]ropout\w*", "rng", "dropout", sign=_typed),
        Rule(r"distribution_\w+|\w*philox\w*|randperm\w*|triu_indices_rand", "rng", "distribution", sign=_typed),
        Rule(r"(?:cuCompute|Gamma|ComputeGradGamma|LayerNormBackward|layer_norm_grad|\w*GradInput\w*)\w*(?<!Embedding)", "norm", "layer_norm_bwd", sign=_typed, fixed={"direction": "bwd"}),
        Rule(r"RowwiseMoments\w*", "norm", "row_moments", sign=_typed, fixed={"direction": "fwd"}),
        Rule(rf"\w*?(?:{_NORMS})\w*?[Bb]ackward\w*", "norm", "norm_bwd", sign=_typed, fixed={"direction": "bwd"}),
        Rule(rf"\w*?(?:{_NORMS})\w*", "norm", "norm", sign=_typed, fixed={"direction": "fwd"}),
        Rule(r"Compute(?:Fused|Internal|Backward)\w*", "norm", "group_norm", sign=_typed),
        Rule(r"\w*?(?:avg_?pool|average_pool|max_?pool|MaxPool|AvgPool|AveragePool|fractional_max)\w*", "pooling", "pool", sign=_typed),
        Rule(r"\w*?(?:upsample|interpolat|grid_sampl|affine_grid)\w*", "pooling", "resample", sign=_typed),
        Rule(r"conv_depthwise\w*|spatialDepthwise\w*|slow_conv\w*|\w*[Dd]epthwise\w*conv\w*", "conv", "depthwise", sign=_typed),
        Rule(r"(?:im2col|vol2col|col2im|col2vol|unfold)\w*", "copy", "im2col", sign=_typed),
        Rule(r"\w*?(?:nll_loss|ctc_loss|cross_entropy|multi_?margin|MultiLabel)\w*", "other", "loss", sign=_typed),
        Rule(r"(?:bitonicSort|radixSort|sortKeyValue|mbtopk|gatherTopK|radixFind|gatherKth|gatherMedian|fillSliceWithIndex|warpMerge|segmented_sort|topk|sort)\w*", "sort", "sort", sign=_typed),
        Rule(r"tensor_kernel_scan\w*|\w*_scan_\w*|scan_\w*|cum\w+_kernel\w*", "scan", "scan", sign=_typed),
        Rule(r"_?(?:rope|rotary)_\w+", "rope", "rope", sign=_typed),
        Rule(r"\w*?(?:gather|scatter|index|embedding|Embedding|indices)\w*", "gather_scatter", "index", sign=_elementwise),
        Rule(r"(?:compute_grad_weight|krn_partial|sum_and_scatter|compute_num_of_partial)\w*", "gather_scatter", "embedding_bwd", sign=_typed),
        Rule(r"renorm_kernel|compute_cuda_kernel|searchsorted\w*|kernelHistogram\w*|bincount\w*", "gather_scatter", "index", sign=_typed),
        Rule(r"to_dense_rep\w*|\w*(?:coalesce|csr|coo|sparse)\w*", "sparse", "sparse", sign=_typed),
        Rule(r"(?:roll|flip|reflection_pad|replication_pad|triu_tril|repeat|tril|triu|fill|copy|transpose|permute|cat|stack)\w*", "copy", "layout", sign=_typed),
        Rule(r"\w*(?:pad|transpose|permute)\w*", "copy", "layout", sign=_typed),
        Rule(r"_?assert_async\w*", "other", "runtime"),
        Rule(r"\w*(?:cdist|pdist|Reduc|reduc)\w*", "reduction", "reduce", sign=_typed),
        Rule(r"\w*gemv\w*", "gemv", "gemv", sign=_typed),
        Rule(r"\w*(?:gemm|matmul|int4mm|int8mm)\w*", "gemm", "quantized_gemm", sign=_typed),
        Rule(r"kernelPointwise\w*|\w*[Aa]ct\w*|\w*[Gg]elu\w*|\w*[Gg]lu\w*|amp_\w+|\w*(?:add|mul|div|clamp)\w*", "elementwise", "pointwise", sign=_elementwise),
    ),
    tokens=(
        Token(r"vectorized_elementwise_kernel", "one flat pass, V elements per access"),
        Token(r"unrolled_elementwise_kernel", "one flat pass with casts on load or store"),
        Token(r"elementwise_kernel(?:_manual_unroll)?", "strided operands: offsets are computed per element"),
        Token(r"reduce_kernel", "tree reduction: largest block, outputs per thread"),
        Token(r"softmax_warp_\w+", "one warp per row, row length up to two to the stated power"),
        Token(r"cunn_SoftMax\w+", "one block per row"),
        Token(r"multi_tensor_apply_kernel", "many tensors in one launch, chunks of 65,536 elements"),
        Token(r"TensorListMetadata", "tensors per element"),
        Token(r"CatArray\w+", "concatenation"),
        Token(r"\w*Functor\w*", "function applied to each element"),
        Token(r"array<char", "tensors touched, outputs included"),
        Token(r"OpaqueType", "element known by its size in bytes only"),
    ),
    examples={
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>, at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<c10::Half>, at::detail::Array<char*, 3>)": "elementwise",
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MaxOps<float>, unsigned int, float, 4> >(at::native::ReduceOp<float, at::native::MaxOps<float>, unsigned int, float, 4>)": "reduction",
        "void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 9, false, false>(c10::Half*, c10::Half const*, int, int, int, bool const*, int, bool)": "softmax",
    },
    rank=30,
)  # fmt: skip
