"""Count the instructions of what kernels compute: compile each formula and follow its machine code.

usage: python benchmarks/instruction_counts.py CUDA [ARCHITECTURE ...]
       CUDA is a folder with bin/nvcc and bin/nvdisasm; default: sm_80, sm_90, sm_100
       (pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm nvidia-cuda-runtime nvidia-cuda-crt nvidia-nvvm
       nvidia-cuda-cccl puts one into site-packages/nvidia/cu13)

A thread loads 16 bytes, works on each element in FP32 and stores them. Counted is the shortest way from a
kernel's first instruction to its end, which leaves out branches that few numbers take, less that of the same
kernel that only copies, over its elements. Prints these beside those of families/operations.toml.
"""

from __future__ import annotations

import heapq
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tracetool.families.operations import operations

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
#: FP32 elements of 16 bytes.
ELEMENTS = 4
#: What PyTorch computes of x (and y), by operation.
FORMULAS = {
    "neg": "-x", "abs": "fabsf(x)", "square": "x * x", "relu": "x <= 0.f ? 0.f : x", "exp": "expf(x)",
    "leaky_relu": "x > 0.f ? x : x * s", "clamp": "fminf(fmaxf(x, s), t)", "log": "logf(x)",
    "sqrt": "sqrtf(x)",
    "rsqrt": "rsqrtf(x)", "reciprocal": "1.f / x", "tanh": "tanhf(x)", "sigmoid": "1.f / (1.f + expf(-x))",
    "silu": "x / (1.f + expf(-x))", "gelu": "x * 0.5f * (1.f + erff(x * 0.70710678f))", "sin": "sinf(x)",
    "gelu_tanh": "0.5f * x * (1.f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)))", "cos": "cosf(x)",
    "erf": "erff(x)", "mish": "x * tanhf(log1pf(expf(x)))",
    "hardswish": "x * fminf(fmaxf(x + 3.f, 0.f), 6.f) / 6.f",
}  # fmt: skip
OF_TWO = {
    "add": "x + s * y", "sub": "x - s * y", "mul": "x * y", "div": "x / y", "maximum": "fmaxf(x, y)",
    "compare": "x > y ? 1.f : 0.f", "where": "x > 0.f ? x : y", "relu_backward": "y <= 0.f ? 0.f : x",
    "tanh_backward": "x * (1.f - y * y)", "sigmoid_backward": "x * (1.f - y) * y",
    "silu_backward": "({ float g = 1.f / (1.f + expf(-y)); x * g * (1.f + y * (1.f - g)); })",
    "gelu_backward": "({ float c = 0.5f * (1.f + erff(y * 0.70710678f));"
    " x * (c + y * expf(-0.5f * y * y) * 0.3989422804f); })",
    "gelu_tanh_backward": "({ float h = tanhf(0.79788456f * (y + 0.044715f * y * y * y));"
    " float d = 0.5f * y * (1.f - h * h) * 0.79788456f * (1.f + 3.f * 0.044715f * y * y);"
    " x * (0.5f * (1.f + h) + d); })",
}  # fmt: skip
#: An instruction of machine code: address, predicate, operation and the rest of its line.
Instruction = tuple[int, bool, str, str]
_NORMS = """
struct Moments { float mean, m2, count; };
__device__ void welford(Moments& w, float4 p) {
    float v[4] = {p.x, p.y, p.z, p.w};
    #pragma unroll
    for (int j = 0; j < 4; j++) {
        float d = v[j] - w.mean, c = w.count + 1.f, m = w.mean + d * (1.f / c);
        w.m2 += d * (v[j] - m); w.mean = m; w.count = c;
    }
}
__device__ float squares(float4 p) { return p.x * p.x + p.y * p.y + p.z * p.z + p.w * p.w; }
#define STATISTICS(n) \\
extern "C" __global__ void welford##n(const float4* a, float* o) { \\
    Moments w = {0, 0, (float)threadIdx.x}; \\
    _Pragma("unroll") for (int i = 0; i < n; i++) welford(w, a[threadIdx.x + i * blockDim.x]); \\
    o[threadIdx.x] = w.mean + w.m2; } \\
extern "C" __global__ void squares##n(const float4* a, float* o) { \\
    float s = 0; \\
    _Pragma("unroll") for (int i = 0; i < n; i++) s += squares(a[threadIdx.x + i * blockDim.x]); \\
    o[threadIdx.x] = s; }
STATISTICS(1) STATISTICS(2)
extern "C" __global__ void scale(const float4* a, const float4* g, float4* o, float s) {
    int i = threadIdx.x; float4 p = a[i], q = g[i];
    o[i] = make_float4(q.x * (s * p.x), q.y * (s * p.y), q.z * (s * p.z), q.w * (s * p.w)); }
extern "C" __global__ void shift(const float4* a, const float4* g, const float4* b, float4* o, float s) {
    int i = threadIdx.x; float4 p = a[i], q = g[i], u = b[i]; float m = blockDim.x;
    o[i] = make_float4(q.x * (s * (p.x - m)) + u.x, q.y * (s * (p.y - m)) + u.y,
                       q.z * (s * (p.z - m)) + u.z, q.w * (s * (p.w - m)) + u.w); }
"""


def source() -> str:
    """Return a kernel for each formula, one that copies, and the parts of norms."""
    kernels = []
    for name, formula in {"copied": "x", **FORMULAS, **OF_TWO}.items():
        two = name in OF_TWO
        each = " ".join(
            f"{{ float x = p.{c}; {f'float y = q.{c};' if two else ''} r.{c} = {formula}; }}" for c in "xyzw"
        )
        second, loaded = ("const float4* b, ", "float4 q = b[i];") if two else ("", "")
        kernels.append(
            f'extern "C" __global__ void of_{name}(const float4* a, {second}float4* o, float s, float t) {{'
            " int i = blockIdx.x * blockDim.x + threadIdx.x; float4 p = a[i], r;"
            f" {loaded} {each} o[i] = r; }}"
        )
    return "\n".join([*kernels, _NORMS])


def shortest(code: list[Instruction]) -> int:
    """Return the instructions on the shortest way from the first to an exit that nothing guards."""
    places = {address: i for i, (address, *_) in enumerate(code)}
    heap, seen = [(0, 0)], set[int]()
    while heap:
        so_far, at = heapq.heappop(heap)
        if at in seen or at >= len(code):
            continue
        seen.add(at)
        _, guarded, operation, rest = code[at]
        so_far += operation != "NOP"
        if operation == "EXIT" and not guarded:
            return so_far
        target = re.search(r"0x([0-9a-f]+)", rest) if operation == "BRA" else None
        if target and int(target[1], 16) in places:
            heapq.heappush(heap, (so_far, places[int(target[1], 16)]))
        if operation not in {"BRA", "RET", "EXIT"} or guarded:
            heapq.heappush(heap, (so_far, at + 1))
    sys.exit("a kernel of the disassembly has no end")


def lengths(cuda: Path, architecture: str) -> Mapping[str, int]:
    """Return the instructions of each kernel's shortest way."""
    with tempfile.TemporaryDirectory() as folder:
        code, binary = Path(folder) / "k.cu", Path(folder) / "k.cubin"
        code.write_text(source())
        subprocess.run([cuda / "bin/nvcc", "-arch", architecture, "-cubin", "-o", binary, code], check=True)
        text = subprocess.run(
            [cuda / "bin/nvdisasm", "-c", binary], check=True, capture_output=True, text=True
        ).stdout
    found = {}
    for section in re.split(r"\.section\s+\.text\.", text)[1:]:
        found[section.split(",")[0].strip(' "')] = shortest(_code(section))
    return found


def _code(section: str) -> list[Instruction]:
    """Return the instructions of a kernel, their branches to addresses."""
    labels: dict[str, int] = {}
    waiting: list[str] = []
    code: list[Instruction] = []
    for line in section.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            waiting.append(label[1])
        elif found := re.match(r"\s*/\*([0-9a-f]+)\*/\s+(@!?U?P\w+\s+)?([A-Z0-9_]+)(.*)", line):
            address = int(found[1], 16)
            labels |= dict.fromkeys(waiting, address)
            waiting = []
            code.append((address, bool(found[2]), found[3], found[4]))

    def addressed(rest: str) -> str:
        return re.sub(r"\(?(\.L_x_\d+)\)?", lambda m: hex(labels.get(m[1], 0)), rest)

    return [(address, guarded, operation, addressed(rest)) for address, guarded, operation, rest in code]


def counted(cuda: Path, architecture: str) -> Mapping[str, float]:
    """Return the instructions per element of each operation."""
    of = lengths(cuda, architecture)
    found = {name: (of[f"of_{name}"] - of["of_copied"]) / ELEMENTS for name in FORMULAS}
    # of two operands: beyond the second load and its address, a product of a sum's slot stays
    found |= {name: (of[f"of_{name}"] - of["of_add"]) / ELEMENTS + 1.0 for name in OF_TWO}
    copied = of["of_copied"]
    found["layer_norm"] = (of["welford2"] - of["welford1"] + of["shift"] - copied) / ELEMENTS
    found["rms_norm"] = (of["squares2"] - of["squares1"] + of["scale"] - copied) / ELEMENTS
    return found


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    chosen = sys.argv[2:] or ARCHITECTURES
    every = [counted(Path(sys.argv[1]), architecture) for architecture in chosen]
    print(f"{'operation':20s}{'delivered':>10s}" + "".join(f"{a:>9s}" for a in chosen))
    for name, delivered in operations().items():
        if name in every[0]:
            print(f"{name:20s}{delivered:10.1f}" + "".join(f"{found[name]:9.1f}" for found in every))


if __name__ == "__main__":
    main()
