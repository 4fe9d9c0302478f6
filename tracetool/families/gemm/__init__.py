"""Matrix products: GEMM and GEMV."""
