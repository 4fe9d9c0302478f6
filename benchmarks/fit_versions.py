"""Fit what another version of a library changes of an implementation's coefficients.

usage: python benchmarks/fit_versions.py [DATA_ROOT] [--law LAW ...]
       default: ../shared/data, prefill, decode and products

Half of the groups of shapes are fitted, the other half gives the error and the band. Writes the sections
``[<law>.in."<stack>".<architecture>]`` of tracetool/families/<group>/implementations/<name>.toml, which
fit_stacks.py drops: run it after that.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
from fit_stacks import FAMILIES, SOURCE, group_of, rounded
from stack_tables import Cell, version_cells

from tracetool.calibrate.conformal import band
from tracetool.calibrate.joint import SAME_ARCHITECTURE, errors, fit_near
from tracetool.families.implementations import Implementation
from tracetool.families.pricing import laws
from tracetool.model.candidates import candidates
from tracetool.model.other_versions import choices_of_version

HERE = Path(__file__).resolve().parent.parent
#: What the host code around a kernel decides: launches, and passes before and after. Between versions it is
#: this that changes; kernels of the same name stay. Fits that move every coefficient err by 0.5 points less.
HOST = (
    "launch_us", "launch_kv8_us", "vector_launch_us", "pass_factor", "cache_passes", "token_clk",
    "quantize_ops", "odd_us", "odd_factor",
)  # fmt: skip
#: Standard deviation of ln of these about the other version's. [1] A prior: a launch more doubles them.
HOST_SD = 2.0
ATTENTION = ("prefill", "decode")
PRODUCTS = ("gemm", "gemm_fp8", "gemm_fp8_block", "gemm_fp4")
#: The most that a version's coefficients leave of the error where products are written down. [1] A prior:
#: loops differ in the weights that L2 keeps, so that a band fitted in one holds too few rows of another.
MOST_LEFT = 0.5


def ran(cell: Cell) -> Implementation:
    """Return the implementation that most rows of its library on such GPUs were measured of."""
    chosen = candidates(cell.law, cell.part.gpu.architecture, cell.stack)
    return max(chosen, key=lambda one: sum(one.laws[cell.law].gpus.values()))


def fit_version(cell: Cell, one: Implementation) -> tuple[float, str]:
    """Return the share of the error that a version's own coefficients leave, and their section."""
    law, gpu = laws()[cell.law], cell.part.gpu
    fitted = one.laws[cell.law]
    before = {k: c.value for k, c in law.priors.items()} | dict(fitted.values)
    before |= fitted.by_architecture.get(gpu.architecture, {})
    before |= choices_of_version(law, one, cell.stack)
    free = [k for k in HOST if k in law.priors]
    after = fit_near(law, [cell.half(0)], before, before, HOST_SD, free=free)
    changed = {k: after[k] for k in free if abs(np.log(after[k] / before[k])) > SAME_ARCHITECTURE}
    after = {**before, **changed}
    held = cell.half(1)
    error = -errors(law, held, after)
    old, new = (float(np.median(np.abs(np.expm1(e))) * 100.0) for e in (errors(law, held, before), -error))
    low, high = band(error, len(np.unique(held.law_rows.group)))
    lines = [
        f'[{cell.law}.in."{cell.stack}".{gpu.architecture}]',
        f"# MdAPE on shapes held back: {gpu.name} {new:.1f} % ({len(error)} rows)",
    ]
    for name, value in {**changed, "spread_low": low, "spread_high": high}.items():
        unit = law.priors[name].unit if name in law.priors else "1"
        entry = f'value = {rounded(value)!r}, unit = "{unit}", kind = "fitted", source = "{SOURCE}"'
        lines.append(f"{name} = {{ {entry} }}")
    print(
        f"{cell.law:12s} {one.name:32s} {cell.stack:20s} {gpu.name}: {len(changed)} coefficients, "
        f"MdAPE {new:.1f} %, with those of the other version {old:.1f} %",
        flush=True,
    )
    return new / old, "\n".join(lines)


def write(cell: Cell, one: Implementation, section: str) -> None:
    """Put a version's section behind those of its law; an older one of the same name goes."""
    path = FAMILIES / group_of(cell.law) / "implementations" / f"{one.name}.toml"
    head, *parts = re.split(r"(?m)^(?=\[)", path.read_text())
    title = section.split("\n", 1)[0]
    parts = [part for part in parts if not part.startswith(f"{title}\n")]
    last = max(n for n, part in enumerate(parts) if re.match(rf"\[{cell.law}[.\]]", part))
    parts.insert(last + 1, section + "\n")
    path.write_text(head.rstrip() + "\n\n" + "\n\n".join(part.strip() for part in parts) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=HERE.parent / "shared" / "data")
    parser.add_argument("--law", nargs="*", default=(*ATTENTION, *PRODUCTS))
    given = parser.parse_args()
    for cell in version_cells(given.root, given.law):
        one = ran(cell)
        left, section = fit_version(cell, one)
        if cell.law in ATTENTION or left <= MOST_LEFT:
            write(cell, one, section)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
