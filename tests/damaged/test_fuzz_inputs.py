"""What users write by hand, changed at random: names of kernels, tables, settings, calibrations, model files."""

# ruff: noqa: E501, FLY002

from __future__ import annotations

import json
import random
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compare.folders import write_folder
from tests.damaged.fuzz import EXAMPLES, FIRST, crash, numbers
from tests.damaged.mutate import change_files
from tests.damaged.test_fuzz_runs import obeys
from tests.kernels.cases import CASES as NAMES
from tracetool.kernels.classify import classify_names

ROOT = Path(__file__).resolve().parents[2]
LLAMA = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000, "torch_dtype": "bfloat16",
    "rope_scaling": {"type": "linear", "factor": 2.0}, "tie_word_embeddings": False,
}  # fmt: skip
OPERATORS = (
    "op,dtype,batch,m,n,k,rows,cols,elements,reads,writes,phase,q_len,kv_len,heads,kv_heads,head_dim,causal,count\n"
    "gemm,bf16,1,128,256,512,,,,,,,,,,,,,2\nnorm,fp16,,,,,64,4096,,,,,,,,,,,\n"
    "elementwise,fp32,,,,,,,100000,2,1,,,,,,,,\nattention,bf16,2,,,,,,,,,prefill,64,64,8,2,64,true,\n"
)
KERNELS = "kernel,duration_us,power_w,clock_mhz\nampere_sgemm_128x64_tn,100.5,250,1410\nmine,7,120,1410\n"
ACTIVITY = "name,start_us,end_us\na,1700000000000000,1700000000300000\nb,1700000000300000,1700000000900000\n"
LOG = "timestamp,power_w\n" + "".join(f"{1700000000 + i / 10},{100 + i}\n" for i in range(12))
SENSOR = "[sensor]\ngain = 0.98\ngain_sd = 0.01\noffset_w = 2.0\noffset_sd_w = 1.0\nwindow_ms = 25.0\nupdate_ms = 100.0\n"
WINDOWS = "start_us,end_us\n1700000000100000,1700000000500000\n1700000000500000,1700000000900000\n"
PRIOR = "name,power_w,power_sd_w\na,110.0,10.0\nb,105.0,12.5\n"
SETTINGS = (
    'fail-on = ["energy=2%", "gemm:energy=3%"]\nbase = ["base"]\nhead = ["head"]\nstrict = false\n'
    '[spread]\nenergy = "0.6%"\n'
)


def _request(start_ns: int, name: str) -> str:
    """Return a line of AIPerf's records of requests."""
    span = {"request_start_ns": start_ns, "request_end_ns": start_ns + 300_000_000}
    values = {"time_to_first_token": 100.0, "input_sequence_length": 500, "output_sequence_length": 20}
    metrics = {n: {"value": v, "unit": "ms"} for n, v in values.items()}
    metadata = span | {"benchmark_phase": "profiling", "was_cancelled": False, "x_request_id": name}
    return json.dumps({"metadata": metadata, "metrics": metrics, "error": None})


REQUESTS = "\n".join(_request(1_700_000_000_000_000_000 + i * 350_000_000, f"r{i}") for i in range(3)) + "\n"
_ATTRIBUTE = [
    "attribute",
    "activity.csv",
    "--power",
    "log.csv",
    "--tz",
    "+00:00",
    "--gpu",
    "a100-pcie-40gb",
]


def _files(**texts: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for name, text in texts.items():
            (folder / name.replace("__", ".")).write_text(text, "utf-8")

    return make


def _calibrations(folder: Path) -> None:
    for path in (ROOT / "tracetool" / "hardware" / "calibrations").glob("a100-pcie-40gb.*.toml"):
        shutil.copy(path, folder)


#: Files that are changed, and what reads them.
INPUTS: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "operators": (_files(table__csv=OPERATORS), ["predict", "in/table.csv", "--gpu", "h100-sxm", "-o", "out.csv"]),
    "kernels": (_files(table__csv=KERNELS), ["predict", "in/table.csv", "--gpu", "a100-pcie-40gb", "--clock", "900"]),
    "activity": (
        _files(activity__csv=ACTIVITY, log__csv=LOG),
        ["attribute", "in/activity.csv", "--power", "in/log.csv", "--tz", "+00:00", "-o", "out.csv"],
    ),
    "model": (
        _files(config__json=json.dumps(LLAMA)),
        ["forecast", "in/config.json", "--gpu", "h100-sxm", "--mode", "decode", "--bs", "2", "--isl", "16", "--osl", "8"],
    ),
    "settings": (_files(tracetool__toml=SETTINGS), ["check"]),
    "calibration": (_calibrations, ["predict", "table.csv", "--gpu", "a100-pcie-40gb", "--clock", "900"]),
    "sensor": (_files(sensor__toml=SENSOR), [*_ATTRIBUTE, "--sensor", "in/sensor.toml"]),
    "windows": (_files(windows__csv=WINDOWS), [*_ATTRIBUTE, "--windows", "in/windows.csv"]),
    "prior": (_files(prior__csv=PRIOR), [*_ATTRIBUTE, "--prior", "in/prior.csv"]),
    "requests": (_files(requests__jsonl=REQUESTS), ["attribute", "in/requests.jsonl", "--power", "log.csv", "--tz", "+00:00"]),
    "names": (_files(names__txt="\n".join(["ampere_sgemm_128x64_tn", "mine<int>", "ncclDevKernel_AllReduce_Sum_f32"])), ["classify", "in/names.txt"]),
}  # fmt: skip


@pytest.mark.timeout(8000)
@pytest.mark.parametrize("name", INPUTS)
def test_a_changed_input_is_a_result_or_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACETOOL_DEBUG", "1")  # what nobody foresaw is raised, not printed
    monkeypatch.chdir(tmp_path)
    make, words = INPUTS[name]
    count, faults, number = max(3, EXAMPLES // 8), dict[str, str](), FIRST
    for number in numbers(count):
        for old in tmp_path.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        (tmp_path / "in").mkdir()
        make(tmp_path / "in")
        if name == "settings":
            for side in ("base", "head"):
                (tmp_path / side).mkdir()
                write_folder(tmp_path / side / "x.tracetool")
        steps = change_files(tmp_path / "in", random.Random(zlib.crc32(f"{name} {number}".encode())))
        (tmp_path / "table.csv").write_text(KERNELS)
        (tmp_path / "log.csv").write_text(LOG)
        (tmp_path / "activity.csv").write_text(ACTIVITY)
        own = (tmp_path / "in").rename(tmp_path / f"in{number}") if name == "calibration" else tmp_path
        monkeypatch.setenv("TRACETOOL_CALIBRATIONS", str(own))  # each folder is read once by a process
        if name == "settings" and (tmp_path / "in" / "tracetool.toml").exists():
            shutil.copy(tmp_path / "in" / "tracetool.toml", tmp_path)
        fault = obeys(words, tmp_path)
        # a name may be of those letters
        named = fault.startswith("figures") and any(text in str(steps) for text in ("nan'", "inf'"))
        if fault and not named:
            faults.setdefault(fault.split(": ")[0], f"example {number}: {steps}\n  {fault}")
    print(f"{name}: {number - FIRST + 1} of {count} examples, {len(faults)} kinds of faults")
    assert not faults, "\n" + "\n".join(faults.values())


@pytest.mark.timeout(8000)
def test_a_changed_name_is_classified() -> None:
    """Names put together from parts of real ones, cut, nested and repeated: a family or none, and no crash."""
    known = [name for names in NAMES.values() for name in names]
    draw, names = random.Random(FIRST), []
    pieces = [
        "<",
        ">",
        "::",
        "(",
        ")",
        "(int)",
        ",",
        "\0",
        "é",
        "_",
        "operator()",
        "<unnamed>",
        "x" * 3000,
        "&&",
        "0" * 40,
    ]
    for _ in range(EXAMPLES * 20):
        one, two = draw.choice(known), draw.choice(known)
        at, to = draw.randrange(len(one) + 1), draw.randrange(len(two) + 1)
        names.append(one[:at] + "".join(draw.choices(pieces, k=draw.randrange(4))) + two[to:])
    try:
        table = classify_names(names)
    except BaseException as error:  # noqa: BLE001 - Rust's panics are no Exception
        pytest.fail(crash(error))
    assert table["name"].to_list() == names
    assert table["family"].null_count() == 0
