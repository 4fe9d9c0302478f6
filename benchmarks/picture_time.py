"""Draw what the time model predicts against what was measured: docs/time.svg and one picture a family.

usage: python benchmarks/picture_time.py [DATA_ROOT] [PICTURE ...]      default: ../shared/data, every picture

Each dot is one operator, a few hundred of each GPU, at the GPU's own coefficients. Of the FP32 set the
host's wait and the bias are fitted to the dots and added: they are not the kernel's (``latency_loop.py``).
Convolutions and copies are those of recorded runs (``real_kernels.py``), collectives of ``collectives.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from fit_collectives import load_rows
from latency_loop import Setting, fitted_loop, throttles
from latency_tables import latency_rows, latency_tables
from real_kernels import compared

from tracetool.core.arrays import Floats
from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.model.timing import row_pieces
from tracetool.replay.operator_tables import read_table

HERE = Path(__file__).resolve().parent.parent
DOCS = HERE / "docs"
#: Picture, and its panels: title and the kinds of data in it.
PICTURES: dict[Path, dict[str, tuple[str, ...]]] = {
    DOCS / "time.svg": {
        "matrix products": ("gemm",),
        "prefill attention": ("context_attention",),
        "decode attention": ("generation_attention",),
        "mixtures of experts": ("moe",),
    },
    DOCS / "families" / "gemm.svg": {"matrix products on tensor cores": ("gemm",)},
    DOCS / "families" / "prefill.svg": {"prefill attention": ("context_attention",)},
    DOCS / "families" / "decode.svg": {"decode attention": ("generation_attention",)},
    DOCS / "families" / "moe.svg": {"mixtures of experts": ("moe",)},
    DOCS / "families" / "vectors.svg": {
        "FP32 products": ("linear", "amd_linear"),
        "FP32 batches of products": ("bmm", "amd_bmm"),
    },
    DOCS / "families" / "rows.svg": {"layer norms": ("ln",), "softmax": ("softmax",)},
    DOCS / "families" / "streams.svg": {"elementwise": ("elem",)},
    DOCS / "families" / "conv.svg": {"recorded convolutions": ("recorded conv",)},
    DOCS / "families" / "collectives.svg": {
        "NCCL": ("NCCL",),
        "libraries' own all-reduces": ("all_reduce",),
    },
    DOCS / "families" / "links.svg": {
        "recorded copies to and from the host": ("recorded link",),
        "recorded copies and sets on the device": ("recorded inside",),
    },
}
COLORS = {
    "a100-sxm": "#7b3294", "h100-sxm": "#008837", "h200-sxm": "#2166ac", "b200-sxm": "#d6604d",
    "a100-pcie-40gb": "#7b3294", "v100-pcie": "#008837", "p100-pcie": "#2166ac", "t4": "#d6604d",
    "mi100": "#8c6d31", "mi210": "#333333", "mi300x": "#8c6d31", "v100-sxm2-16gb": "#008837",
    "a100-sxm-40gb": "#7b3294", "a30": "#c51b7d", "rtx-3090": "#e08214", "rtx-a4500": "#2166ac",
    "rtx-2080-ti": "#666666", "l40s": "#8c6d31",
}  # fmt: skip
OPERATORS = {"gemm", "context_attention", "generation_attention", "moe"}
LATENCIES = {"linear", "amd_linear", "bmm", "amd_bmm", "ln", "softmax", "elem"}
COLLECTIVES = {"NCCL", "all_reduce"}
RECORDED = {"recorded conv", "recorded link", "recorded inside"}
SIDE, EDGE, DECADES = 260, 46, 5.0  # pixels, pixels, log10
DOTS = 250


@dataclass(frozen=True)
class Dots:
    """Operators of one kind on one GPU. Shape (n,) each. [us]"""

    gpu: str
    kind: str
    measured: Floats
    predicted: Floats


def _operators(root: Path) -> Iterator[Dots]:
    for path in sorted((root / "ops").glob("*.parquet")):
        frame = pl.read_parquet(path)
        frame = frame.sample(min(DOTS, len(frame)), seed=7)
        gpu = load_gpu(frame["gpu"][0])
        table = read_table(frame.drop("measured_us", "gpu", "measured_w", "power_limit_w", strict=False))
        timing = predict_rows(table.rows, gpu, np.array([gpu.clock_boost_mhz])).timing
        kind = path.stem.split("_", 2)[2]
        yield Dots(gpu.name, kind, frame["measured_us"].to_numpy(), timing.duration_s[table.index, 0] * 1e6)


def _collectives(root: Path) -> Iterator[Dots]:
    for part in load_rows(root / "stacks"):
        nccl = (part.frame["implementation"] == "NCCL").to_numpy()
        for kind, chosen in (("NCCL", nccl), ("all_reduce", ~nccl)):
            some = part.take(chosen)
            timing = predict_rows(some.columns, some.gpu, np.array([some.gpu.clock_boost_mhz])).timing
            yield Dots(some.gpu.name, kind, some.measured_us, timing.duration_s[:, 0] * 1e6)


def _latencies(root: Path) -> Iterator[Dots]:
    for name, kind, table in latency_tables(root / "latency"):
        gpu, some = load_gpu(name), table.sample(min(DOTS, len(table)), seed=7)
        rows, measured = latency_rows(some), some["measured_us"].to_numpy()
        boost = np.array([gpu.clock_boost_mhz])
        settled = predict_rows(rows, gpu, boost).clock_mhz[:, 0]
        slowed = bool((rows.family == "gemm").all()) and throttles(settled, gpu)
        hertz = np.full((len(rows), 1), boost * 1e6)
        pieces, setting = row_pieces(rows, gpu).pieces, Setting.of(rows, gpu)
        every = np.ones(len(rows), dtype=bool)
        loop = fitted_loop(pieces, hertz, setting, measured * 1e-6, throttles=slowed, chosen=every)
        yield Dots(name, kind, measured, loop.seconds(pieces, hertz, setting) * 1e6)


def _recorded(root: Path) -> Iterator[Dots]:
    rows = compared(root).filter(pl.col("family").is_in(["conv", "memcpy", "memset"]))
    link = (pl.col("family") == "memcpy") & pl.col("name").str.contains("HtoD|DtoH")
    host = pl.when(link).then(pl.lit("recorded link")).otherwise(pl.lit("recorded inside"))
    kind = pl.when(pl.col("family") == "conv").then(pl.lit("recorded conv")).otherwise(host)
    for (gpu, name), some in rows.with_columns(kind.alias("kind")).group_by(
        "gpu", "kind", maintain_order=True
    ):
        yield Dots(str(gpu), str(name), some["measured_us"].to_numpy(), some["duration_us"].to_numpy())


def _panel(title: str, dots: list[Dots], left: int) -> list[str]:
    first = np.floor(min(np.log10(d.measured.min()) for d in dots))
    x0, y0 = left, EDGE + SIDE

    def place(us: Floats) -> Floats:
        return np.asarray(np.clip((np.log10(us) - first) / DECADES, 0.0, 1.0) * SIDE)

    made = [
        f'<rect x="{x0}" y="{EDGE}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>',
        f'<text x="{x0 + SIDE / 2}" y="{EDGE - 10}" text-anchor="middle">{title}</text>',
        f'<path d="M{x0} {y0}L{x0 + SIDE} {EDGE}" stroke="#999"/>',
    ]
    for power in range(int(DECADES) + 1):
        at, label = power / DECADES * SIDE, f"{10 ** (first + power):g}"
        small = 'font-size="9"'
        made.append(f'<text x="{x0 + at:.0f}" y="{y0 + 14}" text-anchor="middle" {small}>{label}</text>')
        made.append(f'<text x="{x0 - 4}" y="{y0 - at + 3:.0f}" text-anchor="end" {small}>{label}</text>')
    for one in dots:
        x, y = x0 + place(one.measured), y0 - place(one.predicted)
        path = "".join(f"M{a:.0f} {b:.0f}h2" for a, b in zip(x, y, strict=True))
        made.append(f'<path d="{path}" stroke="{COLORS[one.gpu]}" stroke-width="2" opacity=".6"/>')
    return made


def _picture(panels: dict[str, list[Dots]]) -> str:
    names = sorted({d.gpu for dots in panels.values() for d in dots})
    wide = max(len(panels) * (SIDE + EDGE) + 20, 2 * EDGE + SIDE)
    lines = -(-len(names) * 110 // (wide - EDGE))
    height = SIDE + 2 * EDGE + 14 + 16 * (lines + 1)
    told = ", ".join(
        f"{title} on {', '.join(sorted({d.gpu for d in dots}))}" for title, dots in panels.items()
    )
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {height}" role="img">',
        f"<title>Predicted against measured time: {told}</title>",
        '<g font-family="sans-serif" font-size="12">',
        f'<rect width="{wide}" height="{height}" fill="#fff"/>',
    ]
    for i, (title, dots) in enumerate(panels.items()):
        made += _panel(title, dots, EDGE + i * (SIDE + EDGE))
    under, row = SIDE + 2 * EDGE, max(1, (wide - EDGE) // 110)
    made.append(f'<text x="{EDGE}" y="{under - 4}" fill="#333">across: measured, up: predicted [us]</text>')
    for i, name in enumerate(names):
        x, y = EDGE + (i % row) * 110, under + 14 + 16 * (i // row)
        made.append(f'<text x="{x}" y="{y}" fill="{COLORS[name]}">{name}</text>')
    return "\n".join([*made, "</g></svg>"]) + "\n"


def main() -> None:
    asked = sys.argv[1:]
    root = Path(asked.pop(0)) if asked and Path(asked[0]).is_dir() else HERE.parent / "shared" / "data"
    chosen = {path: panels for path, panels in PICTURES.items() if not asked or path.stem in asked}
    kinds = {kind for panels in chosen.values() for some in panels.values() for kind in some}
    dots: list[Dots] = []
    for source, of in (
        (_operators, OPERATORS),
        (_latencies, LATENCIES),
        (_recorded, RECORDED),
        (_collectives, COLLECTIVES),
    ):
        if kinds & of:
            dots += source(root)
    for path, panels in chosen.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(_picture({t: [d for d in dots if d.kind in some] for t, some in panels.items()}))


if __name__ == "__main__":
    main()
