"""Cost of a kernel's work in other ways: in another format, another shape, at the run's own best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tracetool.core.arrays import Bools, Floats, Texts
from tracetool.core.dtype import HALF
from tracetool.core.operators import OperatorColumns
from tracetool.families import names
from tracetool.hardware.gpu import Gpu
from tracetool.model.predict import predict_rows

#: Formats of products that run at a fraction of the rate of 16 bits.
WIDE: Final = ("fp32", "tf32")
#: Multiple that N and K have for kernels that load 16 bytes at once. [elements of 16 bits]
#: CUTLASS, "efficient GEMM": alignment of 128 bits.
ALIGNED: Final = 8.0
#: Rows below which a product reads its weights for too little: this share of the balance. [1] A prior.
_FEW: Final = 0.5
#: Products of at least this many rows and columns serve as references. A prior.
_LARGE: Final = 256.0


@dataclass(frozen=True)
class Products:
    """The matrix products among s signatures.

    Parameters
    ----------
    rows : OperatorColumns
        One row a signature.
    gpu : Gpu
        The GPU they ran on.
    clock_mhz : float
        Its clock. [MHz]
    known : array of bool, shape (s,)
        Which are products of known shape.
    """

    rows: OperatorColumns
    gpu: Gpu
    clock_mhz: float
    known: Bools

    @classmethod
    def of(cls, rows: OperatorColumns, gpu: Gpu, clock_mhz: float, shaped: Bools) -> Products:
        """Find the products among rows whose shapes are known."""
        sized = np.isfinite(rows.number("m")) & np.isfinite(rows.number("n")) & np.isfinite(rows.number("k"))
        family = (rows.family == names.GEMM) | (rows.family == names.GEMV)
        return cls(rows, gpu, clock_mhz, np.asarray(shaped & sized & family, dtype=np.bool_))

    @property
    def half(self) -> Bools:
        """Products of 16 bits. Shape (s,)."""
        return self._of(HALF)

    @property
    def wide(self) -> Bools:
        """Products of FP32 or TF32. Shape (s,)."""
        return self._of(WIDE)

    def _of(self, formats: Sequence[str]) -> Bools:
        return np.asarray(self.known & np.isin(self.rows.text("dtype").astype(str), formats))

    @property
    def odd(self) -> Bools:
        """Products of 16 bits with N or K no multiple of 8, one column or row aside. Shape (s,)."""
        n, k = self.rows.number("n"), self.rows.number("k")
        return np.asarray(self.half & (((n % ALIGNED != 0) & (n > 1)) | ((k % ALIGNED != 0) & (k > 1))))

    @property
    def few(self) -> Floats:
        """Rows (or columns) of each product that its weights are read for. Shape (s,)."""
        return np.asarray(np.minimum(self.rows.number("m"), self.rows.number("n")))

    @property
    def enough(self) -> float:
        r"""Rows at which tensor cores and memory take as long: :math:`b^* = F / B` at 2 bytes. [rows]"""
        peak = float(self.gpu.peak_flops("tensor_bf16", self.clock_mhz))
        return peak / float(self.gpu.dram_bytes_per_s)

    @property
    def small(self) -> Bools:
        """Products whose weights are read for too few rows. Shape (s,)."""
        one = self.rows.number("batch", 1.0) <= 1.0
        return np.asarray(self.known & one & (self.few < _FEW * self.enough))

    @property
    def usual(self) -> Bools:
        """Products that others are held against. Shape (s,)."""
        return np.asarray(self.half & ~self.odd & (self.few >= _LARGE))

    def rows_of_step(self, weight: Floats) -> float:
        """Return the M that most of the products' weight has, 0 without any product. [rows]"""
        at = np.flatnonzero(self.known & (weight > 0) & (self.rows.number("m") > 1))
        if not len(at):
            return 0.0
        rows, place = np.unique(self.rows.number("m")[at], return_inverse=True)
        return float(rows[np.argmax(np.bincount(place, weight[at]))])

    def modeled(
        self,
        *,
        dtype: str | None = None,
        dtypes: Texts | None = None,
        aligned: bool = False,
        few: Floats | None = None,
        sizes: tuple[Floats, Floats, Floats] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the model's time [s] and energy [J] of one launch, 0 where it is no product. (s,) each.

        Parameters
        ----------
        dtype : str, optional
            In this format in place of the product's.
        dtypes : array of str, shape (s,), optional
            The same, a format for each.
        aligned : bool
            With N and K rounded up to multiples of 8.
        few : array, shape (s,), optional
            With so many rows in place of :attr:`few`.
        sizes : (M, N, K) of shape (s,) each, optional
            In place of the products' sizes.
        """
        time_s, energy_j = np.zeros(len(self.rows)), np.zeros(len(self.rows))
        at = np.flatnonzero(self.known)
        if not len(at):
            return time_s, energy_j
        known_rows = self.rows.take(at)
        m, n, k = (known_rows.number(c) for c in ("m", "n", "k")) if sizes is None else (v[at] for v in sizes)
        if aligned:
            n, k = (np.where(v > 1, np.ceil(v / ALIGNED) * ALIGNED, v) for v in (n, k))
        if few is not None:
            thin = m <= n
            m, n = np.where(thin, few[at], m), np.where(thin, n, few[at])
        text = known_rows.text("dtype") if dtypes is None else dtypes[at]
        text = text if dtype is None else np.full(len(at), dtype, dtype=object)
        altered = OperatorColumns(
            np.full(len(at), names.GEMM, dtype=object),
            {"dtype": text, "m": m, "n": n, "k": k, "batch": known_rows.number("batch", 1.0)},
        )
        predicted = predict_rows(altered, self.gpu, np.array([self.clock_mhz]), power_cap_w=np.inf)
        time_s[at], energy_j[at] = predicted.timing.duration_s[:, 0], predicted.energy_j[:, 0]
        return time_s, energy_j


def saved_share(then: Floats, now: Floats) -> Floats:
    """Return the share of a cost that another one saves, 0 where it saves none.

    Examples
    --------
    >>> saved_share(np.array([1.0, 3.0, 1.0]), np.array([4.0, 2.0, 0.0]))
    array([0.75, 0.  , 0.  ])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(now > 0, np.clip(np.nan_to_num(1.0 - then / now), 0.0, 1.0), 0.0))


def usual_factor(measured: Floats, modeled: Floats, weight: Floats, usual: Bools) -> float:
    """Return measured over modeled time of usual products, by weighted median; 1 without any.

    Examples
    --------
    >>> usual_factor(np.array([3.0, 9.0]), np.array([2.0, 1.0]), np.ones(2), np.array([True, False]))
    1.5
    """
    at = np.flatnonzero(usual & (modeled > 0) & (measured > 0))
    if not len(at):
        return 1.0
    ratio = measured[at] / modeled[at]
    order = np.argsort(ratio)
    reach = np.cumsum(weight[at][order])
    return float(ratio[order][np.searchsorted(reach, 0.5 * reach[-1])])
