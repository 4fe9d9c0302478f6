"""Small readers that grammars share: number formats, counts, words that name a structure."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from tracetool.core.dtype import canonical_dtype
from tracetool.families.registry import families
from tracetool.kernels.grammar import Attributes, Sign
from tracetool.kernels.symbols import Symbol

#: Abbreviations of NVIDIA and AMD libraries and of CUTLASS, beside the spellings every package shares.
ABBREVIATIONS: Final[dict[str, str]] = {
    "fp16": "fp16", "f16": "fp16", "h": "fp16", "half_t": "fp16", "__half": "fp16", "half": "fp16", "_float16": "fp16",
    "nv_half": "fp16", "__half2": "fp16", "half2": "fp16", "df16_": "fp16", "fp16fp16": "fp16",
    "bf16": "bf16", "bfloat16_t": "bf16", "__hip_bfloat16": "bf16", "hip_bfloat16": "bf16", "nv_bfloat16": "bf16",
    "__nv_bfloat162": "bf16", "__bf16": "bf16", "bf16_t": "bf16", "rocblas_bfloat16": "bf16", "bfloat16": "bf16",
    "tf32": "tf32", "tfloat32_t": "tf32", "fp32": "fp32", "f32": "fp32", "s": "fp32", "float4": "fp32", "float2": "fp32",
    "xf32": "tf32", "fp64": "fp64", "f64": "fp64", "d": "fp64",
    "i8": "int8", "s8": "int8", "u8": "uint8", "int8": "int8", "i32": "int32", "s32": "int32", "i4": "int4", "s4": "int4",
    "e4m3": "fp8", "e5m2": "fp8", "f8": "fp8", "fp8": "fp8", "float_e4m3_t": "fp8", "float_e5m2_t": "fp8", "bf8": "fp8",
    "ue4m3": "fp8", "ue8m0": "fp8", "__nv_fp8_e4m3": "fp8", "__nv_fp8_e5m2": "fp8", "fp8_e4m3": "fp8", "e3m2": "fp8",
    "e2m3": "fp8", "mxfp8": "fp8", "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8", "f6": "fp8",
    "e2m1": "nvfp4", "f4": "nvfp4", "fp4": "nvfp4", "nvfp4": "nvfp4", "mxfp4": "mxfp4", "_Bool": "bool", "float_e2m1_t": "nvfp4", "mxe2m1": "mxfp4",
    "mxe4m3": "fp8", "c32": "complex64", "c64": "complex128", "cuComplex": "complex64", "cuDoubleComplex": "complex128",
    "int4": "int4", "uint4": "int4", "int8_t": "int8", "uint8_t": "uint8", "int64_t": "int64", "uint32_t": "int32",
    "unsigned long": "int64", "unsigned int": "int32", "long long": "int64",
}  # fmt: skip

_SCOPED = re.compile(r"(?:\w+::)*(\w+)")
_QUALIFIER = re.compile(r"\bconst\b|[*&]")


def number_format(text: str | None) -> str | None:
    """Return our name of a number format written as a type or an abbreviation, else None.

    >>> (
    ...     number_format("cutlass::half_t"),
    ...     number_format("c10::complex<double>"),
    ...     number_format("const float *"),
    ... )
    ('fp16', 'complex128', 'fp32')
    """
    if not text:
        return None
    plain = _QUALIFIER.sub("", text).strip()
    dtype = canonical_dtype(plain) or ABBREVIATIONS.get(plain) or ABBREVIATIONS.get(plain.lower())
    if dtype is None and "::" in plain:
        tail = _SCOPED.fullmatch(plain)
        if tail:
            dtype = canonical_dtype(tail[1]) or ABBREVIATIONS.get(tail[1].lower())
    if dtype is None and "complex<" in plain:
        dtype = "complex128" if "double" in plain else "complex64"
    return dtype


_FORMAT = re.compile(
    r"\b(?:c10::|cutlass::|__)?(?:nv_|hip_)?(?:BFloat16|bfloat16_t|bfloat16|bf16|__bf16|Half|half_t|half|fp16|float16|f16|fp8\w*|e4m3\w*|e5m2\w*|"
    r"e2m1\w*|float_e4m3_t|float_e5m2_t|float_e2m1_t|Float8_\w+|mxfp4|nvfp4|fp4|int8_t|int8|i8|tf32|float32|fp32|f32|float|double|fp64|f64)\b",
    re.IGNORECASE,
)
_FLAT = re.compile(
    r"(?:^|_)(bf16|bfloat16|fp16|f16|half|float16|fp8(?:_?e[45][a-z\d]{0,6})?|f8|e4m3|e5m2|mxfp4|mxfp8|nvfp4|fp4|e2m1|int8|i8|tf32|fp32|f32|float32|float|double|fp64|f64)(?=_|$|x)"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words(name: str) -> list[str]:
    """Split a name at underscores, digits and capitals, lower case.

    >>> words("FusedAddRMSNorm_kernel2d")
    ['fused', 'add', 'rms', 'norm', 'kernel', '2', 'd']
    """
    return [w.lower() for w in _WORD.findall(name)]


def format_in(text: str) -> str | None:
    """Return the first number format spelled in a text.

    >>> format_in("vllm::rms_norm_kernel<c10::Half>"), format_in("fmoe_bf16_g1u1")
    ('fp16', 'bf16')
    >>> format_in("_w8a8_block_fp8_matmul"), format_in("quant_fp8_e4m3_kernel")
    ('fp8', 'fp8')
    """
    spelled = _FORMAT.search(text)
    flat = None if spelled else _FLAT.search(text)
    word = spelled[0] if spelled else flat[1] if flat else ""
    return number_format("fp8" if word.lower().startswith("fp8") else word)


def typed(symbol: Symbol) -> str | None:
    """Return the first number format among the template arguments, else in the head symbol."""
    for argument in symbol.arguments[:12]:
        dtype = number_format(argument) or (format_in(argument) if len(argument) < 400 else None)
        if dtype and dtype not in ("int32", "int64", "bool"):
            return dtype
    return format_in(symbol.head)


def typed_as(**fixed: str | int | bool | None) -> Sign:
    """Return a reader that states the number format and what is given."""

    def sign(match: re.Match[str], symbol: Symbol) -> Attributes:
        return {"dtype": typed(symbol), **fixed}

    return sign


def numbers_of(symbol: Symbol) -> list[int]:
    """Return the plain integers among the template arguments, in order."""
    return [int(a) for a in symbol.arguments if a.lstrip("-").isdigit() and len(a) < 10]


def _table() -> dict[str, tuple[int, str, str]]:
    """Return rank, family and op of each word, or pair of neighboring words joined; the lowest rank answers."""
    all_words = [(words.rank, name, words) for name, f in families().items() for words in f.words]
    ranked = sorted(all_words, key=lambda entry: entry[:2])
    by_word: dict[str, tuple[int, str, str]] = {}
    for rank, name, stated in ranked:
        for word in stated.words.split():
            by_word.setdefault(word.replace("_", ""), (rank, name, stated.op))
    return by_word


_BY_WORD = _table()
#: Words that say what a kernel does only as its first one, the verb: a set of levels is no copy.
_VERBS = frozenset(("set",))
_SILENT = re.compile(r"triton__?\d*d|kernel_?\d*$|[a-z]$|fusion|Kernel2?$|device_kernel$")
#: Names longer than this are no user's.
_LONGEST = 200


def by_words(name: str) -> tuple[str, str] | None:
    """Return family and op by the words of a plain name, None without such a word.

    >>> by_words("matrixMulShared"), by_words("jacobi_step"), by_words("foo")
    (('gemm', 'gemm'), ('stencil', 'stencil'), None)
    """
    if _SILENT.match(name):
        return None
    head = name[:_LONGEST]
    name_words = [w for w in words(head) if not w.isdigit()]
    name_words = name_words[:1] + [w for w in name_words[1:] if w not in _VERBS]
    joined = [*name_words, *(a + b for a, b in pairwise(name_words)), head.lower()]
    hits = sorted(_BY_WORD[w] for w in joined if w in _BY_WORD)
    return hits[0][1:] if hits else None
