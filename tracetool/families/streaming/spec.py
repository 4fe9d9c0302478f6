"""The families that read each element once and write each result once."""

from __future__ import annotations

from tracetool.families.arguments import Reading, same_sizes, sizes
from tracetool.families.spec import Family, Sequence, Streams, TableOperator, UserWords
from tracetool.families.streaming.problem import stream_counter

#: Elementwise: every operand is read once, every result written once.
ELEMENTWISE = Family(
    name="elementwise",
    meaning="one result per element",
    example="vectorized_elementwise_kernel",
    place=70,
    shares=(0.05, 0.90, 0.05),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=2.0),
    table=(TableOperator("elementwise", ("elements",), ("reads", "writes", "kind")),),
    words=(
        UserWords(
            230,
            "pointwise",
            "add addition sub subtract mul multiply div divide axpy saxpy daxpy axpby scal scale "
            "relu gelu silu sigmoid tanh softplus hardsigmoid hardswish mish selu elu celu activation "
            "swiglu elementwise pointwise triad babelstream vecadd "
            "vectoradd vector_add vec_add exp sqrt square saxpby waxpby map apply bias fma update "
            "increment inc clamp abs threshold mandelbrot blend ax vadd plus minus",
        ),
    ),
    streams=Streams.WHOLE,
    sequence=Sequence.STREAM,
)

#: Copies: cat, transpose, cast, pad, fill. No arithmetic but addresses.
COPY = Family(
    name="copy",
    meaning="cat, transpose, cast, pad, fill",
    example="CatArrayBatchedCopy",
    place=80,
    shares=(0.07, 0.88, 0.05),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=0.0, integer=4.0),
    operators={"copy": sizes(Reading.COPIED), **same_sizes("cat _cat stack", sizes(Reading.CONCATENATED))},
    words=(
        UserWords(
            220,
            "copy",
            "copy transpose permute memcpy memset fill cat concat cast pad reshape zero set init "
            "initialize transfer pack unpack swap convert upload clear load store rearrange "
            "reorder",
        ),
    ),
    streams=Streams.WHOLE,
    sequence=Sequence.STREAM,
)

#: Reductions: many elements in, few out.
REDUCTION = Family(
    name="reduction",
    meaning="many elements to few",
    example="reduce_kernel",
    place=90,
    shares=(0.25, 0.60, 0.15),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=1.0),
    operators=same_sizes(
        "sum mean amax amin max min argmax argmin prod std var any all norm linalg_vector_norm logsumexp "
        "nansum var_mean std_mean count_nonzero aminmax",
        sizes(Reading.REDUCED),
    ),
    words=(
        UserWords(
            150,
            "reduce",
            "histogram hist reduce reduction sum dot dotproduct norm nrm2 argmax argmin max min "
            "mean variance average std covar covariance corr correlation accumulate asum count",
        ),
    ),
    sequence=Sequence.STREAM,
    inferred="cols",
)

#: Gathers and scatters: rows at arbitrary places cost whole sectors.
GATHER_SCATTER = Family(
    name="gather_scatter",
    meaning="indexed reads or writes: embedding, index, cache write",
    example="indexSelectLargeIndex",
    place=100,
    shares=(0.20, 0.60, 0.20),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=0.0, integer=6.0, sectors=True),
    operators={
        "embedding": sizes(Reading.EMBEDDING, 0, 1),
        "index_select": sizes(Reading.EMBEDDING, 0, 2),
        **same_sizes(
            "reshape_and_cache_flash reshape_and_cache concat_and_cache_mla", sizes(Reading.TOKENS, 0, 2)
        ),
    },
    words=(UserWords(210, "index", "embedding gather scatter index lookup spmspv hash join probe"),),
    streams=Streams.OWN,
    sequence=Sequence.STREAM,
)

#: Sorts and top-k: keys pass through memory once per digit of 8 bits.
SORT = Family(
    name="sort",
    meaning="sort, top-k, selection",
    example="DeviceRadixSortOnesweepKernel",
    place=110,
    shares=(0.65, 0.25, 0.10),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=0.0, integer=24.0, passes=4.0),
    operators={"topk": sizes(Reading.AXIS, 0, 2), "sort": sizes(Reading.AXIS, 0, 1)},
    words=(
        UserWords(
            120, "sort", "sort bitonic radix radixsort mergesort quicksort topk oddeven odd_even partition"
        ),
    ),
    streams=Streams.OWN,
)

#: Prefix sums: one pass with look-back.
SCAN = Family(
    name="scan",
    meaning="prefix sum",
    example="DeviceScanKernel",
    place=120,
    shares=(0.15, 0.80, 0.05),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=2.0),
    operators=same_sizes("cumsum cumprod", sizes(Reading.AXIS, 0, 1)),
    words=(UserWords(130, "scan", "scan prefix prefixsum cumsum prescan"),),
    streams=Streams.OWN,
)

#: Pooling and resampling: windows overlap on chip.
POOLING = Family(
    name="pooling",
    meaning="pooling and resampling",
    example="max_pool_forward_nchw",
    place=130,
    shares=(0.40, 0.50, 0.10),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=9.0),
    operators={
        "max_pool2d_with_indices": sizes(Reading.POOLED, 0, indices=True),
        "avg_pool2d": sizes(Reading.POOLED, 0),
        "max_pool2d_with_indices_backward": sizes(Reading.POOLED, 1, backward=True, indices=True),
        "avg_pool2d_backward": sizes(Reading.POOLED, 1, backward=True),
    },
    words=(UserWords(140, "pool", "pool maxpool avgpool pooling upsample interpolate resize bilinear"),),
    streams=Streams.WHOLE,
)

#: Random numbers and dropout: a counter-based generator per element.
RNG = Family(
    name="rng",
    meaning="random numbers, dropout",
    example="distribution_elementwise_grid_stride_kernel",
    place=140,
    shares=(0.50, 0.40, 0.10),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=4.0, integer=20.0),
    words=(UserWords(160, "distribution", "rand random rng curand dropout noise bernoulli lcg"),),
    streams=Streams.WHOLE,
)

#: Optimizers: weights, gradients and moments pass through memory once.
OPTIMIZER = Family(
    name="optimizer",
    meaning="weight update over many tensors in one launch",
    example="multi_tensor_apply_kernel",
    place=150,
    shares=(0.15, 0.80, 0.05),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=12.0, sfu=1.0),
    words=(UserWords(170, "step", "adam adamw sgd optimizer lamb adagrad"),),
    streams=Streams.WHOLE,
    sequence=Sequence.STREAM,
)

#: Quantization: scales by a maximum, then a cast.
QUANTIZE = Family(
    name="quantize",
    meaning="number format with scales, either way",
    example="scaled_fp8_quant_kernel",
    place=160,
    shares=(0.30, 0.60, 0.10),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=4.0),
    words=(UserWords(110, "quantize", "quantize dequantize quant dequant quantization"),),
    streams=Streams.WHOLE,
    sequence=Sequence.STREAM,
)

#: Rotary embedding: two products and a sum per element.
ROPE = Family(
    name="rope",
    meaning="rotary position embedding",
    example="rotary_embedding_kernel",
    place=170,
    shares=(0.30, 0.50, 0.20),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=3.0, integer=4.0),
    operators={"rotary_embedding": sizes(Reading.TOKENS, 1, 2)},
    words=(UserWords(100, "rope", "rope rotary"),),
    streams=Streams.WHOLE,
    sequence=Sequence.STREAM,
)

#: Sampling: softmax, selection and a draw per row.
SAMPLING = Family(
    name="sampling",
    meaning="choice of the next token",
    example="TopPSamplingFromProbKernel",
    place=180,
    shares=(0.50, 0.30, 0.20),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=6.0, sfu=1.0, integer=12.0, passes=2.0),
    words=(UserWords(180, "sampling", "sampling sample sampler multinomial"),),
    streams=Streams.OWN,
)

#: Sums of the parts of a product whose K was split.
SPLITK_REDUCE = Family(
    name="splitk_reduce",
    meaning="sums the parts of a product whose K was split",
    example="splitKreduce_kernel",
    place=240,
    shares=(0.25, 0.60, 0.15),
    needs=(("elements",), ("rows", "cols")),
    count=stream_counter(flops=1.0),
    streams=Streams.OWN,
)

FAMILIES = (
    ELEMENTWISE,
    COPY,
    REDUCTION,
    GATHER_SCATTER,
    SORT,
    SCAN,
    POOLING,
    RNG,
    OPTIMIZER,
    QUANTIZE,
    ROPE,
    SAMPLING,
    SPLITK_REDUCE,
)
