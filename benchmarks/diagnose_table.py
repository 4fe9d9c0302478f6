"""Take published runs apart: every sentence, what batches and models left out are missed by.

``python benchmarks/diagnose_table.py [TABLE]``, by default ``../shared/data/runs/mlenergy.parquet``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tracetool as tt
from tracetool.compare.run_tables.factors import FACTORS

PUBLISHED = "shared/data/runs/mlenergy.parquet"
TABLE = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2] / PUBLISHED)

diagnosis = tt.diagnose_table(TABLE)
print(*diagnosis.findings, sep="\n")
errors = np.abs(np.expm1(-diagnosis.source.curves.errors))
print(f"{errors.size} batches left out: median error {np.median(errors):.1%}, mean {errors.mean():.1%}")
for (unit,), rows in diagnosis.curves.group_by("unit", maintain_order=True):
    median = np.median(rows["left_out_error_pct"].to_numpy())
    print(f"  one {unit}: {rows.height} curves, median of their errors {median:.1f} %")
ranked = diagnosis.source.ranked
order = ranked["spearman"].to_numpy()
print(f"{order.size} models left out: median Spearman {np.median(order):.3f}, least {order.min():.3f}")
for (unit,), rows in ranked.group_by("unit", maintain_order=True):
    order = rows["spearman"].to_numpy()
    share = (order >= 0.9).mean()
    print(f"  {unit}: {order.size} models, median {np.median(order):.3f}, 0.9 and more for {share:.0%}")
missed = 0.0
for contrast in diagnosis.source.contrasts:
    pairs = contrast.pairs
    change = (pairs["head_j"] - pairs["base_j"]).to_numpy()
    total = pairs.select(FACTORS).sum_horizontal().to_numpy()
    missed = max(missed, float(np.max(np.abs(total - change) / pairs["base_j"].to_numpy())))
count = len(diagnosis.source.contrasts)
print(f"{count} comparisons: factors sum to the difference within {missed:.1e} of the energy")
