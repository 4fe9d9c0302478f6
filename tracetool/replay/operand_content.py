"""Content of operands, as a user states it: a word, zeros by share, or files of tensors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from tracetool.core.arrays import Floats, Ints
from tracetool.core.errors import BadInput
from tracetool.core.number_text import counted
from tracetool.core.operators import OperatorColumns
from tracetool.core.paths import regular_file
from tracetool.model.operands import SWITCHING, OperandActivity, is_product, operand_activity

#: Column of the model's rows with the content a table states as ``operands``, a count in rows of runs.
CONTENT_COLUMN: Final = "operand_content"
_WORDS: Final = ("random", "zeros", "constant", "sorted", "unknown")
_FIX: Final = "give random, zeros, constant, sorted, sparse=0.5, unknown, or a .npy or .safetensors file"
#: A sample of an operand: this many runs of neighboring rows and columns, each so long.
_RUNS: Final = (8, 3)
_LENGTHS: Final = (16, 24)
#: Side of the matrix that a word stands for: the one its switching was fitted on.
_SIDE: Final = 2048
_STANDARD_INT8: Final = 32.0
_SAFETENSORS: Final = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "F64": "<f8", "I8": "|i1"}
_MOST_HEADER: Final = 100_000_000


@dataclass(frozen=True)
class Content:
    """Content of two operands: a word with a share of zeros, or a file for one or each of them."""

    word: str
    zeros: float = 0.0
    files: tuple[str, ...] = ()


def parse_content(text: str) -> Content | None:
    """Return the content of operands stated by a text; None for an empty text or ``unknown``.

    Raises
    ------
    BadInput
        If it is no word, share of zeros or file that can be read.

    Examples
    --------
    >>> parse_content("sparse=0.5")
    Content(word='random', zeros=0.5, files=())
    """
    text = text.strip()
    if text in {"", "unknown"}:
        return None
    if text in _WORDS:
        return Content(text)
    if text.startswith("sparse="):
        try:
            zeros = float(text.removeprefix("sparse="))
        except ValueError:
            zeros = -1.0
        if not 0.0 <= zeros <= 1.0:
            raise BadInput(f"operands {text!r}: the share of zeros lies between 0 and 1", _FIX)
        return Content("random", zeros)
    files = tuple(part.strip() for part in text.split(","))
    if len(files) > 2 or any(Path(f).suffix not in {".npy", ".safetensors"} for f in files):
        raise BadInput(f"operands {text!r} are not known", _FIX)
    for file in files:
        if not Path(file).is_file():
            raise BadInput.in_file(file, "no such file", _FIX)
    return Content("file", files=files)


def with_operands(rows: OperatorColumns, stated: str, column: str = SWITCHING) -> OperatorColumns:
    """Return rows with the switching of their operands: as their columns state it, else as stated for all.

    Raises
    ------
    BadInput
        If a content is not known or a file cannot be read.
    """
    texts = rows.text(CONTENT_COLUMN, stated).astype(str)
    sparsity, toggle = rows.number("sparsity"), rows.number("toggle")
    if not (texts != "").any() and np.isnan(sparsity).all() and np.isnan(toggle).all():
        return rows
    formats = rows.text("dtype", "fp16").astype(str)
    keys = list(
        zip(texts, formats, np.nan_to_num(sparsity, nan=-1.0), np.nan_to_num(toggle, nan=-1.0), strict=True)
    )
    distinct = {key: _switching(*key) for key in dict.fromkeys(keys)}
    switching = np.array([distinct[key] for key in keys], np.float64)
    return OperatorColumns(rows.family, {**rows.columns, column: switching})


def content_notes(rows: OperatorColumns) -> list[str]:
    """Return notes that compare the stated content of products with random numbers."""
    switching = rows.number(SWITCHING)
    stated = is_product(rows) & ~np.isnan(switching)
    if not stated.any():
        return []
    low, high = switching[stated].min(), switching[stated].max()
    span = f"{100 * low:.0f}" if high - low < 0.005 else f"{100 * low:.0f} to {100 * high:.0f}"
    products = counted(int(stated.sum()), "product")
    return [f"operands of {products} switch {span} % of the bits that random numbers do"]


def _switching(text: str, dtype: str, sparsity: float, toggle: float) -> float:
    """Return the switching of a content relative to random numbers; NaN where it is not stated."""
    content = parse_content(text)
    if content is None and sparsity < 0 and toggle < 0:
        return np.nan
    content = content or Content("random")
    if sparsity >= 0:
        content = Content(content.word, sparsity, content.files)
    usual = _activity(Content("random"), dtype)
    stated = _activity(content, dtype)
    if toggle >= 0:
        share = min(toggle / usual.neighbor, 1.0)
        live = stated.live if sparsity >= 0 else usual.live
        stated = OperandActivity(toggle, toggle, usual.result * share, live)
    return min(stated.switching() / usual.switching(), 1.1)


@cache
def _activity(content: Content, dtype: str) -> OperandActivity:
    tensors = [_tensor(name) for name in content.files]
    blocks = [_sampled(content, dtype, side, tensors) for side in (0, 1)]
    bits, values = zip(*(_in_format(block, dtype) for block in blocks), strict=True)
    return operand_activity(bits[0], bits[1], (values[0], values[1]), _LENGTHS)


def _places(size: int, runs: int, length: int) -> Ints:
    """Return indices of runs of neighbors, spread over an axis; a short axis is repeated."""
    starts = np.linspace(0, max(size - length, 0), runs + 2)[1:-1].astype(np.int64)
    return np.asarray((starts[:, None] + np.arange(length)).ravel() % size)


def _sampled(content: Content, dtype: str, side: int, tensors: list[Floats]) -> Floats:
    """Return a sample of one operand, (k, free). The second operand of a file of one is random."""
    k, free = _places(_SIDE, _RUNS[0], _LENGTHS[0]), _places(_SIDE, _RUNS[1], _LENGTHS[1])
    generator = np.random.default_rng(side + 1)
    shape = (len(k), len(free))
    scale = _STANDARD_INT8 if dtype.startswith("int") else 1.0
    block = scale * generator.standard_normal(shape)
    if side < len(tensors):
        tensor = tensors[side]
        rows = _places(tensor.shape[0], _RUNS[1], _LENGTHS[1])
        columns = _places(tensor.shape[1], _RUNS[0], _LENGTHS[0])
        block = np.asarray(tensor[np.ix_(rows, columns)].T, np.float64)
        if dtype.startswith("int") and np.abs(block).max() <= 1.0:
            block = block * 127.0 / max(float(np.abs(block).max()), 1e-30)
    elif content.word == "zeros":
        block = np.zeros(shape)
    elif content.word == "constant":
        block = np.full(shape, block[0, 0])
    elif content.word == "sorted":
        from scipy.special import ndtri

        block = scale * ndtri((k[:, None] * _SIDE + free + 0.5) / _SIDE**2)
    return np.where(generator.random(shape) < content.zeros, 0.0, block)


def _in_format(block: Floats, dtype: str) -> tuple[Any, Any]:
    """Return the bits of numbers in a format, and what they then mean. Formats of 4 bits count as of 8."""
    if dtype.startswith("int"):
        integers = np.clip(np.rint(block), -128, 127).astype(np.int8)
        return integers.view(np.uint8), integers.astype(np.int32)
    single = block.astype(np.float32)
    if dtype in {"fp32", "tf32", "fp64"}:
        return single.view(np.uint32), single
    if dtype == "bf16":
        bits = ((single.view(np.uint32) + np.uint32(0x8000)) >> np.uint32(16)).astype(np.uint16)
        return bits, (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(over="ignore"):
        half = single.astype(np.float16)
    if dtype == "fp16":
        return half.view(np.uint16), half.astype(np.float32)
    byte = (half.view(np.uint16) >> np.uint16(8)).astype(np.uint8)  # the upper byte of FP16 is FP8 (E5M2)
    return byte, (byte.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float32)


@cache
def _tensor(name: str) -> Any:
    """Return the largest matrix of a file, mapped, not read: (free, k) as weights are kept."""
    regular_file(name)
    try:
        tensor = (
            np.load(name, mmap_mode="r", allow_pickle=False)
            if name.endswith(".npy")
            else _largest(Path(name))
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise BadInput.in_file(name, f"cannot be read as a tensor: {str(error)[:120]}") from error
    if tensor.size < 2 or tensor.dtype.kind not in "fiu":
        raise BadInput.in_file(name, f"holds {tensor.dtype} of shape {tensor.shape}, no matrix of numbers")
    return tensor.reshape(-1, tensor.shape[-1]) if tensor.ndim > 1 else tensor.reshape(1, -1)


def _largest(path: Path) -> Any:
    """Return the largest tensor of a safetensors file. BF16 is widened to FP32 where it is sampled."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if not 2 <= size <= min(_MOST_HEADER, path.stat().st_size):
            raise ValueError("its header is damaged")
        header = json.loads(file.read(size))
    tensors = {k: v for k, v in header.items() if k != "__metadata__" and v["dtype"] in _SAFETENSORS}
    if not tensors:
        raise ValueError(f"holds no tensor of {', '.join(_SAFETENSORS)}")
    entry = max(tensors.values(), key=lambda v: v["data_offsets"][1] - v["data_offsets"][0])
    mapped = np.memmap(
        path, _SAFETENSORS[entry["dtype"]], "r", 8 + size + entry["data_offsets"][0], tuple(entry["shape"])
    )
    if entry["dtype"] == "BF16":
        flat = mapped.reshape(-1, mapped.shape[-1])
        rows = _places(len(flat), _RUNS[1], _LENGTHS[1])
        return (np.asarray(flat[rows]).astype(np.uint32) << 16).view(np.float32)
    return mapped
