"""Write the fit of collectives into the files the package reads; see ``fit_collectives.py``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from fit_collectives import Fit

SOURCE = "aiconfigurator-perf"
HABITS = Path(str(resources.files("tracetool.families.transfers")))
CALIBRATIONS = Path(str(resources.files("tracetool.hardware"))) / "calibrations"


def write(
    found: Fit, bands: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]], held_out: Sequence[Any]
) -> None:
    """Write habits beside their laws, and factors, bands and errors into the GPUs' calibrations."""
    for law, values in found.habits.items():
        for path in ("nccl", "vllm", "sglang", "trtllm"):
            _write_habits(
                HABITS / f"{path}.toml", law, {k: v for k, v in values.items() if k.startswith(f"{path}_")}
            )
    for gpu, by_law in bands.items():
        path = CALIBRATIONS / f"{gpu}.time.toml"
        text = path.read_text("utf-8") if path.is_file() else _new(gpu)
        for law, by_kind in by_law.items():
            judged = next(one for one in held_out if one.rows.gpu.name == gpu and one.rows.law.name == law)
            text = _about(text, law, judged)
            text = _section(text, law, found.factors.get(gpu, {}).get(law, {}), by_kind)
        path.write_text(text, "utf-8")


def _write_habits(path: Path, law: str, values: Mapping[str, float]) -> None:
    text = path.read_text("utf-8")
    start = text.find(f"[{law}]\n")
    if start < 0:
        return
    end = text.find("\n[", start + 1)
    end = len(text) if end < 0 else end
    part = text[start:end]
    for key, value in values.items():
        name = key.partition("_")[2]
        part = re.sub(
            rf"(?m)^{name} = {{ value = [^,]+,", f"{name} = {{ value = {float(f'{value:.4g}')!r},", part
        )
    path.write_text(text[:start] + part + text[end:], "utf-8")


def _new(gpu: str) -> str:
    return (
        f'[about]\ntitle = "Time of {gpu}"\nbasis = "calibrated"\n'
        'command = "python benchmarks/collectives.py --write"\ndata = "single operators, loops of replays"\n'
    )


def _about(text: str, law: str, judged: Any) -> str:
    off = np.abs(np.expm1(judged.errors)) * 100
    numbers = {
        f"held_out_mape_percent_{law}": round(float(off.mean()), 2),
        f"held_out_mdape_percent_{law}": round(float(np.median(off)), 2),
        f"interval_holds_percent_{law}": round(float(judged.held.mean() * 100), 1),
        f"rows_{law}": len(off),
    }
    start = text.index("[about]")
    end = text.find("\n\n[", start)
    end = len(text.rstrip("\n")) if end < 0 else end
    part = text[start:end]
    part = "\n".join(line for line in part.split("\n") if line.partition(" = ")[0] not in numbers)
    part += "".join(f"\n{key} = {value}" for key, value in numbers.items())
    return text[:start] + part + text[end:].rstrip("\n") + "\n"


def _section(
    text: str, law: str, factors: Mapping[str, float], bands: Mapping[str, tuple[float, float]]
) -> str:
    lines = [f"[{law}]"]
    for key, value in factors.items():
        unit = "us" if key.endswith("_us") else "1"
        lines.append(_line(key, float(f"{value:.4g}"), unit))
    for kind, pair in bands.items():
        for side, value in zip(("low", "high"), pair, strict=True):
            key = f"spread_{side}_{kind}".rstrip("_")
            lines.append(_line(key, round(value, 4), "1"))
    old = re.compile(rf"\n\[{law}\]\n.*?(?=\n\[|\Z)", re.DOTALL)
    text = old.sub("", text).rstrip("\n") + "\n"
    return text + "\n" + "\n".join(lines) + "\n"


def _line(key: str, value: float, unit: str) -> str:
    return f'{key} = {{ value = {value!r}, unit = "{unit}", kind = "fitted", source = "{SOURCE}" }}'
