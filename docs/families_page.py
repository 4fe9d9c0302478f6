"""Write the tables of the pages of families: errors held back and coefficients, as the calibrations state them.

``python docs/families_page.py`` rewrites what stands between the two marks of each page of ``families/`` and of
``time-model.md``. The pictures beside them come from ``benchmarks/picture_time.py``, which needs the measurements.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from tracetool.families.implementations import implementations
from tracetool.families.pricing import laws
from tracetool.hardware.calibrated import CalibrationFile, calibrated_gpus, own_calibration

DOCS = Path(__file__).resolve().parent
#: Pages and the laws they are about.
PAGES = {
    "gemm": ("gemm", "gemm_older", "gemm_fp8", "gemm_fp8_block", "gemm_fp4"),
    "formats": ("gemm_weight_only",),
    "vectors": ("gemm_vector",),
    "conv": ("conv", "conv_vector"),
    "prefill": ("prefill", "encoder", "efficient_attention"),
    "decode": ("decode",),
    "mla": ("mla_prefill", "mla_decode"),
    "gdn": ("gdn_chunk", "gdn_update", "conv1d", "conv1d_update", "gdn"),
    "mamba2": ("mamba2",),
    "moe": ("moe", "moe_fp8", "moe_fp8_block", "moe_fp4", "moe_weight_only"),
    "rows": ("norm", "softmax"),
    "streams": ("stream",),
    "collectives": ("collective", "collective_host"),
    "links": ("copy",),
}
START, END = "<!-- written by docs/families_page.py -->", "<!-- end -->"
BLOCK = re.compile(f"{re.escape(START)}.*?{re.escape(END)}", re.DOTALL)


def _files() -> dict[str, CalibrationFile]:
    found = {name: own_calibration(name, "time") for name in calibrated_gpus("time")}
    return {name: file for name, file in found.items() if file is not None}


def _said(file: CalibrationFile, key: str) -> str:
    value = file.about.get(key)
    return f"{float(value):.3g}" if value is not None else "-"


def errors(names: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of the errors of laws on each GPU."""
    yield "| law | GPU | rows | MAPE % | MdAPE % | 90 % interval holds % |"
    yield "|---|---|---|---|---|---|"
    for law in names:
        for board, file in _files().items():
            if file.section(law):
                told = (
                    _said(file, f"{key}_{law}")
                    for key in ("held_out_mape_percent", "held_out_mdape_percent", "interval_holds_percent")
                )
                rows = int(float(file.about.get(f"rows_{law}", 0)))
                yield f"| {law} | {board} | {rows} | {' | '.join(told)} |"


def coefficients(law: str) -> Iterator[str]:
    """Yield the lines of a law's coefficients: bounds, prior and each GPU's."""
    have = {board: file for board, file in _files().items() if file.section(law)}
    yield "| " + " | ".join([law, "unit", "bounds", "prior", *have]) + " |"
    yield "|---" * (4 + len(have)) + "|"
    for key, one in laws()[law].priors.items():
        choices = ", ".join(f"{c:g}" for c in one.choices)
        bounds = choices or (f"{one.low:g} to {one.high:g}" if one.fitted else "fixed")
        values = [f"{f.section(law)[key].value:.3g}" if key in f.section(law) else "-" for f in have.values()]
        yield "| " + " | ".join([f"`{key}`", one.unit, bounds, f"{one.value:.3g}", *values]) + " |"


def fitted(names: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of the implementations of laws."""
    yield "| law | implementation | library | GPUs measured | measured / predicted |"
    yield "|---|---|---|---|---|"
    for law in names:
        for one in implementations(law):
            low, high = (math.exp(side) for side in one.laws[law].band)
            gpus = ", ".join(one.laws[law].gpus)
            yield f"| {law} | {one.name} | {one.stack or 'any'} | {gpus} | {low:.2f} to {high:.2f} |"


def block(names: tuple[str, ...]) -> str:
    """Return the generated part of a page."""
    lines = [START, ""]
    if any(file.section(law) for law in names for file in _files().values()):
        lines += ["Errors on shapes held back, by GPU:", "", *errors(names), ""]
    else:
        lines += ["No GPU has coefficients of its own.", ""]
    if any(implementations(law) for law in names):
        lines += [
            "Implementations fitted for all GPUs at once ([how](../time-model.md#libraries)), with the 90 % band of"
        ]
        lines += ["measured over predicted on shapes held back:", "", *fitted(names), ""]
    for law in names:
        if laws()[law].parent not in names:  # else its parent's, of other values
            lines += [*coefficients(law), ""]
    return "\n".join([*lines, END])


def summary() -> str:
    """Return the generated part of the page of the whole model."""
    return "\n".join([START, "", *errors(tuple(laws())), "", END])


def _replaced(text: str, part: str) -> str:
    found = BLOCK.search(text)
    if found is None:
        raise SystemExit(f"a page is missing the marks {START} and {END}")
    return text[: found.start()] + part + text[found.end() :]


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page and its text as it should be."""
    parts = {DOCS / "families" / f"{page}.md": block(names) for page, names in PAGES.items()}
    parts[DOCS / "time-model.md"] = summary()
    for path, part in parts.items():
        yield path, _replaced(path.read_text("utf-8"), part)


def main() -> None:
    """Rewrite the pages."""
    for path, text in pages():
        path.write_text(text, "utf-8")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
