"""Write ``calibrations.md``: what was fitted on which GPU and library, and its error on what was held back.

The figures stand in the files of the fits: ``families/*/implementations/*.toml`` states the median error on shapes held
back of every law and GPU in a comment below the law's heading, ``hardware/calibrations/*.toml`` in its ``[about]``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tracetool.hardware.coefficient_files import calibrated_gpus, own_calibration

DOCS = Path(__file__).resolve().parent
PACKAGE = DOCS.parent / "tracetool"
PAGE = DOCS / "calibrations.md"
#: How libraries spell their names; one that is not listed is called as its files state it.
LIBRARIES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
_HELD = re.compile(r"^\[(\w+)\]\n# MdAPE on shapes held back: (.+)$", re.MULTILINE)
_OF_GPU = re.compile(r"([\w-]+) ([\d.]+) % \((\d+) rows\)")
TOP = """# Calibrations: what was fitted, and how far off it is

Figures are errors on measurements that the fit did not see, unless a column says otherwise. The page is written from the files of the fits by
`python docs/calibrations_page.py`; a test holds it to them.

- [Time, by library](#time-by-library): kernels of a serving library on a GPU, on shapes held back.
- [Time, by GPU](#time-by-gpu): kernels that frameworks share (products, norms, elementwise, collectives).
- [Power, by GPU](#power-by-gpu).
- A GPU, library or version that was left out of the fit *whole* has larger errors:
  [time](time-model.md#errors-on-what-was-left-out), [power](power.md#all-of-it-in-one-table).
- Whole models that no fit saw: [forecast](forecast.md).

What to read from a cell such as `6.1 (4662)`: the median error is 6.1 % over 4,662 rows that were held back; half of the rows have a smaller error.
An empty cell was not measured: the tool then carries coefficients over and widens the interval
([how](time-model.md#an-architecture-that-was-not-measured)).
"""


def _implementations() -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Yield library, law, implementation and the cell of each GPU."""
    for path in sorted(PACKAGE.glob("families/*/implementations/*.toml")):
        text = path.read_text("utf-8")
        library = tomllib.loads(text)["stack"]
        for law, listed in _HELD.findall(text):
            cells = {gpu: f"{error} ({rows})" for gpu, error, rows in _OF_GPU.findall(listed)}
            yield library, law, path.stem.removeprefix(f"{library}-"), cells


def by_library() -> Iterator[str]:
    """Yield the tables of libraries."""
    rows = list(_implementations())
    gpus = sorted({gpu for *_, cells in rows for gpu in cells})
    stated = {library for library, *_ in rows} - {""}
    titles = {
        **LIBRARIES,
        **{library: library for library in sorted(stated - LIBRARIES.keys())},
        "": "Any library",
    }
    for library, title in titles.items():
        yield from (f"### {title}", "")
        yield "| law | implementation | " + " | ".join(gpus) + " |"
        yield "|---|---|" + "---|" * len(gpus)
        for stack, law, name, cells in sorted(rows, key=lambda row: row[1:3]):
            if stack == library:
                yield f"| {law} | `{name}` | " + " | ".join(cells.get(gpu, "") for gpu in gpus) + " |"
        yield ""


def _about(gpu: str, part: str) -> dict[str, object]:
    file = own_calibration(gpu, part)
    assert file is not None
    return dict(file.about)


def time_by_gpu() -> Iterator[str]:
    """Yield a line per GPU with a time calibration of its own."""
    yield "| GPU | median error of each law, held back [%] |"
    yield "|---|---|"
    for gpu in calibrated_gpus("time"):
        about = _about(gpu, "time")
        key = "held_out_mdape_percent_"
        errors = [
            f"{name.removeprefix(key)} {float(str(v)):.2g}"
            for name, v in about.items()
            if name.startswith(key)
        ]
        yield f"| {gpu} | {', '.join(errors)} |"


def power_by_gpu() -> Iterator[str]:
    """Yield a line per GPU with a power calibration of its own."""
    yield "| GPU | fitted | error on programs left out [%] | error over clocks, of the fit itself [%] | fitted from |"
    yield "|---|---|---|---|---|"
    for gpu in calibrated_gpus("power"):
        file = own_calibration(gpu, "power")
        assert file is not None
        sources = sorted({number.source for section in file.numbers.values() for number in section.values()})
        energies = "power" in file.numbers or "monitor" in file.numbers
        fitted = "energies per count, idle power, voltage" if energies else "idle power and voltage alone"
        errors = [file.about.get(f"{kind}_percent") for kind in ("held_out", "sweep")]
        shown = " | ".join(f"{float(str(error)):.3g}" if error is not None else "" for error in errors)
        yield f"| {gpu} | {fitted} | {shown} | {', '.join(f'`{s}`' for s in sources)} |"


def page() -> str:
    """Return the page."""
    parts = [
        TOP,
        "## Time, by library",
        "Which implementation a run uses follows from its kernels' names; `--stack` states the library where names do not.",
        "",
        *by_library(),
        "## Time, by GPU",
        "Fitted on one GPU, for kernels that are the same in every framework. The full tables, with coverage of the intervals: [time](time-model.md#coefficients-and-gpus-nobody-measured).",
        "",
        *time_by_gpu(),
        "",
        "## Power, by GPU",
        "All other GPUs take their energies per operation from the nearest of these, with their own idle power, voltage and limits, and wider intervals. The keys of the last column stand in",
        "`tracetool/hardware/references.toml`.",
        "",
        *power_by_gpu(),
        "",
        "`tracetool gpus` shows for every known GPU whether its power is calibrated, transferred or a prior. To calibrate yours: [power](power.md#calibrating).",
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
