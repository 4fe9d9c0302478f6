"""The joint fit: one set for several GPUs, near its center where rows say little."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tracetool.calibrate import few_rows, joint
from tracetool.calibrate.joint import GpuRows, errors, fit_joint, fit_near, posterior
from tracetool.calibrate.law_fit import LawFit, LawRows, best_choices
from tracetool.core.interval import Z90
from tracetool.core.operators import OperatorColumns
from tracetool.families.attention.tile_sizes import TENSOR_TILES
from tracetool.families.implementations import implementations
from tracetool.families.pieces import duration_s
from tracetool.families.pricing import laws
from tracetool.hardware.gpu import Gpu
from tracetool.hardware.load import load_gpu
from tracetool.model.own_kernels import PRIOR_ROWS


def _operators(family: str, texts: dict[str, str], **numbers: float) -> OperatorColumns:
    sizes = np.array([1.0, 3.0, 16.0])
    columns = {k: np.full(3, v) for k, v in numbers.items()} | {"batch": sizes, "tokens": 64.0 * sizes}
    texts = {"dtype": "bf16", **texts}
    return OperatorColumns(
        np.full(3, family, dtype=object),
        {**columns, **{k: np.full(3, v, dtype=object) for k, v in texts.items()}},
    )


_HEADS = {"heads": 32.0, "kv_heads": 8.0, "head_dim": 128.0, "kv_len": 2048.0}
_LATENT = {
    "heads": 64.0,
    "kv_lora_rank": 512.0,
    "rope_dim": 64.0,
    "nope_dim": 128.0,
    "v_dim": 128.0,
    "kv_len": 2048.0,
}
_EXPERTS = {"hidden": 4096.0, "intermediate": 2048.0, "top_k": 4.0, "experts": 32.0, "tp": 1.0, "ep": 1.0}
_DELTA = {
    "seq_len": 512.0,
    "num_k_heads": 16.0,
    "num_v_heads": 32.0,
    "head_k_dim": 128.0,
    "head_v_dim": 128.0,
}
_CONTEXT, _TOKEN = {"phase": "context"}, {"phase": "generation"}
#: Rows of every law whose equations take a coefficient a row.
SHAPES = {
    "prefill": _operators("attention", {"phase": "prefill"}, **_HEADS, q_len=2048.0, causal=1.0),
    "encoder": _operators("attention", {"phase": "prefill"}, **_HEADS, q_len=2048.0, causal=0.0),
    "decode": _operators("attention", {"phase": "decode"}, **_HEADS, q_len=1.0),
    "mla_prefill": _operators("attention", {"phase": "prefill"}, **_LATENT, q_len=2048.0),
    "mla_decode": _operators("attention", {"phase": "decode"}, **_LATENT, q_len=1.0),
    "conv1d": _operators("ssm", {**_CONTEXT, "implementation": "causal_conv1d_fn"}, **_DELTA),
    "conv1d_update": _operators("ssm", {**_TOKEN, "implementation": "causal_conv1d_update"}, **_DELTA),
    "gdn_chunk": _operators("ssm", {**_CONTEXT, "implementation": "chunk_gated_delta_rule"}, **_DELTA),
    "gdn_update": _operators("ssm", {**_TOKEN, "implementation": "fused_recurrent"}, **_DELTA),
    **{name: _operators("moe", {}, **_EXPERTS) for name in laws() if name.startswith("moe")},
}
LAW = laws()["decode"]
TRUTH = {"launch_us": 9.0, "step_clk": 900.0}


def measured(gpu: Gpu, count: int, seed: int, truth: dict[str, float] = TRUTH) -> GpuRows:
    """Return rows whose times are the law's with known coefficients, and one per cent of noise."""
    random = np.random.default_rng(seed)
    numbers = {
        "batch": random.choice([1.0, 8.0, 64.0], count),
        "kv_len": random.choice([128.0, 1024.0, 8192.0], count),
        "heads": np.full(count, 32.0), "kv_heads": np.full(count, 8.0), "head_dim": np.full(count, 128.0),
        "q_len": np.ones(count),
    }  # fmt: skip
    texts = {"phase": "decode", "dtype": "bf16"}
    rows = OperatorColumns(
        np.full(count, "attention", dtype=object),
        {**numbers, **{k: np.full(count, v, dtype=object) for k, v in texts.items()}},
    )
    hertz = np.full((count, 1), gpu.clock_boost_mhz * 1e6)
    exact = duration_s(LAW.pieces(rows, gpu, truth), hertz)[:, 0]
    noise = np.exp(random.normal(0.0, 0.01, count))
    return GpuRows(gpu, LawRows(rows, exact * noise, hertz, np.arange(count)))


@pytest.fixture(scope="module")
def gpus() -> tuple[Gpu, Gpu]:
    return load_gpu("h100-sxm"), load_gpu("h200-sxm")


def test_one_set_times_every_gpu(gpus: tuple[Gpu, Gpu]) -> None:
    parts = [measured(gpu, 80, seed) for seed, gpu in enumerate(gpus)]
    fit = fit_joint(LAW, parts)
    for part in parts:
        hertz = part.law_rows.hertz
        time = duration_s(LAW.pieces(part.law_rows.rows, part.gpu, fit.on(part.gpu)), hertz)[:, 0]
        assert np.median(np.abs(time / part.law_rows.measured_s - 1.0)) < 0.02
    assert fit.by_architecture == {}  # both are of one


def test_an_architecture_keeps_what_it_alone_does(
    gpus: tuple[Gpu, Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes and habits stay as they are: whether one is chosen is asked above and below."""
    monkeypatch.setattr(joint, "best_choices", lambda _law, start, fit, **_: fit(start, 5))
    other = load_gpu("a100-sxm")
    parts = [measured(gpus[0], 50, 1), measured(other, 50, 2, {**TRUTH, "launch_us": 30.0})]
    fit = fit_joint(LAW, parts)
    assert fit.on(other)["launch_us"] > 1.5 * fit.on(gpus[0])["launch_us"]


def test_few_rows_stay_near_the_center(gpus: tuple[Gpu, Gpu]) -> None:
    center = {name: one.value for name, one in LAW.priors.items()}
    near, far = (
        fit_near(LAW, [measured(gpus[0], 200, 3, {**TRUTH, "launch_us": 40.0})], center, center, sd)
        for sd in (0.02, 0.5)
    )
    assert abs(np.log(near["launch_us"] / center["launch_us"])) < abs(
        np.log(far["launch_us"] / center["launch_us"])
    )
    assert far["launch_us"] == pytest.approx(40.0, rel=0.15)


def test_a_size_that_no_row_tells_from_another_is_not_chosen_for_the_steps_it_was_tried_with() -> None:
    """Each step of a fit gains a tenth; queries' tiles matter, and tiles that meet latents never ran."""

    def fit(values: Mapping[str, float], steps: int) -> tuple[dict[str, float], float]:
        further = {**values, "launch_us": values["launch_us"] * 0.9**steps}
        return further, further["launch_us"] * (1.0 if values["query_tile"] == 128.0 else 2.0)

    law = laws()["mla_prefill"]
    start = {name: one.value for name, one in law.priors.items()}
    chosen, _ = best_choices(law, start, fit, trial_steps=2)
    assert chosen["query_tile"] == 128.0
    assert chosen["absorbed_tile"] == start["absorbed_tile"]


def test_ten_rows_of_a_new_gpu_are_worth_a_calibration(gpus: tuple[Gpu, Gpu]) -> None:
    truth = {**implementations("decode")[0].laws["decode"].values, "launch_us": 12.0}
    ten, rest = measured(gpus[0], 10, 4, truth), measured(gpus[0], 200, 5, truth)
    fit = few_rows.fit_few(LAW, ten.law_rows, gpus[0], {}, (-0.5, 0.5))
    error = np.abs(np.expm1(errors(LAW, rest, fit.values)))
    assert np.median(error) < 0.14
    assert fit.spread[""][0] < 0 < fit.spread[""][1]
    assert fit.spread[""][1] < 0.5  # what is known of the spread narrows with the rows
    # bounds as wide as those of no rows at all say that the prior stands; some of so many coefficients must
    free = [k for k in fit.low if LAW.priors[k].low < fit.low[k] and fit.high[k] < LAW.priors[k].high]
    told = {k: 1.0 - (np.log(fit.high[k] / fit.low[k]) / 2.0 / Z90) ** 2 / (2.0 * 0.35**2) for k in free}
    assert {k for k in free if told[k] < 0.15} == fit.from_prior & set(free)
    assert "launch_us" not in fit.from_prior
    assert 0 < len(fit.from_prior) < len(fit.low)


def test_few_rows_begin_where_a_prediction_of_the_new_gpu_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of kernels nobody measured in tensor memory source states the tiles: they stand beside those fitted."""
    law, gpu = laws()["prefill"], load_gpu("b200-sxm")
    (one,) = (one for one in implementations("prefill") if one.name == "trtllm-torch-flow")
    own = {"by_architecture": {"hopper": one.laws["prefill"].by_architecture["hopper"]}}
    fitted = replace(one.laws["prefill"], gpus={"h100-sxm": 100, "h200-sxm": 100}, **own)
    hopper = replace(one, laws={"prefill": fitted})
    layers = {"q_len": np.geomspace(64, 8192, 6), "heads": np.full(6, 16.0), "head_dim": np.full(6, 128.0)}
    texts = {"phase": "prefill", "stack": "trtllm", "implementation": max(one.names)}
    columns = layers | {k: np.full(6, v, dtype=object) for k, v in texts.items()}
    rows = OperatorColumns(np.full(6, "attention", dtype=object), columns)
    data = LawRows(rows, np.full(6, 1e-4), np.full((6, 1), gpu.clock_boost_mhz * 1e6), np.arange(6))
    begun: list[Mapping[str, float]] = []

    def fit_near(*given: object, **settings: object) -> dict[str, float]:
        begun.append(given[2])  # type: ignore[arg-type]
        return dict(begun[-1])

    monkeypatch.setattr(few_rows, "fit_near", fit_near)
    few_rows.fit_few(law, data, gpu, {}, law.spread, (hopper,))
    assert {TENSOR_TILES} < {start["by_head"] for start in begun}


def test_a_hundred_rows_begin_where_they_are_told_best(
    gpus: tuple[Gpu, Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From what is in force or a known implementation, whichever errs less on shapes held back."""
    known = implementations("decode")
    begun: list[Mapping[str, float]] = []

    def fit_law(law: object, data: LawRows, gpu: Gpu, start: Mapping[str, float]) -> LawFit:
        begun.append(start)
        fit = few_rows.fit_few(LAW, data.take(np.arange(10)), gpu, {}, (-0.5, 0.5), available=())
        return replace(fit, mdape_percent=9.0 - len(begun), rows=len(begun))

    monkeypatch.setattr(few_rows, "fit_law", fit_law)
    truth = {**known[2].laws["decode"].on(gpus[0].architecture)}
    data = measured(gpus[0], 120, 6, {**{k: c.value for k, c in LAW.priors.items()}, **truth}).law_rows
    assert few_rows.fit_from_known(LAW, data, gpus[0], {"launch_us": 3.0}).rows == 2
    assert begun[0] == {"launch_us": 3.0}
    assert {k: begun[1][k] for k in truth} == truth
    monkeypatch.setattr(few_rows, "ROWS", 119)  # more rows than a fit looks at tell all there is
    begun.clear()
    assert few_rows.fit_from_known(LAW, data, gpus[0], {}).rows == len(begun) == 1
    begun.clear()
    assert few_rows.fit_from_known(LAW, data, gpus[0], {}, available=()).rows == len(begun) == 1


def test_a_row_is_judged_by_the_others_errors(gpus: tuple[Gpu, Gpu], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was known is worth P rows of deviation 0.1: bands of one row by the other four."""
    known = PRIOR_ROWS * 0.01
    inside = 0.95 * Z90 * (known / (PRIOR_ROWS + 4.0)) ** 0.5
    outside = 1.02 * Z90 * ((known + inside**2) / (PRIOR_ROWS + 4.0)) ** 0.5
    error = np.array([0.0, outside, 0.0, -inside, 0.0])
    monkeypatch.setattr(few_rows, "_held_out", lambda *_: error)
    data = measured(gpus[0], 5, 7).law_rows
    fit = few_rows.fit_few(LAW, data, gpus[0], {}, (-0.1 * Z90, 0.1 * Z90), available=())
    assert fit.coverage_percent == pytest.approx(80.0)
    band = Z90 * ((known + inside**2 + outside**2) / (PRIOR_ROWS + 5.0)) ** 0.5
    assert fit.spread[""] == pytest.approx((-band, band))
    assert fit.mape_percent == pytest.approx(20.0 * (np.exp(inside) - np.exp(-outside)))
    assert fit.mdape_percent == 0.0


@pytest.mark.parametrize("name", sorted(name for name, law in laws().items() if law.by_row))
def test_a_law_that_takes_a_coefficient_a_row_gives_what_one_for_all_gives(name: str) -> None:
    law, gpu = laws()[name], load_gpu("h100-sxm")
    rows = SHAPES[name]
    count = len(rows)
    priors = {key: one.value for key, one in law.priors.items()}
    moved = {key: value * 1.07 if law.priors[key].fitted else value for key, value in priors.items()}
    hertz = np.full((2 * count, 1), gpu.clock_boost_mhz * 1e6)
    columns = {
        key: np.repeat([value, moved[key]], count) if law.priors[key].fitted else value
        for key, value in priors.items()
    }
    twice = rows.take(np.tile(np.arange(count), 2))
    together = duration_s(law.parts(twice, gpu, columns), hertz)[:, 0]
    apart = [duration_s(law.parts(rows, gpu, given), hertz[:count])[:, 0] for given in (priors, moved)]
    np.testing.assert_allclose(together, np.concatenate(apart), rtol=1e-12)
    assert not np.allclose(apart[0], apart[1])


def test_a_coefficient_the_rows_say_nothing_of_keeps_its_spread(gpus: tuple[Gpu, Gpu]) -> None:
    part = measured(gpus[0], 60, 6)
    center = {name: one.value for name, one in LAW.priors.items()}
    _, deviation = posterior(LAW, [part], fit_near(LAW, [part], center, center, 0.35), center, 0.35)
    assert deviation["kv8_step"] == pytest.approx(0.35)  # no row has keys of 8 bits
    assert deviation["launch_us"] < 0.15
