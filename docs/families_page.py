"""Write the tables of the pages of families: errors held back and coefficients, as the calibrations state them.

``python docs/families_page.py`` rewrites what stands between the two marks of each page of ``families/`` and of
``time-model.md``. The pictures beside them come from ``benchmarks/picture_time.py``, which needs the measurements.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tracetool.families.implementations import implementations
from tracetool.families.pricing import laws
from tracetool.hardware.coefficient_files import CalibrationFile, calibrated_gpus, own_calibration

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
    "collectives": ("collective", "collective_servers", "collective_host"),
    "links": ("copy",),
}
START, END = "<!-- written by docs/families_page.py -->", "<!-- end -->"
COUNTED = "<!-- written by docs/families_page.py: counted -->"


def _files() -> dict[str, CalibrationFile]:
    files = {name: own_calibration(name, "time") for name in calibrated_gpus("time")}
    return {name: file for name, file in files.items() if file is not None}


def _stated(file: CalibrationFile, key: str) -> str:
    value = file.about.get(key)
    return f"{float(value):.3g}" if value is not None else "-"


def errors(names: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of the errors of laws on each GPU."""
    yield "| law | GPU | rows | MAPE % | MdAPE % | 90 % interval holds % |"
    yield "|---|---|---|---|---|---|"
    for law in names:
        for gpu, file in _files().items():
            if file.section(law):
                percents = (
                    _stated(file, f"{key}_{law}")
                    for key in ("held_out_mape_percent", "held_out_mdape_percent", "interval_holds_percent")
                )
                rows = int(float(file.about.get(f"rows_{law}", 0)))
                yield f"| {law} | {gpu} | {rows} | {' | '.join(percents)} |"


def coefficients(law: str) -> Iterator[str]:
    """Yield the lines of a law's coefficients: bounds, prior and each GPU's."""
    fitted_files = {gpu: file for gpu, file in _files().items() if file.section(law)}
    yield "| " + " | ".join([law, "unit", "bounds", "prior", *fitted_files]) + " |"
    yield "|---" * (4 + len(fitted_files)) + "|"
    for key, prior in laws()[law].priors.items():
        choices = ", ".join(f"{c:g}" for c in prior.choices)
        bounds = choices or (f"{prior.low:g} to {prior.high:g}" if prior.fitted else "fixed")
        values = [
            f"{f.section(law)[key].value:.3g}" if key in f.section(law) else "-"
            for f in fitted_files.values()
        ]
        yield "| " + " | ".join([f"`{key}`", prior.unit, bounds, f"{prior.value:.3g}", *values]) + " |"


def fitted(names: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of the implementations of laws."""
    yield "| law | implementation | library | GPUs measured | measured / predicted |"
    yield "|---|---|---|---|---|"
    for law in names:
        for kernel in implementations(law):
            low, high = (math.exp(side) for side in kernel.laws[law].band)
            gpus = ", ".join(kernel.laws[law].gpus)
            yield f"| {law} | {kernel.name} | {kernel.stack or 'any'} | {gpus} | {low:.2f} to {high:.2f} |"


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


def counted() -> str:
    """Return how many numbers the implementations' files hold, for how many pairs of one's law and a GPU."""
    fits_by_law = {name: [kernel.laws[name] for kernel in implementations(name)] for name in laws()}
    fits = [fit for law_fits in fits_by_law.values() for fit in law_fits]
    overrides = [v for fit in fits for v in (*fit.by_architecture.values(), *fit.by_version.values())]
    count = sum(len(fit.values) for fit in fits) + sum(map(len, overrides))
    pairs = sum(len(fit.gpus) for fit in fits)
    per_law = median([len(laws()[name].priors) for name, law_fits in fits_by_law.items() for _ in law_fits])
    text = f"{count:,} coefficients serve {pairs} pairs of an implementation's law and a GPU, {count / pairs:.1f} each,"
    return "\n".join([COUNTED, "", f"{text} where a law has {per_law:.0f} in the median.", "", END])


def _replaced(text: str, part: str) -> str:
    start = part.partition("\n")[0]
    marked = re.search(rf"{re.escape(start)}.*?{re.escape(END)}", text, re.DOTALL)
    if marked is None:
        raise SystemExit(f"a page is missing the marks {start} and {END}")
    return text[: marked.start()] + part + text[marked.end() :]


def pages() -> Iterator[tuple[Path, str]]:
    """Yield each page and its text as it should be."""
    parts = {DOCS / "families" / f"{page}.md": block(names) for page, names in PAGES.items()}
    parts[DOCS / "time-model.md"] = summary()
    for path, part in parts.items():
        text = _replaced(path.read_text("utf-8"), part)
        yield path, _replaced(text, counted()) if COUNTED in text else text


def main() -> None:
    """Rewrite the pages."""
    for path, text in pages():
        path.write_text(text, "utf-8")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
