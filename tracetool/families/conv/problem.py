"""Convolutions as implicit matrix products: FLOPs, and bytes by level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetool.core.arrays import Bools, Floats
from tracetool.core.operators import OperatorColumns
from tracetool.core.work import Work
from tracetool.families.formats import (
    dtype_of,
    element_bytes,
    full_rate_share,
    on_fp64_pipe,
    on_tensor,
    packed_share,
    product_rate,
    result_bytes,
)
from tracetool.families.gemm.problem import plan_of, work_of
from tracetool.families.gemm.tiling import Products
from tracetool.hardware.gpu import Gpu

#: Results a side of one patch, of a kernel whose name states none: registers hold no larger transform.
#: [elements] A prior.
_FUSED_PATCH = 2.0


def conv_products(rows: OperatorColumns, gpu: Gpu) -> Products:
    r"""Return the products that convolutions are laid out as.

    The way forward has m pixels of the result, n filters and k channels times window. A gradient of the data
    gives every pixel of it from the filters times window, one of the weights every weight from the pixels;
    all three multiply as often. Winograd's algorithm gives t by t results of an r by r window with
    :math:`(t + r - 1)^2` products a channel [1]_, each set of which may be a product of a kernel of its own.
    The image is read once: neighboring windows overlap on chip.

    References
    ----------
    .. [1] Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016.
    """
    batch = np.maximum(rows.number("batch", 1.0), 1.0)
    groups = np.maximum(rows.number("groups", 1.0) * rows.number("conv_groups", 1.0), 1.0)
    channels, filters = rows.number("channels"), rows.number("filters")
    kh, kw = rows.number("kernel_h", 1.0), rows.number("kernel_w", 1.0)
    stride, pad = np.maximum(rows.number("stride", 1.0), 1.0), rows.number("padding", 0.0)
    height, width = rows.number("height"), rows.number("width", 1.0)
    p = np.maximum(np.floor((height + 2 * pad - kh) / stride) + 1, 1.0)
    p = np.where((height == 1) & (kh == 1), 1.0, p)  # a sequence is padded along its length alone
    q = np.maximum(np.floor((width + 2 * pad - kw) / stride) + 1, 1.0)
    stated = np.isfinite(channels * filters * height)
    direction = rows.text("direction")
    of_data, of_weights = stated & (direction == "bwd_data"), stated & (direction == "bwd_weight")
    pixels, window = batch * p * q, kh * kw
    channels_per_group, filters_per_group = np.ceil(channels / groups), np.ceil(filters / groups)
    # windows that do not overlap are laid out beside one another: each result gives the pixels of its own
    beside = of_data & (stride >= kh) & (stride >= kw)
    m = np.where(of_data & ~beside, batch * height * width, np.where(of_weights, filters_per_group, pixels))
    n = np.where(of_data, channels_per_group, np.where(of_weights, channels_per_group, filters_per_group))
    n = n * np.where(of_weights | beside, window, 1.0)
    k = pixels * filters_per_group * channels_per_group * window / np.maximum(m * n, 1.0)
    image_elements, result_elements = batch * channels * height * width, pixels * filters
    read = np.where(
        of_weights,
        image_elements + result_elements,
        np.where(of_data, result_elements, image_elements) + groups * n * k,
    )
    winograd = _winograd(rows, p, q)
    k = k * winograd.share
    apart = stated & winograd.apart
    m = np.where(apart, batch * winograd.patches, m)
    n, k = np.where(apart, filters_per_group, n), np.where(apart, channels_per_group, k)
    repeat = np.where(apart, groups * winograd.products, np.where(stated, groups, batch))
    read = np.where(apart, repeat * (m + n) * k, read)
    m, n, k = (np.where(stated, of, rows.number(c, 1.0)) for of, c in ((m, "m"), (n, "n"), (k, "k")))
    read = np.where(stated, read, repeat * (m + n) * k)
    words = dtype_of(rows)
    size = element_bytes(words)
    tile_m, tile_n = rows.number("tile_m"), rows.number("tile_n")
    splits, named = rows.number("split_k"), rows.text("library") != ""
    tensor, rate = on_tensor(words, gpu), product_rate(words, gpu)
    # a step of K is channels of one place in the window: fewer than it takes leave it half empty
    step, inner = rows.number("tile_k"), np.where(of_data, filters_per_group, channels_per_group)
    stepped = stated & tensor & (step > 0) & ~of_weights & ~winograd.apart
    depth = np.maximum(step, 1.0)
    rate = np.where(stepped, rate * inner / (np.ceil(inner / depth) * depth), rate)
    return Products(
        repeat, np.maximum(m, 1.0), np.maximum(n, 1.0), np.maximum(k, 1.0), size, result_bytes(words),
        rate, tensor, read * size,
        # a kernel's name gives first the side along the window of the weights' gradient
        np.where(of_weights, tile_n, tile_m), np.where(of_weights, tile_m, tile_n),
        np.where(named & np.isfinite(tile_m) & ~np.isfinite(splits), 1.0, splits),
        left=full_rate_share(words, gpu), double=on_fp64_pipe(words), packed=packed_share(words, gpu),
        # one filter of many channels still fills a tile; a channel by itself has a kernel of its own
        by_tiles=stated & ~single_channels(rows),
    )  # fmt: skip


def single_channels(rows: OperatorColumns) -> Bools:
    """Return which rows are depthwise: every channel of several is convolved by itself. Shape (n,)."""
    groups = np.maximum(rows.number("groups", 1.0) * rows.number("conv_groups", 1.0), 1.0)
    return np.asarray((groups > 1.0) & (np.ceil(rows.number("channels") / groups) <= 1.0))


@dataclass(frozen=True)
class _Winograd:
    """Winograd's algorithm in n convolutions.

    ``share`` of the products it needs, whether they are a kernel ``apart`` from the transforms, and then how
    many ``products`` of how many ``patches`` of an image.
    """

    share: Floats
    apart: Bools
    products: Floats
    patches: Floats


def _winograd(rows: OperatorColumns, p: Floats, q: Floats) -> _Winograd:
    side, batches = rows.number("kernel_h", 1.0), np.nan_to_num(rows.number("grid_z"), nan=1.0)
    able = (side > 1.0) & (side == rows.number("kernel_w", 1.0)) & (rows.number("stride", 1.0) == 1.0)
    algo = rows.text("algo")
    # one launch of a product for each element of the transformed patches: 16 or 36 of a window of 3,
    # and not one for each image
    patch = np.sqrt(batches) - side + 1.0
    apart = able & (algo == "") & np.isin(patch, (2.0, 4.0)) & (batches != rows.number("batch", 1.0))
    fused = able & (algo == "winograd")
    patch = np.where(apart, patch, np.nan_to_num(rows.number("winograd_tile"), nan=_FUSED_PATCH))
    patches = np.ceil(p / patch) * np.ceil(q / patch)
    products = (patch + side - 1.0) ** 2
    share = np.where(fused, products * patches / (p * q * side**2), 1.0)
    return _Winograd(np.asarray(share), np.asarray(apart), products, patches)


def conv_work(rows: OperatorColumns, gpu: Gpu) -> Work:
    """Return the work of convolutions."""
    products = conv_products(rows, gpu)
    return work_of(products, plan_of(products, gpu))
