"""Valid files with wrong contents: a file's own container decides how it is changed.

Every change is drawn from a seeded :class:`random.Random`, so an example is its number alone. A format
added later needs nothing here, as long as its sample is SQLite, JSON, Parquet, Arrow, protobuf or text.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

from tests.damaged.mutate.documents import change_json
from tests.damaged.mutate.lines import change_text
from tests.damaged.mutate.protobuf import change_protobuf
from tests.damaged.mutate.sqlite import change_sqlite
from tests.damaged.mutate.tables import change_table

#: Changes made to one example: most faults need one, some two together.
_CHANGES = (1, 1, 1, 2, 2, 3)


def change_files(folder: Path, draw: random.Random) -> list[str]:
    """Change one to three files of a folder in place and return what was done, in words."""
    steps = []
    for _ in range(draw.choice(_CHANGES)):
        files = sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size)
        if not files:  # the last line is gone
            break
        path = draw.choice(files)
        steps.append(f"{path.name}: {change_file(path, draw)}")
    return steps


def change_file(path: Path, draw: random.Random) -> str:
    """Change one file in place and return what was done."""
    raw = path.read_bytes()
    if raw.startswith(b"SQLite format 3\0"):
        return change_sqlite(path, draw)
    if raw.startswith((b"PAR1", b"ARROW1")):
        return change_table(path, draw)
    if raw.startswith(b"\x1f\x8b"):
        path.write_bytes(gzip.decompress(raw))
        step = change_file(path, draw)
        if draw.random() < 0.5:
            path.write_bytes(gzip.compress(path.read_bytes(), 1))
        return step
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return change_protobuf(path, draw)
    if "\0" in text:
        return change_protobuf(path, draw)
    try:
        document = json.loads(text)
    except ValueError:
        return change_text(path, draw)
    return change_json(path, document, draw) if isinstance(document, dict | list) else change_text(path, draw)
