"""Small tables with known answers, as the other packages would hand them over."""

from __future__ import annotations

import polars as pl

from tracetool.tables.schema import load_schema

NAMES = ["gemm_big", "softmax", "copy_kernel"]
FAMILIES = ["gemm", "softmax", "copy"]


def signatures(launches: tuple[int, ...] = (10, 20, 5), each_us: tuple[float, ...] = (100.0, 20.0, 8.0)):
    """Return three kernels and one memory copy, as the ``signatures`` table."""
    n = len(launches)
    rows = {
        "signature": [*range(n), n],
        "kind": ["kernel"] * n + ["memcpy"],
        "name": [*NAMES[:n], "[HtoD]"],
        "launches": [*launches, 3],
        "duration_ns": [*(int(k * d * 1e3) for k, d in zip(launches, each_us, strict=True)), 1000],
        "duration_median_ns": [*(d * 1e3 for d in each_us), 300.0],
    }
    return load_schema("signatures").conform(pl.DataFrame(rows))


def predictions(duration_us=(110.0, 18.0, 8.0), power_w=(300.0, 200.0, 150.0)):
    """Return predictions per launch: time within 10 %, power within 20 %."""
    n = len(duration_us)
    energy = [d * p / 1e3 for d, p in zip(duration_us, power_w, strict=True)]
    schema = load_schema("predictions")
    known = {
        "clock_mhz": [1410.0] * n,
        "clock_actual_mhz": [1410.0] * n,
        "duration_us": [*duration_us],
        "duration_low_us": [0.9 * v for v in duration_us],
        "duration_high_us": [1.1 * v for v in duration_us],
        "power_w": [*power_w],
        "power_low_w": [0.8 * v for v in power_w],
        "power_high_w": [1.2 * v for v in power_w],
        "energy_mj": energy,
        "energy_low_mj": [0.75 * v for v in energy],
        "energy_high_mj": [1.25 * v for v in energy],
        "bound": ["tensor"] * n,
        "throttled": [False] * n,
        "basis": ["prior"] * n,
    }
    rest = {c.name: [0.5] * n for c in schema.columns if c.name not in known}
    return schema.conform(pl.DataFrame(known | rest)).with_columns(
        pl.Series("signature", range(n), dtype=pl.Int64),
        pl.Series("family", FAMILIES[:n]),
        pl.Series("name", NAMES[:n]),
        pl.lit("shapes").alias("predicted_from"),
    )


def energies(power_w=(250.0, 220.0, None), launches=(10, 20, 5), each_us=(100.0, 20.0, 8.0)):
    """Return measured energies; None where the log tells nothing."""
    rows = []
    for i, (p, k, d) in enumerate(zip(power_w, launches, each_us, strict=True)):
        joules = None if p is None else p * k * d * 1e-6
        rows.append(
            {
                "class": NAMES[i],
                "family": FAMILIES[i],
                "signature": i,
                "device": 0,
                "launches": k,
                "duration_ns": int(k * d * 1e3),
                "energy_j": joules,
                "energy_low_j": None if joules is None else 0.95 * joules,
                "energy_high_j": None if joules is None else 1.05 * joules,
                "power_w": p,
                "coverage": 1.0,
                "prior_share": 0.0,
                "identified": p is not None,
                "reason": None if p is not None else "runs too seldom",
            }
        )
    gap = {
        "class": "(active idle)", "device": 0, "launches": 4, "duration_ns": 2_000_000, "energy_j": 0.2,
        "energy_low_j": 0.1, "energy_high_j": 0.3, "power_w": 100.0, "coverage": 2.0, "prior_share": 0.0,
        "identified": True,
    }  # fmt: skip
    return load_schema("energy").conform(pl.DataFrame([*rows, gap], infer_schema_length=None))
