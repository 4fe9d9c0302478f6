"""``diff``, ``check`` and ``baseline`` as a CI job calls them: exit codes, files, messages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compare.folders import write_folder, write_runs
from tracetool.cli.app import run

Ran = tuple[int, str, str]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def call(*arguments: str | Path) -> Ran:
        code = run([str(a) for a in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, each_run_loaded_once: None) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_runs(folder / "base", 3)
    write_runs(folder / "same", 3, extra=0)
    write_runs(folder / "slow", 3, slower=1.2)
    return folder


def test_a_regression_exits_1_with_one_line_and_writes_every_file(
    folders: Path, tmp_path: Path, cli: Callable[..., Ran]
) -> None:
    suffixes = (".md", ".json", ".xml", ".sarif", ".codequality", ".csv", ".parquet", ".html")
    outs = [tmp_path / f"d{s}" for s in suffixes]
    code, out, err = cli(
        "diff",
        folders / "base",
        folders / "slow",
        "--fail-on",
        "energy=2%",
        *(a for o in outs for a in ("-o", o)),
    )
    assert code == 1
    assert err.startswith("error: energy +")
    assert err.count("\n") == 1
    assert "longer duration +" in out
    assert all(o.stat().st_size > 200 for o in outs)
    assert json.loads(outs[1].read_text("utf-8"))["verdict"] == "regressed"


def test_nothing_changed_exits_0(folders: Path, cli: Callable[..., Ran]) -> None:
    code, out, err = cli("diff", folders / "base", folders / "same", "--fail-on", "energy=3%", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["verdict"] == "unchanged"


def test_single_runs_are_judged_by_the_interval_of_a_stated_prior(
    folders: Path, tmp_path: Path, cli: Callable[..., Ran]
) -> None:
    base, slow = (folders / side / "run-0.tracetool" for side in ("base", "slow"))
    code, out, err = cli("diff", base, slow, "--fail-on", "gemm:time=3%")
    assert code == 1
    assert err.startswith("error: time of gemm +20")
    assert "time 2.5 % (a prior)" in " ".join(out.split())
    assert (
        "no repeated runs" in json.loads(cli("diff", base, slow, "--json")[1])["metrics"][0]["interval_from"]
    )
    # an improvement passes
    assert cli("diff", slow, base, "--fail-on", "gemm:time=3%", "--strict")[0] == 0


def test_two_gpus_are_both_named_in_the_line_on_what_is_compared(
    tmp_path: Path, cli: Callable[..., Ran]
) -> None:
    sides = [write_folder(tmp_path / f"{gpu}.tracetool", gpu=gpu) for gpu in ("a100-sxm", "h100-sxm")]
    assert "\na100-sxm and h100-sxm, energies anchored" in cli("diff", *sides)[1]


def test_work_outside_the_steps_is_said_to_be_counted_in_figures_per_step(
    folders: Path, tmp_path: Path, cli: Callable[..., Ran]
) -> None:
    """``attribute --by iteration`` gives a step less than the run over its steps."""
    mixed = write_folder(tmp_path / "mixed.tracetool", outside=2)
    steps = folders / "base" / "run-0.tracetool"
    said = " ".join(cli("diff", steps, mixed)[1].split())
    assert "33 % of the device time of mixed lies outside its steps and is counted" in said
    assert "outside its steps" not in cli("diff", steps, folders / "same" / "run-1.tracetool")[1]


def test_what_straddles_its_limit_exits_0_and_with_strict_1(folders: Path, cli: Callable[..., Ran]) -> None:
    pair = (folders / "base" / "run-0.tracetool", folders / "same" / "run-1.tracetool")
    code, out, _ = cli("diff", *pair, "--fail-on", "energy=2%", "--json")
    said = json.loads(out)
    assert (code, said["verdict"]) == (0, "inconclusive")
    assert "give more runs a side, or keep baselines" in said["reasons"][0]
    assert cli("diff", *pair, "--fail-on", "energy=2%", "--strict")[0] == 1
    assert cli("diff", *pair, "--fail-on", "energy=2%", "--strict", "--exit-zero")[0] == 0
    assert cli("diff", *pair, "--fail-on", "energy=20%", "--strict")[0] == 0  # the whole interval is inside


def test_sides_may_be_given_run_by_run(folders: Path, cli: Callable[..., Ran]) -> None:
    runs = [("--base", folders / "base" / f"run-{i}.tracetool") for i in range(3)]
    runs += [("--head", folders / "slow" / f"run-{i}.tracetool") for i in range(3)]
    code, out, _ = cli("diff", *(a for r in runs for a in r), "--json", "--fail-on", "time=2%")
    assert code == 1
    assert len(json.loads(out)["base"]) == 3


def test_a_run_named_twice_is_no_repeated_run(folders: Path, cli: Callable[..., Ran]) -> None:
    base, head = (folders / side / "run-0.tracetool" for side in ("base", "slow"))
    once = json.loads(cli("diff", base, head, "--json")[1])
    again = ["--base", base, "--base", base, "--head", head, "--head", head.parent / "run-0*"]
    assert json.loads(cli("diff", *again, "--json")[1]) == once


def test_the_model_alone_judges_more_work_at_a_fixed_clock(
    folders: Path, tmp_path: Path, cli: Callable[..., Ran]
) -> None:
    more = write_folder(tmp_path / "more.tracetool", extra=4)
    base = folders / "base" / "run-0.tracetool"
    code, out, _ = cli(
        "diff", base, more, "--energy", "predicted", "--clock", "1200", "--fail-on", "energy=2%", "--json"
    )
    made = json.loads(out)
    assert code == 1
    assert made["energies"] == "predicted"
    assert made["metrics"][0]["low_pct"] > 2
    assert made["causes_j"]["more work"] > 0
    same = cli(
        "diff", base, base, "--energy", "predicted", "--clock", "1200", "--fail-on", "energy=2%", "--json"
    )
    assert (same[0], json.loads(same[1])["verdict"]) == (0, "unchanged")


def test_two_operator_tables_are_compared_through_the_model(tmp_path: Path, cli: Callable[..., Ran]) -> None:
    for name, m in (("base", 4096), ("head", 6144)):
        (tmp_path / f"{name}.csv").write_text(f"op,dtype,m,n,k,count\ngemm,bf16,{m},4096,4096,4\n")
    tables = (tmp_path / "base.csv", tmp_path / "head.csv")
    code, out, _ = cli(
        "diff", *tables, "--gpu", "h100-sxm", "--clock", "1400", "--fail-on", "energy=2%", "--json"
    )
    made = json.loads(out)
    assert made["metrics"][0]["change_pct"] > 20
    assert code in (0, 1)
    assert cli("diff", *tables)[0] == 2


def test_annotations_are_printed_when_asked(folders: Path, cli: Callable[..., Ran]) -> None:
    _, out, _ = cli("diff", folders / "base", folders / "slow", "--fail-on", "energy=2%", "-q", "--annotate")
    assert out.startswith("::error title=whole run%3A energy::energy +")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diff"], "no runs to compare"),
        (["diff", "a", "b", "c"], "3 runs given"),
        (["diff", "nowhere", "nowhere2"], "no such run or table"),
        (["diff", "{base}", "{slow}", "--fail-on", "energy=nan%"], "not a percentage"),
        (["diff", "{base}", "{slow}", "--fail-on", "nobody:energy=1%"], "no family or kernel"),
        (["diff", "{base}", "{slow}", "--energy", "guessed"], "no energies called"),
        (["diff", "{base}", "{slow}", "--energy", "measured"], "no power readings"),
        (["diff", "{base}", "{slow}", "-o", "x.docx"], "no output of kind"),
        (["diff", "{base}", "--baseline", "{empty}"], "holds no anchored baseline"),
        (["check", "--config", "nowhere.toml"], "no such file"),
        (["baseline", "add", "{empty}", "nowhere"], "no such run"),
    ],
)
def test_slips_exit_2_with_one_line(
    folders: Path, tmp_path: Path, cli: Callable[..., Ran], arguments: list[str], said: str
) -> None:
    named = {"base": folders / "base", "slow": folders / "slow", "empty": tmp_path}
    code, out, err = cli(*(a.format(**named) for a in arguments))
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert out == ""


def test_a_baseline_is_kept_listed_compared_and_pruned(
    folders: Path, tmp_path: Path, cli: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SHA", "0123456789abcdef0123456789abcdef01234567")
    store = tmp_path / "store"
    assert cli("baseline", "add", store, folders / "base", "--reason", "first")[0] == 0
    files = list(store.rglob("*.parquet"))
    assert len(files) == 3
    assert "gpu=a100-sxm/branch=main/commit=0123456789abcdef" in files[0].as_posix()
    assert cli("baseline", "add", store, folders / "same", "--branch", "feature/x#1")[0] == 0
    listed = json.loads(cli("baseline", "list", store, "--json")[1])["baselines"]
    assert len(listed) == 6
    assert {b["branch"] for b in listed} == {"main", "feature/x#1"}
    assert listed[0]["reason"] == "first"

    head = folders / "slow" / "run-0.tracetool"
    code, out, _ = cli("diff", head, "--baseline", store, "--fail-on", "energy=2%", "--json")
    made = json.loads(out)
    assert (code, made["verdict"]) == (1, "regressed")  # one head run beside three kept ones
    assert {k["relation"] for k in made["kernels"]} == {"same"}
    again = cli("diff", folders / "same", "--baseline", store, "--fail-on", "energy=3%", "--json")
    assert (again[0], json.loads(again[1])["verdict"]) == (0, "unchanged")

    code, _, said = cli("baseline", "prune", store, "--keep", "0")
    assert (code, len(list(store.rglob("*.parquet")))) == (2, 6)
    assert said.startswith("error: --keep 0 would delete every baseline (keep 1 or more")
    assert cli("baseline", "prune", store, "--keep", "1")[1] == "deleted 4 baselines\n"
    assert len(list(store.rglob("*.parquet"))) == 2


def test_a_run_of_copies_alone_is_no_baseline(tmp_path: Path, cli: Callable[..., Ran]) -> None:
    copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7,
            "ts": 1.7e15, "dur": 50.0, "args": {"device": 0, "stream": 7, "bytes": 1 << 20}}  # fmt: skip
    device = {"id": 0, "name": "NVIDIA A100-SXM4-80GB"}
    trace = tmp_path / "copies.json"
    trace.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": [copy]}))
    assert cli("ingest", trace, "-o", tmp_path / "copies.tracetool")[0] == 0
    code, _, said = cli("baseline", "add", tmp_path / "store", tmp_path / "copies.tracetool")
    assert code == 2
    assert "copies.tracetool: holds no kernel" in said
    assert not list((tmp_path / "store").rglob("*.parquet"))


def test_a_run_kept_twice_counts_once(folders: Path, tmp_path: Path, cli: Callable[..., Ran]) -> None:
    store, run = tmp_path / "store", folders / "base" / "run-0.tracetool"
    copied = tmp_path / "renamed.tracetool"
    shutil.copytree(run, copied)
    first = json.loads(cli("baseline", "add", store, run, "--commit", "a", "--json")[1])
    again = json.loads(cli("baseline", "add", store, copied, run, "--commit", "a", "--json")[1])
    assert (len(first["files"]), first["notes"]) == (1, [])
    assert again["files"] == first["files"] * 2
    assert ["counts once" in note for note in again["notes"]] == [True, True]
    # another reason takes the place of the first; another commit or run is a repeat
    cli("baseline", "add", store, run, "--commit", "a", "--reason", "accepted")
    cli("baseline", "add", store, run, "--commit", "b")
    cli("baseline", "add", store, folders / "base" / "run-1.tracetool", "--commit", "a")
    kept = json.loads(cli("baseline", "list", store, "--json")[1])["baselines"]
    assert sorted((one["commit"], one["reason"]) for one in kept) == [("a", ""), ("a", "accepted"), ("b", "")]


def test_a_store_may_be_an_address(folders: Path, tmp_path: Path, cli: Callable[..., Ran]) -> None:
    store = (tmp_path / "bucket").as_uri()
    (tmp_path / "bucket").mkdir()
    run = folders / "base" / "run-0.tracetool"
    assert cli("baseline", "add", store, run, "--branch", "a/../b")[0] == 0
    assert [b["branch"] for b in json.loads(cli("baseline", "list", store, "--json")[1])["baselines"]] == [
        "a/../b"
    ]
    inside = [p.relative_to(tmp_path / "bucket") for p in (tmp_path / "bucket").rglob("*.parquet")]
    assert len(inside) == 1
    assert len(inside[0].parts) == 4  # a branch's name leads nowhere else
    code, _, err = cli("baseline", "list", "nosuch://bucket")
    assert code == 2
    assert "no such store" in err


def test_a_damaged_baseline_is_named(folders: Path, tmp_path: Path, cli: Callable[..., Ran]) -> None:
    store = tmp_path / "store"
    cli("baseline", "add", store, folders / "base" / "run-0.tracetool")
    file = next(store.rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:200])
    code, _, err = cli("baseline", "list", store)
    assert code == 2
    assert "broken baseline" in err


def test_check_takes_everything_from_the_settings(
    folders: Path, tmp_path: Path, cli: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    text = f'[tool.tracetool]\nfail-on = ["energy=2%"]\nbase = ["{folders}/base"]\nout = ["check.md"]\n'
    (tmp_path / "pyproject.toml").write_text(text)
    assert cli("check", folders / "same")[0] == 0
    monkeypatch.chdir(tmp_path / "deep")  # the nearest settings above count
    code, _, err = cli("check", folders / "slow")
    assert code == 1
    assert err.startswith("error: energy +")
    assert (tmp_path / "deep" / "check.md").read_text("utf-8").startswith("### ❌")
    # what ignores the change finds nothing
    (tmp_path / "tracetool.toml").write_text(text.replace("[tool.tracetool]\n", 'ignore = ["gemm"]\n'))
    assert cli("check", folders / "slow")[0] == 0


def test_check_takes_strict_as_diff_does(
    folders: Path, tmp_path: Path, cli: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    base = folders / "base" / "run-0.tracetool"
    (tmp_path / "tracetool.toml").write_text(f'fail-on = ["energy=0.1%"]\nbase = ["{base}"]\n')
    head = folders / "same" / "run-1.tracetool"
    assert cli("check", head)[0] == 0
    assert cli("check", head, "--strict")[0] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fail-on = 3", "settings"),
        ('fial-on = ["energy=2%"]', "unknown field"),
        ('spread.energy = "0.8"', "spread"),
        ('spread.joules = "1%"', "spread"),
        ("energy = 'x'", "no energies called"),
        ("last = 0", "last"),
        ("not toml", "TOML"),
        ('fail-on = ["energy=-2%"]', "percentage"),
    ],
)
def test_settings_that_cannot_be_meant_are_faults(
    tmp_path: Path, cli: Callable[..., Ran], text: str, said: str
) -> None:
    file = tmp_path / "tracetool.toml"
    file.write_text(text)
    code, _, err = cli("check", "--config", file)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
