"""Valid and torn protobuf: fields gone, twice, renumbered, of another kind, numbers cut short or too long."""

from __future__ import annotations

import contextlib
import random
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from tests.damaged.mutate.cells import TEXTS, integer
from tests.varint import read_varint, write_varint


@dataclass
class Node:
    """A field: its number, and a number, bytes or fields in it."""

    number: int
    value: int | bytes | list[Node]
    packed: bool = False
    torn: bytes = field(default=b"")


def _parse(raw: bytes) -> list[Node] | None:
    """Return the fields of a message, None for bytes that are none."""
    nodes, at = [], 0
    with contextlib.suppress(IndexError):
        while at < len(raw):
            key, at = read_varint(raw, at)
            if key >> 3 == 0 or key & 7 not in (0, 2):
                return None
            if key & 7 == 0:
                number, at = read_varint(raw, at)
                nodes.append(Node(key >> 3, number))
                continue
            size, at = read_varint(raw, at)
            if at + size > len(raw):
                return None
            nodes.append(_nested(key >> 3, raw[at : at + size]))
            at += size
        return nodes
    return None


def _nested(number: int, inner: bytes) -> Node:
    with contextlib.suppress(zlib.error):
        unpacked = zlib.decompress(inner)
        return Node(number, _parse(unpacked) or unpacked, packed=True)
    fields = _parse(inner) if len(inner) > 3 else None
    return Node(number, fields or inner)


def _bytes(nodes: list[Node]) -> bytes:
    out = b""
    for node in nodes:
        if isinstance(node.value, int):
            out += write_varint(node.number << 3) + write_varint(node.value)
        else:
            raw = node.value if isinstance(node.value, bytes) else _bytes(node.value)
            raw = zlib.compress(raw) if node.packed else raw
            out += write_varint(node.number << 3 | 2) + write_varint(len(raw)) + raw
        out += node.torn
    return out


def _all(nodes: list[Node]) -> list[tuple[list[Node], int]]:
    found = []
    for i, node in enumerate(nodes):
        found.append((nodes, i))
        if isinstance(node.value, list):
            found += _all(node.value)
    return found


def change_protobuf(path: Path, draw: random.Random) -> str:
    """Change one field of a message file in place."""
    nodes = _parse(path.read_bytes())
    if not nodes:
        return "not protobuf"
    holder, at = draw.choice(_all(nodes))
    step = _changed(holder, at, draw)
    path.write_bytes(_bytes(nodes))
    return step


def _changed(holder: list[Node], at: int, draw: random.Random) -> str:
    node = holder[at]
    kind = draw.randrange(9)
    if kind == 0:
        del holder[at]
        return f"without field {node.number}"
    if kind == 1:
        holder.insert(at, node)
        return f"field {node.number} twice"
    if kind == 2:
        new = draw.choice((1, 3, 9, 15, 23, 50, 536_870_911))
        node.number, old = new, node.number
        return f"field {old} numbered {new}"
    if kind == 3:
        node.value = integer(draw)
        return f"field {node.number} is the number {node.value}"
    if kind == 4:
        node.torn = draw.choice(
            (b"\x80", b"\xff" * 11, b"\x0a", b"\x0a\xff\xff\xff\xff\x0f", b"\x09\x01", b"\x0b")
        )
        return f"after field {node.number}: {node.torn!r}"
    if kind == 5 and isinstance(node.value, list):
        holder[at : at + 1] = node.value
        return f"field {node.number} unwrapped"
    if kind == 6:
        node.value = [Node(node.number, node.value, packed=node.packed)]
        return f"field {node.number} within itself"
    node.value = draw.choice(TEXTS).encode()
    return f"field {node.number} is {node.value!r:.60}"
