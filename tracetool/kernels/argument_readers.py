"""Readers of products, convolutions and attention: position and shape of each argument of a call."""

from __future__ import annotations

import math
from collections.abc import Callable

from tracetool.kernels.calls import Call, Numbers, Shape

Reader = Callable[[Call], Numbers | None]


def _product(a: Shape | None, b: Shape | None, *, transposed: bool = False) -> Numbers | None:
    """Return m, n, k and batch of a product of two tensors; ``transposed``: b is (n, k)."""
    if not a or not b:
        return None
    if len(b) == 1:
        return {"batch": 1, "m": math.prod(a[:-1]), "n": 1, "k": a[-1]}
    n, k = (b[-2], b[-1]) if transposed else (b[-1], b[-2])
    if a[-1] != k:
        return None
    if len(b) > 2:
        return {"batch": math.prod(a[:-2]), "m": a[-2] if len(a) > 1 else 1, "n": n, "k": k}
    return {"batch": 1, "m": math.prod(a[:-1]), "n": n, "k": k}


def product(first: int, *, transposed: bool = False) -> Reader:
    """Product of two arguments; ``transposed``: the second is (n, k). A bias may precede them."""

    def read(call: Call) -> Numbers | None:
        a, b = call.shape(first), call.shape(first + 1)
        sizes = _product(a, b, transposed=transposed) or _product(a, b, transposed=not transposed)
        if sizes and first:
            sizes["bias_elements"] = sizes["n"]  # one row, though it may be stated spread over all
        return sizes

    return read


def convolution(
    x: int, w: int, stride: int, padding: int, groups: int, *, transposed: bool = False
) -> Reader:
    """Convolution of data and weights; the other places are those of its scalars."""

    def read(call: Call) -> Numbers | None:
        image, weight = call.shape(x), call.shape(w)
        if not image or not weight or len(image) != len(weight) or not 3 <= len(image) <= 5:
            return None
        steps, pads = call.integers(stride), call.integers(padding)
        split = call.integers(groups)
        count = split[0] if split and split[0] > 0 else 1
        filters = weight[1] * count if transposed else weight[0]
        batch, channels, *space = image
        kernel = list(weight[2:])
        # without scalars: filters usually keep the size of the data, the gradient may state the stride
        step = steps[-1] if steps else None
        pad = pads[-1] if pads else (weight[-1] - 1) // 2
        if len(space) == 1:
            space, kernel = [1, *space], [1, *kernel]
        elif len(space) == 3:  # depth is unrolled into the batch and the channels
            inner = pads[0] if pads else 0
            depth = (space[0] + 2 * inner - kernel[0]) // max(1, steps[0] if steps else 1) + 1
            batch, channels, space = batch * max(1, depth), channels * kernel[0], space[1:]
            kernel = kernel[1:]
        if transposed:  # the gradient of the data of a convolution from its result to its argument
            sides = (s * (step or 1) + k - (step or 1) - 2 * pad for s, k in zip(space, kernel, strict=True))
            channels, filters, space = filters, channels, [max(1, side) for side in sides]
        return {
            "batch": batch, "channels": channels, "height": space[0], "width": space[1], "filters": filters,
            "kernel_h": kernel[0], "kernel_w": kernel[1], "stride": step, "padding": pad, "groups": count,
            "transposed": transposed,
        }  # fmt: skip

    return read


def attention(q: int, causal: int, *, heads_first: bool, longest: int = -1, starts: int = -1) -> Reader:
    """Attention of queries at ``q``, keys and values behind them; ``longest`` and ``starts``: of packed sequences."""

    def read(call: Call) -> Numbers | None:
        query, key, value = call.shape(q), call.shape(q + 1), call.shape(q + 2)
        if not query or not key or not 3 <= len(query) <= 4 or len(key) != len(query):
            return None
        if len(query) == 3:  # all sequences of the batch behind one another
            start, most = call.shape(starts), call.integers(longest)
            most_kv = call.integers(longest + 1) if longest >= 0 else ()
            count = start[0] - 1 if start and start[0] > 1 else 1
            tokens, heads, dim = query
            q_len = most[0] if most else math.ceil(tokens / count)
            kv_len = most_kv[0] if most_kv else math.ceil(key[0] / count)
            batch, kv_heads = max(1.0, tokens / max(1, q_len)), key[1]
        elif heads_first:
            batch, heads, q_len, dim = query
            kv_heads, kv_len = key[1], key[2]
        else:
            batch, q_len, heads, dim = query
            kv_len, kv_heads = key[1], key[2]
        flag = call.flag(causal)
        return {
            "batch": batch, "q_len": q_len, "kv_len": kv_len, "heads": heads, "kv_heads": kv_heads,
            "head_dim": dim, "head_dim_v": value[-1] if value and value[-1] != dim else None,
            "causal": flag, "phase": "decode" if q_len == 1 else "prefill",
        }  # fmt: skip

    return read


def packed_attention(call: Call) -> Numbers | None:
    """Attention of a server: tokens of all sequences concatenated; tables of key lengths are not recorded."""
    query, key = call.shape(0), call.shape(1)
    if not query or not key or len(query) != 3 or len(key) != 3 or query[-1] != key[-1]:
        return None
    return {"batch": 1, "q_len": query[0], "heads": query[1], "kv_heads": key[1], "head_dim": query[2]}


def conv_gradient(grad: int, operand_place: int, *, of_data: bool) -> Reader:
    """Older gradients of convolutions state the gradient of the result and one operand, not the strides.

    A gradient of the data counts its products exactly and takes the data as large as the result; one of the
    weights leaves the filter's size open (``kernel_h`` is None): the forward call of the same data states it.
    """

    def read(call: Call) -> Numbers | None:
        gradient, operand = call.shape(grad), call.shape(operand_place)
        if not gradient or not operand or len(gradient) != 4 or len(operand) != 4:
            return None
        batch, filters, height, width = gradient
        if not of_data:
            return {
                "batch": operand[0], "channels": operand[1], "height": operand[2], "width": operand[3], "filters": filters,
                "kernel_h": None, "kernel_w": None, "transposed": False, "result_height": height,
            }  # fmt: skip
        kernel = operand[2]
        split = max(1, filters // max(1, operand[0]))
        return {
            "batch": batch, "filters": filters, "channels": operand[1] * split, "height": height, "width": width,
            "kernel_h": kernel, "kernel_w": operand[3], "stride": 1, "padding": (kernel - 1) // 2, "groups": 1,
            "transposed": False,
        }  # fmt: skip

    return read


def complete_convolutions(read: list[Numbers]) -> None:
    """Fill sizes open in forward calls or gradients from the other of the same data, in place.

    Forward calls recorded without scalars take their stride from the size of the gradient's result; gradients
    of weights take the filter of the forward call, or are emptied. Where forward calls of the same data have
    several filters, the largest stands beside as ``other_kernel``.
    """
    image_columns = ("batch", "channels", "height", "width", "filters")
    filter_columns = ("kernel_h", "kernel_w", "stride", "padding", "conv_groups")
    results = {
        tuple(r.get(c) for c in image_columns): r["result_height"] for r in read if r.get("result_height")
    }
    for row in read:
        if "stride" in row and row["stride"] is None:
            result_height, height = results.get(tuple(row.get(c) for c in image_columns)), row.get("height")
            if isinstance(result_height, int) and isinstance(height, int) and result_height > 0:
                row["stride"] = max(1, round(height / result_height))
            else:
                row["stride"] = 1
    forward: dict[tuple[object, ...], dict[object, Numbers]] = {}
    for row in read:
        if row.get("kernel_h"):
            forward.setdefault(tuple(row.get(c) for c in image_columns), {})[row["kernel_h"]] = row
    for row in read:
        if "kernel_h" in row and row["kernel_h"] is None:
            by_side = forward.get(tuple(row.get(c) for c in image_columns), {})
            filters = [by_side[side] for side in sorted(by_side, key=str)]
            if not filters:
                row.update(dict.fromkeys(image_columns))
                continue
            row.update({c: filters[0][c] for c in filter_columns if c in filters[0]})
            if len(filters) > 1:  # the launch shows which of them it was
                row["other_kernel"], row["other_padding"] = (
                    filters[-1]["kernel_h"],
                    filters[-1].get("padding"),
                )
