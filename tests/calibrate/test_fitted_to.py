"""A calibration of one's own takes the place of the delivered one, for the rows it was fitted to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.model.operators import rows_of
from tracetool.calibrate.fit_time_laws import fit_time
from tracetool.calibrate.measured_times import time_text
from tracetool.core.operators import OperatorColumns
from tracetool.hardware.coefficient_files import read_calibration
from tracetool.hardware.load import load_gpu
from tracetool.model.timing import time_rows
from tracetool.replay.assumptions import Assumptions

GPU = load_gpu("h100-sxm")
#: How much slower the user's kernels are than the delivered implementation says.
SLOWER = 1.7


def _products(count: int, **words: str) -> OperatorColumns:
    rng = np.random.default_rng(7)
    m, n, k = (np.floor(2 ** rng.uniform(9, 13, count)) for _ in range(3))
    rows = rows_of("gemm", dtype="fp8", m=m, n=n, k=k)
    texts = {name: np.full(count, word, dtype=object) for name, word in words.items()}
    return OperatorColumns(rows.family, {**rows.columns, **texts})


def _seconds(rows: OperatorColumns, assumed: Assumptions | None = None) -> np.ndarray:
    calibration = assumed.options(GPU)["time_calibration"] if assumed else None
    return time_rows(rows, GPU, np.array([GPU.clock_boost_mhz]), calibration=calibration).duration_s[:, 0]


@pytest.mark.parametrize("stated", [{"stack": "vllm 0.24.0", "implementation": "vllm_cutlass"}, {}])
def test_a_users_file_times_the_rows_it_was_fitted_to(stated: dict[str, str], tmp_path: Path) -> None:
    mine = _products(12, **stated)
    fit = fit_time(mine, _seconds(mine) * SLOWER, GPU)
    about, sections = time_text(fit)
    path = tmp_path / "mine.toml"
    lines = [f"{name} = {value!r}" for name, value in about.items()]
    path.write_text("\n".join(["[about]", *lines, "", sections]))
    assumed = Assumptions.read([path])
    assert np.median(_seconds(mine, assumed) / _seconds(mine)) == pytest.approx(SLOWER, rel=0.1)
    elsewhere = _products(12, stack="sglang 0.5.14", implementation="sglang_sgl_kernel")
    same = bool((_seconds(elsewhere, assumed) == _seconds(elsewhere)).all())
    assert same == bool(stated)  # a file that states no implementation serves every row
    assert ("fitted_to_gemm_fp8" in read_calibration(path).about) == bool(stated)
