"""Forecasts as a whole: what must hold of any model, and what becomes of cases that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracetool as tt
from tests.documents import check_document
from tracetool.cli.app import run as command_line
from tracetool.core.errors import BadInput
from tracetool.forecast.figures import FIGURES

CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
CHAT: dict[str, Any] = {"gpu": "h100-sxm", "mode": "serve", "isl": 400, "osl": 400, "bs": 64}


def _one(**values: Any) -> dict[str, Any]:
    return tt.forecast(CONFIG, **{**CHAT, **values}).frame.to_dicts()[0]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "config.json"
    path.write_text(json.dumps(CONFIG), "utf-8")
    return path


@pytest.mark.parametrize("mode", ["prefill", "decode", "serve"])
def test_intervals_hold_the_figures(mode: str) -> None:
    row = _one(mode=mode)
    present = [name for name in FIGURES if row[name] is not None]
    assert "power_w" in present
    assert ("ttft_ms" if mode == "prefill" else "itl_ms") in present
    for name in present:
        assert 0 < row[f"{name}_low"] < row[name] <= row[f"{name}_high"]
    assert 0 <= row["covered"] <= 1
    assert row["error"] is None


def test_energy_is_power_over_throughput() -> None:
    for mode in ("decode", "serve", "prefill"):
        row = _one(mode=mode)
        assert row["energy_per_token_j"] == pytest.approx(row["power_w"] / row["tokens_per_s"])
    row = _one()
    assert row["energy_per_item_j"] == pytest.approx(row["energy_per_token_j"] * CHAT["osl"])


def test_more_requests_at_once_cost_time_and_save_energy() -> None:
    rows = [_one(bs=bs) for bs in (1, 8, 64, 256)]
    for name, falls in (("itl_ms", False), ("tokens_per_s", False), ("energy_per_token_j", True)):
        values = [row[name] for row in rows]
        assert values == sorted(values, reverse=falls), name


def test_decode_waits_for_memory_and_prefill_for_arithmetic() -> None:
    one, other = (
        {"gpu": gpu, "bs": 1, "host_us": 0} for gpu in ("h100-sxm", "h200-sxm")
    )  # same SMs, 4.8/3.35
    decode = [_one(**c, mode="decode", sampling="greedy")["itl_ms"] for c in (one, other)]
    prefill = [_one(**c, mode="prefill", isl=4000)["ttft_ms"] for c in (one, other)]
    assert decode[0] / decode[1] > 1.15
    assert prefill[0] / prefill[1] < 1.1


def test_weights_are_read_once_a_token() -> None:
    row = _one(mode="decode", bs=1, isl=16, osl=16, host_us=0, sampling="greedy")
    floor_ms = 1e3 * 2 * (8.03e9 - 128256 * 4096) / 3.35e12  # the embedding table is not read whole
    assert floor_ms < row["itl_ms"] < 1.5 * floor_ms


def test_dividing_a_model_saves_time_and_memory() -> None:
    one, two = (_one(tp=tp, host_us=0) for tp in (1, 2))
    assert two["itl_ms"] < one["itl_ms"] < 2 * two["itl_ms"]
    assert two["memory_gib"] < one["memory_gib"]
    assert two["largest_batch"] > 2 * one["largest_batch"]


def test_replicas_share_the_requests() -> None:
    one, two = _one(bs=64), _one(bs=128, dp=2)
    assert two["itl_ms"] == pytest.approx(one["itl_ms"])
    assert two["power_w"] == pytest.approx(2 * one["power_w"])
    assert two["energy_per_token_j"] == pytest.approx(one["energy_per_token_j"])


def test_a_cap_lowers_power_and_a_clock_slows() -> None:
    free, capped, slow = _one(bs=256), _one(bs=256, power_cap_w=450), _one(bs=256, clock_mhz=1000)
    assert capped["power_w"] < 451 < free["power_w"]
    assert capped["itl_ms"] > free["itl_ms"]
    assert slow["itl_ms"] > free["itl_ms"]
    assert slow["power_w"] < free["power_w"]


def test_a_stated_host_narrows_the_interval() -> None:
    def width(row: dict[str, Any]) -> float:
        return float((row["itl_ms_high"] - row["itl_ms_low"]) / row["itl_ms"])

    unknown = _one(bs=1)
    known = _one(bs=1, host_us=250)
    assert width(known) < width(unknown)
    slower = _one(bs=1, host_us=3000)
    assert slower["itl_ms"] - known["itl_ms"] == pytest.approx(2.75)


def test_a_prompt_beyond_the_budget_is_cut() -> None:
    whole, cut = (_one(mode="prefill", bs=1, isl=8000, token_budget=b) for b in (8192, 2000))
    assert cut["ttft_ms"] == pytest.approx(whole["ttft_ms"], rel=0.25)


def test_parts_add_up_to_the_energy_of_a_step() -> None:
    result = tt.forecast(CONFIG, **CHAT)
    row = result.frame.to_dicts()[0]
    per_step = row["energy_per_token_j"] * CHAT["bs"]
    assert result.parts["energy_j"].sum() == pytest.approx(per_step)
    assert result.parts["energy_share_pct"].sum() == pytest.approx(100.0)


def test_one_bad_case_spoils_no_other() -> None:
    cases = pl.DataFrame(
        {
            "model": ["config.json"] * 5,
            "gpu": ["h100-sxm", "gtx-9999", "h100-sxm", "h100-sxm", "h100-sxm"],
            "tp": [1, 1, 3, 1, 1],
            "bs": [8.0, 8.0, 8.0, 1e6, 8.0],
            "mine": ["a", "b", "c", "d", "e"],
        }
    )
    frame = tt.forecast(cases.with_columns(model=pl.lit(None)), **_defaults()).frame
    assert frame["mine"].to_list() == ["a", "b", "c", "d", "e"]
    good = frame["error"].is_null().to_list()
    assert good == [True, False, False, False, True]
    for place, name in ((1, "gtx-9999"), (2, "num_attention_heads"), (3, "bs")):
        assert name in frame["error"][place]
        assert frame["itl_ms"][place] is None
    assert frame["itl_ms"][0] == frame["itl_ms"][4]


def _defaults() -> dict[str, Any]:
    return {"model": CONFIG, "mode": "serve", "isl": 400, "osl": 400}


def test_many_cases_are_as_each_by_itself(config: Path, tmp_path: Path) -> None:
    cases = pl.DataFrame({"bs": [1.0, 32.0, 512.0], "power_cap_w": [None, None, 400.0]})
    table = tmp_path / "cases.parquet"
    cases.with_columns(model=pl.lit(str(config)), gpu=pl.lit("h100-sxm"), isl=400, osl=400).write_parquet(
        table
    )
    frame = tt.forecast(table).frame
    for row in frame.to_dicts():
        alone = tt.forecast(
            config, gpu="h100-sxm", isl=400, osl=400, bs=row["bs"], power_cap_w=row["power_cap_w"]
        )
        figures = [name for name in FIGURES if row[name] is not None]
        assert "itl_ms" in figures
        for name in figures:
            assert row[name] == pytest.approx(alone.frame[name].item(), rel=1e-9), name


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("--gpu h100-sxm --tp 5", "num_attention_heads"),
        ("--gpu h100-sxm --bs 100000", "bs"),
        ("--gpu gtx-9999", "gtx-9999"),
        ("", "gpu"),
        ("--gpu h100-sxm --mode dream", "mode"),
        ("--gpu h100-sxm --gpus 7 --tp 2", "gpus"),
        ("--gpu h100-sxm --isl -3", "isl"),
        ("--gpu h100-sxm --clock 90000", "90000"),
        ("--gpu h100-sxm --sampling beam", "sampling"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: str, name: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["forecast", str(config), *words.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert name in printed.err
    assert printed.err.count("\n") == 1


def test_a_model_too_large_says_so() -> None:
    with pytest.raises(tt.BadInput, match=r"^tp: "):
        _one(gpu="rtx-3060")


def test_the_largest_batch_is_one_number_and_no_gpu_holds_more_than_it_has() -> None:
    long = {"isl": 32768, "osl": 512}
    fitting, beyond = (tt.forecast(CONFIG, **{**CHAT, **long, "bs": bs}) for bs in (13, 18))
    assert fitting.frame["largest_batch"].item() == beyond.frame["largest_batch"].item() == 13
    assert not [note for note in fitting.notes if "at once" in note]
    assert any(
        "18 requests do not fit the memory of h100-sxm at once, 13 do" in note for note in beyond.notes
    )
    assert beyond.frame["memory_gib_high"].item() <= 80.0
    with pytest.raises(
        tt.BadInput, match=r"160 GiB beside 15 GiB of weights \(the largest batch that fits is 13\)"
    ):
        _one(**long, bs=40)


def test_where_every_case_fails_nothing_is_written(config: Path, tmp_path: Path) -> None:
    table, out = tmp_path / "cases.csv", tmp_path / "out.parquet"
    table.write_text(f"model,gpu,tp\n{config},h100-sxm,5\n", "utf-8")
    assert command_line(["forecast", str(table), "-o", str(out), "-q"]) == 2
    assert not out.exists()


def test_a_language_model_makes_no_images() -> None:
    with pytest.raises(tt.BadInput, match="no diffusion pipeline"):
        _one(mode="generate")


@pytest.mark.data
def test_images_cost_by_steps_and_gpus(data: Path) -> None:
    model = data / "models/stabilityai--stable-diffusion-3.5-medium.json"

    def made(**values: Any) -> dict[str, Any]:
        asked = {"gpu": "h100-sxm", "mode": "generate", "bs": 2, "steps": 20, **values}
        return tt.forecast(model, **asked).frame.to_dicts()[0]

    one, longer, shared = made(), made(steps=40), made(sp=2)
    assert 1.8 < longer["step_ms"] / one["step_ms"] < 2.0  # the decoder runs once
    assert one["step_ms"] / 2 < shared["step_ms"] < one["step_ms"]
    for row in (one, shared):
        assert row["energy_per_item_j"] == pytest.approx(row["power_w"] * row["step_ms"] / 1e3 / 2)
        assert row["step_ms_low"] < row["step_ms"] < row["step_ms_high"]


def test_kernels_launched_one_by_one_wait_for_the_host() -> None:
    def step_ms(launch: str) -> float:
        made = tt.forecast("llama-3.1-8b", gpu="h100-sxm", mode="decode", bs=1, launch=launch).frame
        return float(made["itl_ms"].item())

    assert step_ms("eager") > 1.2 * step_ms("graph")
    with pytest.raises(BadInput, match="launch: 'none' is not known"):
        step_ms("none")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"zero": 1}, "zero"),
        ({"gbs": 64, "steps": 20}, "gbs, steps"),
        ({"mode": "train", "gbs": 8, "isl": 512, "osl": None, "bs": None}, "isl"),
    ],
)
def test_what_a_mode_does_not_read_is_named(given: dict[str, Any], named: str) -> None:
    values = {**CHAT, **given}
    told = tt.forecast(CONFIG, **values)
    assert f"without effect on --mode {values['mode']}: {named}" in told.notes
    plain = tt.forecast(CONFIG, **{k: v for k, v in values.items() if k not in named.split(", ")})
    assert not [note for note in plain.notes if "without effect" in note]
    assert plain.frame["power_w"].to_list() == told.frame["power_w"].to_list()


def test_columns_that_decide_no_case_are_named(config: Path) -> None:
    case = {"model": str(config), "gpu": "h100-sxm", "mode": "serve", "isl": 400, "osl": 100}
    table = pl.DataFrame([{**case, "batch": 8, "seq": 64.0}, {**case, "batch": 16, "seq": None}])
    told = tt.forecast(table)
    assert "columns without effect: batch" in told.notes
    assert "seq without effect on 1 case of mode serve" in told.notes
    assert told.frame["power_w"].n_unique() == 1
    named = tt.forecast(table.rename({"batch": "bs"}).drop("seq"))
    assert not [note for note in named.notes if "without effect" in note]
    assert named.frame["power_w"].n_unique() == 2


def test_a_step_that_waits_for_the_host_to_carry_sums_says_so() -> None:
    case = {"mode": "decode", "bs": 32, "tp": 8}
    slow, linked, stages = (
        tt.forecast(CONFIG, **{**CHAT, **case, **other}).notes
        for other in ({"gpu": "l40s"}, {}, {"gpu": "l40s", "tp": 1, "pp": 8})
    )
    assert any("exchange through the host: no peer link joins 8 l40s" in note for note in slow)
    assert not [note for note in (*linked, *stages) if "through the host" in note]


def test_a_step_of_training_that_waits_for_the_host_says_so() -> None:
    """What runs beside the passes is not waited for: on GPUs that links join nothing is said."""
    step = {"gpus": 8, "mode": "train", "bs": 1, "gbs": 64, "seq": 4096}
    weights, linked, divided = (
        tt.forecast(CONFIG, **step, **other).notes
        for other in ({"gpu": "l40s", "zero": 3}, {"gpu": "h100-sxm", "zero": 3}, {"gpu": "l40s", "tp": 8})
    )
    assert any("exchange through the host" in note and "--zero 1 exchange less" in note for note in weights)
    assert any("exchange through the host" in note and "--tp exchanges less" in note for note in divided)
    assert not [note for note in linked if "exchange" in note]


def test_a_step_that_waits_for_other_servers_states_the_adapters_assumed() -> None:
    notes = tt.forecast(CONFIG, **{**CHAT, "mode": "decode", "bs": 32, "tp": 16}).notes
    (note,) = [one for one in notes if "exchange" in one]
    assert "2 groups of up to 8 h100-sxm" in note
    assert "adapter of 400 Gb/s beside each GPU is assumed" in note


def test_a_pipeline_needs_no_mode() -> None:
    asked = {"gpu": "h100-sxm", "steps": 2}
    usual, named = (tt.forecast("flux.1-dev", **asked, mode=mode) for mode in (None, "generate"))
    assert usual.frame.equals(named.frame)
    table = pl.DataFrame([{"model": "flux.1-dev", **asked}])
    assert tt.forecast(table).frame["step_ms"].to_list() == named.frame["step_ms"].to_list()


def test_gpus_for_experts_are_none_where_there_are_no_experts() -> None:
    plain, asked = (tt.forecast(CONFIG, **CHAT, **other) for other in ({"dp": 2}, {"dp": 2, "ep": 2}))
    assert asked.frame["ttft_ms"].to_list() == plain.frame["ttft_ms"].to_list()
    assert any("has no experts: ep" in note for note in asked.notes)
    experts = tt.forecast("qwen3-30b-a3b", **CHAT, tp=2, ep=2)
    assert not [note for note in experts.notes if "no experts" in note]


@pytest.mark.parametrize(("isl", "noted"), [(3000, False), (4000, True)])
def test_a_context_beyond_the_models_is_noted(isl: int, noted: bool) -> None:
    notes = tt.forecast({**CONFIG, "max_position_embeddings": 4096}, **{**CHAT, "isl": isl}).notes
    assert any(f"{isl + CHAT['osl']} tokens" in note and "4096" in note for note in notes) == noted


def test_bf16_where_no_tensor_core_takes_it_is_noted() -> None:
    def noted(gpu: str, dtype: str) -> bool:
        notes = tt.forecast({**CONFIG, "torch_dtype": dtype}, **{**CHAT, "gpu": gpu, "tp": 4, "bs": 1}).notes
        return any("multiplies BF16 as FP32" in note for note in notes)

    assert noted("v100-sxm2-16gb", "bfloat16")
    assert not noted("v100-sxm2-16gb", "float16")
    assert not noted("a100-sxm", "bfloat16")


@pytest.mark.parametrize(
    ("gpu", "dtype", "noted"),
    [
        ("v100-sxm2-16gb", "bf16", "multiplies BF16 as FP32, at 8 %"),
        ("v100-sxm2-16gb", "tf32", "multiplies TF32 as FP32"),
        ("v100-sxm2-16gb", "fp16", ""),
        ("a100-sxm", "bf16", ""),
        ("a100-sxm", "fp8", "no tensor cores for FP8: products are priced at the rate of 16 bits"),
        ("a100-sxm", "mxfp8", "no tensor cores for MXFP8"),
        ("a100-sxm", "nvfp4", "no tensor cores for NVFP4"),
        ("h100-sxm", "fp8", ""),
        ("h100-sxm", "mxfp8", "no tensor cores for MXFP8: products are priced as FP8's"),
        ("h100-sxm", "nvfp4", "no tensor cores for NVFP4"),
        ("b200-sxm", "mxfp8", ""),
        ("b200-sxm", "nvfp4", ""),
    ],
)
def test_a_format_a_gpu_has_no_units_for_is_noted(gpu: str, dtype: str, noted: str) -> None:
    modes = ["train", "decode"] if dtype not in {"tf32", "mxfp8"} else ["train"]
    for mode in modes:
        notes = tt.forecast(CONFIG, gpu=gpu, mode=mode, dtype=dtype, tp=4).notes
        found = [note for note in notes if "tensor cores" in note or "as FP32" in note]
        # what is not quantized stays in BF16
        own = [note for note in found if f" {dtype.upper()}" in note.partition(", at")[0]]
        assert bool(own) == bool(noted)
        assert all(noted in note for note in own)


@pytest.mark.parametrize("asked", [{}, {"mode": "train"}, {"mode": "prefill"}, {"bs": [1, 2]}])
def test_documents_of_the_shortest_questions_fit_their_schema(asked: dict[str, Any]) -> None:
    check_document("forecast", json.loads(tt.forecast(CONFIG, gpu="h100-sxm", **asked).to_json()))


def test_what_prompts_cost_is_not_said_of_output_tokens(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["forecast", str(config), "--gpu", "h100-sxm", "--mode", "prefill", "--isl", "1000"]
    assert command_line([*words, "--bs", "4"]) == 0
    printed = capsys.readouterr().out
    assert "output token" not in printed
    row = _one(mode="prefill", isl=1000, bs=4)
    each = row["energy_per_item_j"] / 1000
    assert f"{1000 * row['tokens_per_s']:,.0f} per second, {each:.5f} J each" in printed
    assert command_line([*words, "--bs", "1,4"]) == 0
    printed = capsys.readouterr().out
    assert "J/prompt" in printed
    assert "prompts/s/GPU" in printed


def test_a_table_of_cases_shows_what_tells_them_apart(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "cases.csv"
    rows = [f"{config},h100-sxm,prefill,{bs},30000,{tp}" for tp, bs in ((1, 1), (2, 4), (5, 4))]
    table.write_text("\n".join(["model,gpu,mode,bs,isl,tp", *rows]), "utf-8")
    assert command_line(["forecast", str(table)]) == 0
    head, first, *_ = (printed := capsys.readouterr().out).splitlines()[1:]
    assert head.split()[:3] == ["model", "bs", "tp"]
    assert first.split()[:3] == ["config", "1", "1"]
    assert "tokens [1/s]" in printed.replace("\n  ", " ")  # a rate, no time that is turned into ms
    assert "the first: num_attention_heads: 32 heads are not divisible by tp=5" in printed.replace(
        "\n  ", " "
    )


def test_the_title_names_the_gpu_that_was_taken(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["forecast", str(config), "--gpu", "h100"]) == 0
    assert capsys.readouterr().out.startswith("config.json, serve on h100-sxm at")


def test_a_version_nobody_measured_is_noted() -> None:
    def notes(stack: str) -> str:
        return " ".join(tt.forecast(CONFIG, gpu="h100-sxm", stack=stack, tp=1, mode="decode").notes)

    assert "version of 'vllm 99' was not measured" in notes("vllm 99")
    usual = tt.forecast(CONFIG, gpu="h100-sxm", tp=1, mode="decode").notes
    assert "version of" not in notes("vllm 0.24.0") + " ".join(usual)
    assert "version of 'vllm' is not stated: kernels of vllm 0.24.0 taken" in notes("vllm")


def test_costs_of_several_cases_name_what_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Caps and clocks stand beside the costs, and costs of a small unit show their digits."""
    monkeypatch.setenv("COLUMNS", "160")
    priced = tt.Tariff(price_per_kwh=0.2)
    tt.forecast(CONFIG, **CHAT, power_cap_w=[300, 700], clock_mhz=[1000, 1500], tariff=priced).show()
    lines = capsys.readouterr().out.splitlines()
    place = next(place for place, line in enumerate(lines) if "cost per million tokens" in line)
    assert "cost per item [1e-6]" in lines[place]
    heads = [lines[place].index(head) for head in ("clock [MHz]", "power cap [W]")]
    told = {tuple(row[head:].split()[0] for head in heads) for row in lines[place + 1 : place + 5]}
    assert len(told) == 4
