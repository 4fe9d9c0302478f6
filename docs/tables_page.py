"""Write ``tables.md``: every column of every table, from the schemas and the families."""

from __future__ import annotations

import sys
from pathlib import Path

from tracetool.core.dtype import ACTIVATIONS, BYTES
from tracetool.families.spec import LIBRARY_COLUMNS
from tracetool.replay.table_checks import CONTENT, OPERATORS
from tracetool.tables.schema import TableSchema, load_schema, schema_names

#: Schema of the tables that a user gives.
OPERATOR_TABLE = "operator_table"
PAGE = Path(__file__).with_name("tables.md")
HEAD = """# Tables on disk

A run is a folder of Parquet files plus `run.json` (its tables, sources with their SHA-256, how clocks were aligned,
warnings). Each file carries its schema's name and version in its key-value metadata as `tracetool.schema`, e.g.
`kernels/1`. The same text: `tracetool schema TABLE`. This page is written by `python docs/tables_page.py`.

`tables` in `run.json` lists every table with its schema, rows, bytes and SHA-256. Every command that opens a run checks
all of them first (15 ms for a million kernels): a table that is missing, cut short, edited or of another run is exit 2
with its name. To change a run, ingest again. Other files of yours in the folder are left alone, and carried over when the
run is replaced. Runs without the list (`run/1`) are read unchecked; columns that are lists today are text in them and are
converted as they are read.

A run is replaced in one step: at every moment, also when `ingest` is killed, the old run or the new one is there, whole.
What a killed command left (`.NAME.PID-...`, beside the run or in the folder for temporary files) is removed by the next
one that writes there; scratch of a living process never is.
"""

OPERATOR_HEAD = """
## Operator tables
Input of `predict` without a trace, and of `sweep`, `diff` and `calibrate`, there with what was measured: one row per
operator (`.csv`, `.parquet`, `.json`), columns an operator does not use absent or null. What `kind` may say of an
elementwise operator or a norm: [operations](families/streams.md#what-an-element-costs). Beside the columns of its operator, a row may
give"""

BELOW_OPERATORS = """
The `bytes` of a collective are the whole message, as nccl-tests counts `size`: of an all-reduce, a broadcast, a reduction
or a send, what one rank gives; of an all-gather, what one rank has in the end; of a reduce-scatter, what one rank has at the
start; of an all-to-all, what one rank gives to all together.

What cannot be is refused with its row and column: sizes that are not whole, `heads` that are no multiple of `kv_heads`, and a causal row (`causal` 1)
with fewer keys than queries. Empty cells, nulls and NaN state nothing.
"""


def operators() -> str:
    """Return the section of operator tables: what each operator needs and takes."""
    beside = ", ".join(f"`{column}`" for column in ("count", *LIBRARY_COLUMNS, *CONTENT))
    lines = [
        f"{OPERATOR_HEAD} {beside}.",
        f"\nFormats: {' '.join(f'`{word}`' for word in BYTES if word not in ACTIVATIONS)}, and spellings such as `float`;",
        "with weights of another format than activations ([formats](families/formats.md)): "
        + " ".join(f"`{word}`" for word in ACTIVATIONS)
        + ".\n",
        "| op | needs | takes | words |\n|---|---|---|---|",
    ]
    for op, one in OPERATORS.items():
        needs = ("dtype", *one.needs) if one.dtype else one.needs
        words = "; ".join(f"`{column}`: {', '.join(choices)}" for column, choices in one.choices.items())
        words += "".join(
            f"; a row of phase {phase} needs `{'` `'.join(more)}`" for phase, more in one.in_phase.items()
        )
        lines.append(f"| `{op}` | {' '.join(needs)} | {' '.join(one.takes)} | {words} |")
    schema = load_schema(OPERATOR_TABLE)
    return "\n".join(
        [*lines, BELOW_OPERATORS, f"{schema.comment} Schema `{schema.tag}`.\n", *columns(schema)]
    )


def columns(schema: TableSchema) -> list[str]:
    """Return the lines of the table of a schema's columns."""
    lines = ["| column | type | unit | null | meaning |\n|---|---|---|---|---|"]
    for c in schema.columns:
        meaning = c.comment.replace("|", "\\|").replace("<", "&lt;")
        meaning += f" Formerly `{c.formerly}`." if c.formerly else ""
        lines.append(f"| `{c.name}` | {c.type} | {c.unit} | {'yes' if c.nullable else ''} | {meaning} |")
    return lines


def page() -> str:
    """Return the page."""
    parts = [HEAD, operators()]
    for name in schema_names():
        if name == OPERATOR_TABLE:  # has a section of its own
            continue
        schema = load_schema(name)
        parts.append(f"\n## {schema.name}\n{schema.comment} Schema `{schema.tag}`.\n")
        parts += columns(schema)
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
