"""Fourier transforms, sparse and dense linear algebra, random numbers: cuFFT, rocFFT, VkFFT, cuSPARSE, rocSPARSE, cuSOLVER, MAGMA, cuRAND."""

from __future__ import annotations

from tracetool.kernels.grammar import Grammar, Rule, Token
from tracetool.kernels.name_readers import typed_as

GRAMMAR = Grammar(
    library="math",
    title="Fourier transforms, sparse and dense linear algebra, random numbers",
    source="names in public traces; ROCm/rocFFT, library/src (stockham kernels); DTolm/VkFFT; ROCm/rocSPARSE, library/src/level2; cuSPARSE, cuSOLVER and cuRAND of the CUDA toolkit",
    gate=r"fft|FFT|regular_|spRadix|dpRadix|hpRadix|stockham|transpose_(?:xy_z|z_xy)|bluestein|cusparse|rocsparse|(?:^|_|:)(?:csr|csc|coo|bsr|ell|sell|spm[vm]|sddmm|spgemm)|sparse|curand|rocrand|hiprand|generate_seed|gen_sequenced|philox|xorwow|mrg32|cusolver|rocsolver|magma|(?:^|_|:)(?:getrf|getri|potrf|geqrf|[sdcz]?trsm|[sdcz]?trsv|trtri|syrk|gesvd|syevd|larf|laswp|lu_|cholesky)|spt?rs[vm]|sps[vm]_|load_balancing|merge_path|ellpack",
    rules=(
        Rule(r"\w*(?:curand|rocrand|hiprand|generate_seed|gen_sequenced|philox|xorwow|mrg32|Philox)\w*", "rng", "distribution", sign=typed_as()),
        Rule(r"(?:\w+::)*(?:curand|rocrand|hiprand)", "rng", "distribution", where="scope", sign=typed_as()),
        Rule(r"\w*(?:fft|FFT|spRadix|dpRadix|hpRadix|stockham|bluestein|Bluestein|regular_)\w*", "fft", "fft", sign=typed_as()),
        Rule(r"transpose_(?:xy_z|z_xy)\w*", "fft", "fft_transpose", sign=typed_as()),
        Rule(r"\w*(?:csrsv|csrsm|bsrsv|bsrsm|gtsv|sptrs[vm]|spsv_|spsm_)\w*", "sparse", "triangular_solve", sign=typed_as()),
        Rule(r"(?:\w*_)?(?:csr|csc|coo|bsr|ell|sell|spm[vm]|sddmm|spgemm)\w*|\w*(?:sparse|load_balancing|merge_path|ellpack)\w*", "sparse", "sparse", sign=typed_as()),
        Rule(r"(?:\w+::)*(?:cusparse|rocsparse)\w*", "sparse", "sparse", where="scope", sign=typed_as()),
        Rule(r"magma\w*gemv\w*", "gemv", "gemv", sign=typed_as(library="magma")),
        Rule(r"magma\w*gemm\w*", "gemm", "gemm", sign=typed_as(library="magma")),
        Rule(r"(?:\w*_)?[sdcz]?(?:trsm|trsv)\w*", "other", "triangular_solve", sign=typed_as()),
        Rule(r"(?:\w*_)?(?:cusolver|rocsolver|magma|getrf|getri|potrf|geqrf|trtri|syrk|gesvd|syevd|larf|laswp|lu_|cholesky)\w*", "other", "linalg", sign=typed_as()),
        Rule(r"(?:\w+::)*(?:cusolver|rocsolver|magma|cublas)\w*", "other", "linalg", where="scope", sign=typed_as()),
    ),
    tokens=(
        Token(r"regular_fft|vector_fft|\w*radix\w*|\w*Radix\w*", "Fourier transform, by its radix"),
        Token(r"csrmv\w*|csrmm\w*|csr\w*|coo\w*", "compressed rows, or coordinates"),
        Token(r"xorwow|philox\w*|mrg32\w*", "generator"),
        Token(r"getrf|potrf|geqrf|trsm", "LU, Cholesky, QR, triangular solve"),
    ),
    examples={
        "void regular_fft<512u, EPT<8u>, 64u, 8u, (padding_t)1>(kernel_parameters_t)": "fft",
        "void cusparse::csrmv_v3_kernel<int, int, double, double, double, double>(cusparse::KernelCoeffs<double>)": "sparse",
        "void generate_seed_pseudo<rng_config<curandStateXORWOW>>(unsigned long long)": "rng",
    },
    rank=40,
)  # fmt: skip
