"""A slowdown planted in one family of real traces: exit code, verdict and interval agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.compare.planted import DEFAULT_GPU, families_of, write_planted
from tests.conftest import NIGHTLY
from tracetool.api.ingest import ingest
from tracetool.cli.app import run

LIMIT = 3.0  # per cent
REPEATS = 3
FACTORS = (0.5, 1.05, 1.2, 2.0)
#: The measured traces meet a change that one pair cannot tell and one of the others, in turn.
TRIED = {
    "sample": FACTORS,
    "mi300x": FACTORS if NIGHTLY else (0.5, 1.05),
    "bert": FACTORS if NIGHTLY else (1.05, 1.2),
    "nsight": FACTORS if NIGHTLY else (1.05, 2.0),
}
TRACES = {
    "sample": ("h100_training.sqlite", "attention"),
    "mi300x": ("traces/kineto/tracelens__mi300__Qwen_Qwen1.5-0.5B-Chat.json.gz", "gemm"),
    "bert": ("traces/kineto/tracelens__h100__gaunernst_bert-small-uncased.json.gz", "attention"),
    "nsight": ("traces/nsys/llama3_demo.sqlite", "gemm"),
}


pytestmark = pytest.mark.usefixtures("each_run_loaded_once")


@pytest.fixture(scope="module")
def planted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Path, str]]:
    """Return a function: a trace to the folder of its runs ``base/N``, ``FACTOR/N``, and the family."""

    @cache
    def write(of: str) -> tuple[Path, str]:
        name, family = TRACES[of]
        whole = request.getfixturevalue("samples" if of == "sample" else "data") / name
        folder = tmp_path_factory.mktemp(of)
        trace = ingest([whole], out=folder / "trace.tracetool").path
        families = families_of(trace)
        assert family in families.values()
        for place, factor in (("base", 1.0), *((f"{f:g}", f) for f in TRIED[of])):
            (folder / place).mkdir()
            for number in range(REPEATS):
                seed = 100 * number + round(100 * factor) + (place == "base")
                write_planted(trace, folder / place / f"{number}.tracetool", families, family, factor, seed)
        return folder, family

    return write


def judged(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object]]:
    code = run([*arguments, "--json"])
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    return code, next(m for m in metrics if m["scope"] and m["name"] == "time")


@pytest.mark.parametrize("repeats", [1, REPEATS])
@pytest.mark.parametrize(
    ("trace", "factor"),
    [
        pytest.param(name, factor, marks=() if name == "sample" else pytest.mark.data)
        for name in TRACES
        for factor in TRIED[name]
    ],
)
def test_the_verdict_is_where_the_interval_lies(
    planted: Callable[[str], tuple[Path, str]],
    trace: str,
    factor: float,
    repeats: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, family = planted(trace)
    base, head = (
        [str(r) for r in sorted((folder / place).iterdir())[:repeats]] for place in ("base", f"{factor:g}")
    )
    sides = [a for r in base for a in ("--base", r)] + [a for r in head for a in ("--head", r)]
    gpu = ["--gpu", DEFAULT_GPU] if "nsight" in folder.name else []
    code, found = judged(["diff", *sides, *gpu, "--fail-on", f"{family}:time={LIMIT:g}%"], capsys)
    low, high = float(str(found["low_pct"])), float(str(found["high_pct"]))
    assert (
        abs(float(str(found["change_pct"])) - 100 * (factor - 1)) < 3.5 * factor
    )  # few kernels, their jitter
    assert code == (1 if low > LIMIT else 0)
    verdict = "regressed" if low > LIMIT else "improved" if high < -LIMIT else None
    assert found["verdict"] == (verdict or ("unchanged" if high <= LIMIT else "inconclusive"))
    if factor != 1.05:  # far beyond the limit: one run a side is enough
        assert found["verdict"] == ("improved" if factor < 1 else "regressed")
    elif repeats == 1:
        assert found["verdict"] == "inconclusive"

    settings = tmp_path / "tracetool.toml"
    named = f'gpu = "{gpu[1]}"\n' if gpu else ""
    settings.write_text(f'fail-on = ["{family}:time={LIMIT:g}%"]\nbase = {json.dumps(base)}\n{named}')
    monkeypatch.chdir(tmp_path)
    again, checked = judged(["check", *head], capsys)
    assert (again, checked["verdict"]) == (code, found["verdict"])
    assert checked["low_pct"] == pytest.approx(low)  # sums of groups come in any order
