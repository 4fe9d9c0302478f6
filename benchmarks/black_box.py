"""A black box on the rows of held_out_stacks.py: what the other GPUs and libraries tell without any law.

usage: python benchmarks/black_box.py [DATA_ROOT] [--operator NAME ...] [--setting SETTING ...] [--rows N]
           [--plain] [--keep FILE]

Boosted trees (scikit-learn's HistGradientBoostingRegressor) learn ln(duration / roofline) of an operator's
rows from their sizes, from the work in the chip's own units (FLOPs over peak, bytes over bandwidth and over
L2, tiles over SMs), from the chip's rates, and from library, law and implementation as categories. They learn
from the half of the shapes that the laws are fitted to, and are tested on the cells and rows of
held_out_stacks.py. ``--plain`` leaves the roofline out and learns ln(duration). Prints the same medians:
over tables, over implementations of tables, and by GPU left out. Nothing is delivered from here.
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from acceptance_time import OPERATORS, operator_cells
from held_out_stacks import HERE, SETTINGS, table, taken
from stack_tables import Cell, kernel_words, version_cells
from transfer_bands import Scored

from tracetool.calibrate.joint import FIT_ROWS
from tracetool.core.arrays import Floats
from tracetool.core.operators import OperatorColumns
from tracetool.families.formats import dtype_of, product_rate
from tracetool.families.implementations import library_of
from tracetool.families.registry import count_work
from tracetool.hardware.gpu import Gpu

#: Rows of a cell that trees learn from at most: as many as a law's fit looks at. [rows]
LEARNED = FIT_ROWS
#: What a launch takes beside the roofline, so that short rows have a ratio of order one. [s] A setting.
LAUNCH_S = 4e-6
#: Rows and columns of a tile that shapes are counted in. [1] A setting: trees find others' edges.
TILE = 128.0
#: Columns with texts a row's kernel depends on.
TEXTS = ("dtype", "kv_dtype", "phase", "distribution")
TREES = {"max_iter": 300, "learning_rate": 0.08, "l2_regularization": 1.0, "random_state": 0}


@dataclass(frozen=True)
class Learned:
    """What trees saw: the order of the columns, the codes of texts, and the trees."""

    names: tuple[str, ...]
    codes: dict[str, int]
    trees: Any
    plain: bool

    def seconds(self, cell: Cell) -> Floats:
        """Return the predicted duration of a cell's rows. [s]"""
        found, roof = features(cell)
        made = self.trees.predict(coded(found, self.names, self.codes))
        return np.asarray(np.exp(made) * (1.0 if self.plain else roof + LAUNCH_S))


def roofline_s(rows: OperatorColumns, gpu: Gpu, hertz: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the roofline, the time of products at their peak and that of memory at its. Each (n,). [s]"""
    work = count_work(rows, gpu)
    rate = product_rate(dtype_of(rows, "bf16"), gpu) * gpu.sm_count * hertz
    products, memory = work.useful_flops / rate, work.dram_bytes / gpu.dram_bytes_per_s
    return np.maximum(products, memory), products, memory


def features(cell: Cell) -> tuple[dict[str, Any], Floats]:
    """Return what trees may look at by name, texts among it, and the roofline of each row. [s]"""
    rows, gpu, hertz = cell.part.law_rows.rows, cell.part.gpu, cell.part.law_rows.hertz[:, 0]
    roof, products, memory = roofline_s(rows, gpu, hertz)
    count, sms = len(rows), float(gpu.sm_count)
    number: Callable[[str], Floats] = lambda name: np.maximum(rows.number(name, 1.0), 1.0)  # noqa: E731
    lanes = number("batch") * number("kv_heads")
    query_tiles = number("batch") * number("heads") * np.ceil(number("q_len") / TILE)
    tiles = np.ceil(number("m") / TILE) * np.ceil(number("n") / TILE)
    routed = number("tokens") * number("top_k")
    ssm_lanes = number("batch") * np.maximum(number("num_v_heads"), number("nheads"))
    made = {
        "in_products": products, "in_memory": memory, "in_roofline": roof,
        "products_memory": products / memory,
        "in_l2": memory * gpu.dram_bytes_per_s / gpu.l2_bytes,
        "lanes_sm": lanes / sms, "query_tiles_sm": query_tiles / sms, "tiles_sm": tiles / sms,
        "rows_expert": routed / number("experts"), "experts_sm": number("experts") / sms,
        "ssm_lanes_sm": ssm_lanes / sms, "tokens_sm": number("num_tokens") / sms,
        "group": number("heads") / number("kv_heads"),
    }  # fmt: skip
    chip = {
        "sm_count": sms, "hertz": hertz, "memory_clk_sm": gpu.dram_bytes_per_s / hertz / sms,
        "l2_clk_sm": gpu.l2_bytes_per_clock / sms, "tensor_clk_sm": gpu.rate("tensor_bf16"),
        "l2_bytes": gpu.l2_bytes, "dram": gpu.dram_bytes_per_s,
    }  # fmt: skip
    made |= {name: np.broadcast_to(np.asarray(value, np.float64), (count,)) for name, value in chip.items()}
    made |= {k: np.nan_to_num(rows.number(k), nan=0.0) for k, v in rows.columns.items() if v.dtype != object}
    found: dict[str, Any] = {k: np.log2(np.maximum(v, 1e-12)) for k, v in made.items()}
    found |= {f"text {name}": rows.text(name) for name in TEXTS}
    told = {"law": cell.law, "library": library_of(cell.stack), "kernel": kernel_words(cell.implementation)}
    found |= {f"text {k}": np.full(count, v, dtype=object) for k, v in told.items()}
    return found, roof


def coded(found: dict[str, Any], names: Sequence[str], codes: dict[str, int]) -> Floats:
    """Return columns in an order, texts as their codes, one never seen as a missing value. Shape (n, c)."""
    count = len(found["sm_count"])
    columns = []
    for name in names:
        values = found.get(name, np.full(count, np.nan))
        if name.startswith("text ") and name in found:
            values = [codes.get(f"{name} {value}", np.nan) for value in values]
        columns.append(np.asarray(values, dtype=np.float64))
    return np.stack(columns, axis=1)


def learn(some: Sequence[Cell], *, plain: bool) -> Learned:
    """Fit trees to the fitted half of cells, every cell of the same weight a row."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # type: ignore[import,unused-ignore]

    halves = [replace(cell, part=taken(cell.half(0), LEARNED)) for cell in some]
    halves = [cell for cell in halves if len(cell.part.law_rows.measured_s)]
    every = [features(cell) for cell in halves]
    names = tuple(dict.fromkeys(name for found, _ in every for name in found))
    codes: dict[str, int] = {}
    for name in (n for n in names if n.startswith("text ")):
        texts = dict.fromkeys(f"{name} {v}" for found, _ in every for v in found.get(name, ()))
        codes |= {text: place for place, text in enumerate(texts)}
    given = np.concatenate([coded(found, names, codes) for found, _ in every])
    wanted = np.concatenate(
        [
            np.log(cell.part.law_rows.measured_s / (1.0 if plain else roof + LAUNCH_S))
            for cell, (_, roof) in zip(halves, every, strict=True)
        ]
    )
    categories = [n.startswith("text ") for n in names]
    trees = HistGradientBoostingRegressor(categorical_features=categories, loss="absolute_error", **TREES)
    return Learned(names, codes, trees.fit(given, wanted), plain)


def score(setting: str, cell: Cell, told: Learned) -> Scored:
    """Return the errors of a cell on the rows that held_out_stacks.py looks at."""
    cell = replace(cell, part=taken(cell.part))
    error = np.log(cell.part.law_rows.measured_s / told.seconds(cell))
    nothing = np.zeros(len(error), dtype=np.bool_)
    return Scored(
        setting, cell.operator, cell.law, cell.part.gpu.name, cell.stack, cell.implementation,
        cell.set_name, seen=True, single=True, stood_for=False, scale=1.0, error=error, inside=nothing,
        needed=error, width=0.0,
    )  # fmt: skip


def trials(
    every: Sequence[Cell], versions: Sequence[Cell], settings: Sequence[str]
) -> Iterator[tuple[str, list[Cell], list[Cell]]]:
    """Yield each setting with the cells learned from and those tested."""
    if "shapes" in settings:
        yield "shapes", list(every), [replace(c, part=c.half(1)) for c in every]
    if "version" in settings and versions:
        yield "version", list(every), list(versions)
    of: dict[str, Callable[[Cell], str]] = {
        "gpu": lambda c: c.part.gpu.name, "library": lambda c: library_of(c.stack)
    }  # fmt: skip
    for setting in (s for s in of if s in settings):
        for value in sorted({of[setting](c) for c in every}):
            rest = [c for c in every if of[setting](c) != value]
            laws = {c.law for c in rest}
            tested = [c for c in every if of[setting](c) == value and c.law in laws]
            if rest and tested:
                yield setting, rest, tested


def of_operator(
    root: Path, operator: str, settings: Sequence[str], rows: int, *, plain: bool
) -> list[Scored]:
    """Return what trees reach on an operator's tables in some settings."""
    every = operator_cells(root, operator)
    versions = [c for c in version_cells(root, {c.law for c in every}) if c.operator == operator]
    found = []
    for setting, learned, tested in trials(every, versions, settings):
        told = learn(learned, plain=plain)
        thinned = [replace(c, part=taken(c.part, rows)) for c in tested]
        found += [score(setting, cell, told) for cell in thinned if len(cell.part.law_rows.measured_s)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=HERE.parent / "shared" / "data")
    parser.add_argument("--operator", nargs="*", default=OPERATORS)
    parser.add_argument("--setting", nargs="*", default=SETTINGS[:-1], choices=SETTINGS[:-1])
    parser.add_argument("--rows", type=int, default=1500, help="most rows of a cell that are tested")
    parser.add_argument("--plain", action="store_true", help="learn the duration itself")
    parser.add_argument("--keep", type=Path, help="file to pickle the errors into")
    given = parser.parse_args()
    began, scored = time.time(), []
    for operator in given.operator:
        scored += of_operator(given.root, operator, given.setting, given.rows, plain=given.plain)
        print(f"{operator} after {time.time() - began:.0f} s", flush=True)
        if given.keep:
            given.keep.write_bytes(pickle.dumps(scored))
    table(scored)
    print(f"{time.time() - began:.0f} s")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
