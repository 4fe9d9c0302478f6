"""Draw docs/time.svg: predicted against measured time of single operators.

usage: python benchmarks/picture_time.py [DATA_ROOT]      default: ../shared/data
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

from tracetool.hardware.load import load_gpu
from tracetool.model.predict import predict_rows
from tracetool.workflows.tables import read_table

HERE = Path(__file__).resolve().parent.parent
PANELS = {
    "gemm": "matrix products",
    "context_attention": "prefill attention",
    "generation_attention": "decode attention",
    "moe": "mixtures of experts",
}
COLOURS = {"a100-sxm": "#7b3294", "h100-sxm": "#008837", "h200-sxm": "#2166ac", "b200-sxm": "#d6604d"}
SIDE, EDGE, DECADES, FIRST = 260, 46, 5.0, 0.0  # pixels, pixels, log10 us


def _place(us: np.ndarray) -> np.ndarray:
    return np.asarray((np.log10(us) - FIRST) / DECADES * SIDE)


def _panel(root: Path, kind: str, left: int) -> list[str]:
    x0, y0 = left, EDGE + SIDE
    made = [f'<rect x="{x0}" y="{EDGE}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>']
    made.append(f'<text x="{x0 + SIDE / 2}" y="{EDGE - 10}" text-anchor="middle">{PANELS[kind]}</text>')
    made.append(f'<path d="M{x0} {y0}L{x0 + SIDE} {EDGE}" stroke="#999"/>')
    for power in range(int(DECADES) + 1):
        at = power / DECADES * SIDE
        label = f"{10**power:g}"
        made.append(
            f'<text x="{x0 + at:.0f}" y="{y0 + 14}" text-anchor="middle" font-size="9">{label}</text>'
        )
        made.append(
            f'<text x="{x0 - 4}" y="{y0 - at + 3:.0f}" text-anchor="end" font-size="9">{label}</text>'
        )
    for path in sorted((root / "ops").glob(f"*_{kind}.parquet")):
        frame = pl.read_parquet(path).sample(250, seed=7)
        gpu = load_gpu(frame["gpu"][0])
        table = read_table(frame.drop("measured_us", "gpu", "measured_w", "power_limit_w", strict=False))
        timing = predict_rows(table.rows, gpu, np.array([gpu.clock_boost_mhz])).timing
        x = x0 + _place(frame["measured_us"].to_numpy())
        y = y0 - _place(timing.duration_s[table.index, 0] * 1e6)
        dots = "".join(f"M{a:.0f} {b:.0f}h2" for a, b in zip(x, y, strict=True))
        made.append(
            f'<path d="{dots}" stroke="{COLOURS.get(gpu.name, "#333")}" stroke-width="2" opacity=".6"/>'
        )
    return made


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "shared" / "data")
    width, height = len(PANELS) * (SIDE + EDGE) + 20, SIDE + 2 * EDGE + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        '<g font-family="sans-serif" font-size="12">',
    ]
    lines.append(f'<rect width="{width}" height="{height}" fill="#fff"/>')
    for i, kind in enumerate(PANELS):
        lines += _panel(root, kind, EDGE + i * (SIDE + EDGE))
    for i, (name, colour) in enumerate(COLOURS.items()):
        lines.append(f'<text x="{EDGE + i * 110}" y="{height - 8}" fill="{colour}">{name}</text>')
    lines.append(
        f'<text x="{EDGE + 460}" y="{height - 8}" fill="#333">across: measured, up: predicted [us]</text>'
    )
    (HERE / "docs" / "time.svg").write_text("\n".join([*lines, "</g></svg>"]) + "\n")


if __name__ == "__main__":
    main()
