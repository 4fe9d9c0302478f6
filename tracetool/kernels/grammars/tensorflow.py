"""TensorFlow and Eigen kernels, ONNX Runtime, PaddlePaddle, MXNet, CuPy."""

from __future__ import annotations

from tracetool.kernels.grammar import Grammar, Rule, Token
from tracetool.kernels.name_readers import typed_as

GRAMMAR = Grammar(
    library="tensorflow",
    title="TensorFlow, Eigen, ONNX Runtime, Paddle, CuPy",
    source="tensorflow/tensorflow, tensorflow/core/kernels; Eigen, unsupported/Eigen/CXX11/src/Tensor; microsoft/onnxruntime, onnxruntime/core/providers/cuda; cupy/cupy, cupy/_core",
    gate=r"tensorflow|Eigen|EigenMeta|onnxruntime|paddle|phi::|cupy|mxnet|mshadow",
    rules=(
        Rule(r"MatMulFloat\w*", "gemv", "quantized_gemv", sign=typed_as()),  # weights of 4 or 8 bits times a row
        Rule(r"\w*(?:[Qq]uanti[sz]e)\w*", "quantize", "quantize", sign=typed_as()),
        Rule(r"\w*(?:Rotary|RoPE|rotary)\w*", "rope", "rope", sign=typed_as()),
        Rule(r"\w*(?:[Mm]at[Mm]ul|[Gg]emm|[Gg]emv)\w*", "gemm", "gemm", sign=typed_as()),
        Rule(r"\w*(?:Random|random|Philox|dropout|Dropout)\w*", "rng", "distribution", sign=typed_as()),
        Rule(r"\w*(?:SwapDimension|ShuffleInTensor|Transpose|transpose|Concat|Split|Pad|Tile|Copy|copy|Cast|Slice|Fill)\w*", "copy", "layout", sign=typed_as()),
        Rule(r"\w*(?:LayerNorm|BatchNorm|FusedBatch|Norm)\w*", "norm", "norm", sign=typed_as()),
        Rule(r"\w*(?:Softmax|softmax)\w*", "softmax", "softmax", sign=typed_as()),
        Rule(r"\w*(?:Depthwise|Conv2D|Conv3D)\w*", "conv", "conv_fwd", sign=typed_as()),
        Rule(r"\w*(?:Pool|ResizeBilinear|ResizeNearest|Upsample)\w*", "pooling", "pool", sign=typed_as()),
        Rule(r"\w*(?:Gather|Scatter|Embedding|Segment|OneHot|gather|scatter)\w*", "gather_scatter", "index", sign=typed_as()),
        Rule(r"\w*(?:Adam|Momentum|GradientDescent|Adagrad|Lamb)\w*", "optimizer", "step", sign=typed_as()),
        Rule(r"\w*(?:TopK|Sort|sort)\w*", "sort", "sort", sign=typed_as()),
        Rule(r"\w*(?:Attention|attention)\w*", "attention", "attention", sign=typed_as()),
        Rule(r"\w*(?:[Rr]educ|BiasGrad|BiasNCHW|ColumnReduce|RowReduce|sum)\w*", "reduction", "reduce", sign=typed_as()),
        Rule(r"\w*(?:Scan|Cumsum|scan)\w*", "scan", "scan", sign=typed_as()),
        Rule(r"(?:\w+::)*(?:tensorflow|Eigen|onnxruntime|paddle|phi|mxnet|mshadow)::\w", "elementwise", "pointwise", where="scope", sign=typed_as()),
        Rule(r"(?:cupy|EigenMeta)\w*", "elementwise", "pointwise", sign=typed_as()),
    ),
    tokens=(Token(r"EigenMetaKernel", "Eigen expression, one element per thread"), Token(r"cupy_\w+", "CuPy: the ufunc's name follows")),
    examples={"void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<float>, int>(float)": "elementwise"},
    rank=23,
)  # fmt: skip
