"""The report of a comparison: verdict first, every output valid, hostile names harmless."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import jsonschema
import polars as pl
import pytest

from tests.compare.sides import NO_CLOCKS, STEP, Kernel, make_run, side
from tests.report.hostile import HOSTILE
from tracetool.compare.changes import DiffRequest, compare_sides
from tracetool.compare.outcome import RunDiff
from tracetool.compare.pairing import pair_sides
from tracetool.compare.thresholds import parse_thresholds
from tracetool.core.errors import BadInput
from tracetool.report.changes import changes_view, headline, why
from tracetool.report.console import annotation_lines, show_view
from tracetool.report.save import save_view


def compare(
    head: float | dict[str, float] = 1.0,
    *limits: str,
    runs: int = 3,
    basis: str = "measured",
    gpu: str = "a100-sxm",
    names: list[str] | None = None,
) -> RunDiff:
    wobble = [0.995, 1.0, 1.006, 1.002, 0.998][:runs]
    step: list[Kernel] = list(STEP)
    extra = [(n, "other", "op", str(i), 5.0, 100.0) for i, n in enumerate(names or [])]
    left = [make_run([*step, *extra], label=f"base-{i}", factor=w) for i, w in enumerate(wobble)]

    def scaled(w: float) -> float | dict[str, float]:
        return {k[1]: w * head.get(k[1], 1.0) for k in STEP} if isinstance(head, dict) else w * head

    right = [make_run(step, label=f"head-{i}", factor=scaled(w), gpu=gpu) for i, w in enumerate(wobble)]
    base, other = side(*left), side(*right)
    return compare_sides(
        base,
        other,
        DiffRequest(basis, parse_thresholds(limits)),
        parts=pair_sides(base, other),
        clock_ratios=NO_CLOCKS,
        setting="a100-sxm, energies measured, per step",
    )


def test_a_run_of_higher_power_is_a_regression_and_the_first_line_says_so(tmp_path: Path) -> None:
    found = compare(1.05, "energy=2%")
    assert (found.verdict, found.failed) == ("regressed", True)
    made = save_view(changes_view(found), tmp_path / "d.md").read_text("utf-8")
    first = made.splitlines()[0]
    assert first.startswith("### ❌ Energy +4.")
    assert first.endswith("per step: regressed, limit 2 %")
    assert "higher power" in made
    assert "smallest detectable change" in made


def test_a_cause_that_saves_energy_is_named_by_what_it_does() -> None:
    sentence = why(compare(0.9, "energy=2%"))
    assert "lower power -" in sentence
    assert "higher power" not in sentence


@pytest.mark.parametrize(("limits", "limited"), [("energy=5%", ["energy"]), (None, [])])
def test_only_limits_that_were_set_are_called_so(
    tmp_path: Path, limits: str | None, limited: list[str]
) -> None:
    view = changes_view(compare(1.05, *filter(None, [limits])))
    judged = [case for case in view.cases if case.group == "whole run"]
    assert len(judged) == 4
    for case in judged:
        said = "limit 5 %" if case.name in limited else "threshold 2 %"
        assert case.message.count("limit") + case.message.count("threshold") == 1
        assert said in case.message
    made = save_view(view, tmp_path / "d.md").read_text("utf-8")
    assert ("limit 2 %" in made, "threshold 2 %" in made.splitlines()[0]) == (False, not limited)


def test_rounding_is_no_cause() -> None:
    found = compare(1.0)
    rounded = replace(found, factors=dict.fromkeys(found.factors, 1e-14))
    assert why(rounded) == "Why: nothing changed"
    assert why(compare(1.1)).startswith("Why (sums to +")


def test_no_row_is_judged_between_two_gpus() -> None:
    judged, apart = compare(1.2), compare(1.2, gpu="h100-sxm")
    assert set(judged.table["verdict"].drop_nulls()) == {"regressed"}
    assert apart.verdict == "inconclusive"
    assert set(apart.table["verdict"].drop_nulls()) == {"inconclusive"}


def test_nothing_changed_fails_nothing() -> None:
    found = compare(1.0, "energy=3%", "*:energy=5%")
    assert (found.verdict, found.failed) == ("unchanged", False)
    assert {m.verdict for m in found.metrics if m.has_limit} == {"unchanged"}


def test_less_energy_is_an_improvement() -> None:
    found = compare(0.9, "energy=2%")
    assert (found.verdict, found.failed) == ("improved", False)


def test_a_change_below_its_limit_passes() -> None:
    assert not compare(1.05, "energy=10%").failed


def test_one_family_is_found_by_its_own_limit_and_named() -> None:
    found = compare({"softmax": 1.10}, "energy=2%", "softmax:energy=3%", "gemm:energy=3%")
    verdicts = {m.scope: m.verdict for m in found.metrics if m.has_limit and m.name == "energy"}
    assert verdicts["softmax"] == "regressed"
    assert verdicts["gemm"] == "unchanged"
    assert "softmax" in headline(found)
    assert found.reasons[0].startswith("energy of softmax +")


def test_single_runs_are_inconclusive_not_guessed() -> None:
    found = compare(1.05, "energy=2%", runs=1)
    assert (found.verdict, found.failed, found.undecided) == ("inconclusive", False, True)


def test_another_gpu_is_not_comparable() -> None:
    found = compare(1.5, "energy=2%", gpu="h100-sxm")
    assert (found.verdict, found.failed) == ("inconclusive", False)
    assert "not comparable" in found.reasons[0]


def test_a_limit_between_two_gpus_says_in_every_report_why_it_is_not_judged() -> None:
    found = changes_view(compare(1.5, "energy=2%", gpu="h100-sxm"))
    said = {case.name: case.message for case in found.cases if case.group == "whole run"}
    assert said["energy"].endswith("; the two sides are not comparable (GPU: a100-sxm and h100-sxm)")
    assert "not comparable" not in said["time"]  # no limit was asked of it
    assert "not comparable" in annotation_lines(found)[0]


def test_causes_sum_to_the_change_of_the_whole() -> None:
    found = compare({"gemm": 1.2, "norm": 0.7})
    energy = found.metrics[0]
    assert sum(found.factors.values()) == pytest.approx(energy.head - energy.base, rel=1e-9)
    total = found.level("total").row(0, named=True)
    parts = [total[c] for c in ("work_j", "duration_j", "power_j", "clock_j", "gaps_j")]
    assert sum(parts) == pytest.approx(total["energy_change_j"], rel=1e-9)


@pytest.mark.parametrize("level", ["family", "operator", "range", "kernel"])
def test_every_level_sums_to_the_whole(level: str) -> None:
    found = compare({"gemm": 1.2})
    rows, total, gap = found.level(level), found.level("total"), found.level("gap")
    for column in ("energy_base_j", "energy_head_j"):
        assert rows[column].sum() + gap[column].sum() == pytest.approx(total[column].sum())
    assert rows["launches_base"].sum() == pytest.approx(total["launches_base"].sum())


def test_predicted_figures_are_judged_by_the_models_interval() -> None:
    found = compare(1.10, "energy=2%", runs=1, basis="predicted")
    # the same work on both sides: the model errs by the same share, so the change is sure
    assert found.verdict == "regressed"
    assert found.metrics[0].low > 0.05


def test_work_done_otherwise_carries_the_models_error_on_both_sides() -> None:
    other = [("new_gemm", *STEP[0][1:4], 101.0, 410.0), *STEP[1:]]
    left, right = side(make_run(STEP)), side(make_run(other))
    asked = DiffRequest("predicted", parse_thresholds(["energy=2%"]))
    found = compare_sides(
        left, right, asked, parts=pair_sides(left, right), clock_ratios=NO_CLOCKS, setting=""
    )
    assert found.verdict == "inconclusive"
    assert found.metrics[0].low < 0 < found.metrics[0].high


def test_a_limit_that_covers_nothing_is_a_fault() -> None:
    with pytest.raises(BadInput, match="no family or kernel"):
        compare(1.0, "flash_*:energy=2%")


def test_the_json_document_fits_its_schema(tmp_path: Path, root: Path) -> None:
    schema = json.loads((root / "schemas" / "diff_document.json").read_text("utf-8"))
    for found in (compare(1.05, "energy=2%", "*:time=1%"), compare(runs=1), compare(1.1, gpu="h100-sxm")):
        made = json.loads(save_view(changes_view(found), tmp_path / "d.json").read_text("utf-8"))
        jsonschema.Draft202012Validator(schema).validate(made)
    assert made["causes_j"].keys() >= {"more work", "idle gaps"}


def test_junit_has_a_case_per_judged_figure(tmp_path: Path) -> None:
    found = compare(1.05, "energy=2%", "gemm:energy=2%", "time=30%")
    suite = ET.parse(save_view(changes_view(found), tmp_path / "d.xml")).getroot()[0]
    cases = {(c.get("classname"), c.get("name")): c for c in suite}
    assert cases["whole run", "energy"].find("failure") is not None
    assert cases["gemm", "energy"].find("failure") is not None
    assert cases["whole run", "time"].find("failure") is None
    assert suite.get("failures") == "2"
    undecided = ET.parse(
        save_view(changes_view(compare(1.05, "energy=2%", runs=1)), tmp_path / "u.xml")
    ).getroot()[0]
    assert undecided[0].find("skipped") is not None


def test_sarif_has_a_result_per_broken_limit(tmp_path: Path) -> None:
    found = compare(1.05, "energy=2%", "gemm:energy=2%")
    made = json.loads(
        save_view(changes_view(found, "pyproject.toml"), tmp_path / "d.sarif").read_text("utf-8")
    )
    results = made["runs"][0]["results"]
    assert [r["level"] for r in results] == ["error", "error"]
    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "pyproject.toml"
    rules = {r["id"] for r in made["runs"][0]["tool"]["driver"]["rules"]}
    assert {r["ruleId"] for r in results} <= rules
    assert made["version"] == "2.1.0"


def test_code_quality_has_a_finding_per_broken_limit(tmp_path: Path) -> None:
    """GitLab takes findings of one fingerprint for one, in a pipeline and between two of them."""

    def findings(slower: float) -> list[dict[str, object]]:
        view = changes_view(compare(slower, "energy=2%", "gemm:energy=2%"), "pyproject.toml")
        made: list[dict[str, object]] = json.loads(save_view(view, tmp_path / "d.codequality").read_bytes())
        return made

    first, later = findings(1.05), findings(1.3)
    assert [f["severity"] for f in first] == ["major", "major"]
    assert all(f["location"] == {"path": "pyproject.toml", "lines": {"begin": 1}} for f in first)
    assert len({f["fingerprint"] for f in first}) == 2
    assert [f["fingerprint"] for f in first] == [f["fingerprint"] for f in later]
    assert [f["description"] for f in first] != [f["description"] for f in later]
    assert findings(1.0) == []


def test_annotations_are_commands_and_nothing_else() -> None:
    lines = annotation_lines(changes_view(compare(1.05, "energy=2%", "gemm:energy=2%")))
    assert len(lines) == 2
    assert all(re.fullmatch(r"::error title=[^:,]+(%3A[^:,]*)*::.+", line) for line in lines)


@pytest.mark.parametrize(
    "suffix", [".md", ".json", ".xml", ".sarif", ".codequality", ".csv", ".html", ".parquet"]
)
def test_hostile_names_change_no_output(suffix: str, tmp_path: Path) -> None:
    found = compare(1.2, "energy=2%", names=HOSTILE)
    made = save_view(changes_view(found), tmp_path / f"d{suffix}")
    if suffix == ".parquet":
        names = pl.read_parquet(made).filter(pl.col("relation") == "removed")["name"].to_list()
        assert set(names) == set(HOSTILE)
        return
    text = made.read_bytes().decode("utf-8")
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert "\x1b" not in text
    assert "\x00" not in text
    if suffix not in (".csv", ".html"):
        assert "##[" not in text
    if suffix == ".md":
        assert len(text.encode()) < 65_000
        assert text.splitlines()[0].startswith("### ❌")
        assert not re.search(r"(?<!`)<script", text.replace("`</script><script>alert(1)</script>`", ""))
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    if suffix == ".xml":
        ET.fromstring(text)
    if suffix == ".html":
        assert "<script" not in text
        assert "onerror=alert(1)>" not in text


def test_a_comment_stays_under_its_limit_with_thousands_of_kernels(tmp_path: Path) -> None:
    names = [f"void kernel_{i}<{'int, ' * 40}>(float*)" for i in range(3000)]
    text = save_view(changes_view(compare(1.05, "energy=2%", names=names)), tmp_path / "d.md").read_bytes()
    assert len(text) < 65_000
    assert b"The rest did not fit" in text or text.count(b"<details>") >= 3


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_console_fits_and_is_plain(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    show_view(changes_view(compare(1.2, "energy=2%", names=HOSTILE)))
    text = capsys.readouterr().out
    assert text.startswith("Energy +1")
    assert max(map(len, text.splitlines())) <= width
    assert not any(line.startswith("::") for line in text.splitlines())


@pytest.mark.parametrize("names", [None, HOSTILE], ids=["plain", "hostile"])
def test_sarif_and_junit_are_read_by_their_libraries(names: list[str] | None, tmp_path: Path) -> None:
    sarif, junit = pytest.importorskip("sarif_pydantic"), pytest.importorskip("junitparser")
    found = compare(1.2, "energy=2%", "gemm:energy=1%", "time=1%", names=names)
    view = changes_view(found, "pyproject.toml")
    run = sarif.Sarif.model_validate_json(save_view(view, tmp_path / "d.sarif").read_bytes()).runs[0]
    broken = sum(m.verdict == "regressed" for m in found.metrics if m.has_limit)
    assert sum(r.level.value == "error" for r in run.results) == broken
    assert {r.rule_id for r in run.results} <= {r.id for r in run.tool.driver.rules}
    (suite,) = junit.JUnitXml.fromfile(str(save_view(view, tmp_path / "d.xml")))
    assert suite.failures == broken
    assert suite.tests == len(list(suite))


def official(name: str) -> Path:
    """Return an official schema; the test is skipped where nobody put it."""
    folder = os.environ.get("TRACETOOL_SCHEMAS")
    file = Path(folder or ".") / name
    if not folder or not file.is_file():
        pytest.skip(f"put {name} into a folder and name it in TRACETOOL_SCHEMAS")
    return file


@pytest.mark.parametrize("names", [None, HOSTILE], ids=["plain", "hostile"])
def test_sarif_fits_the_standards_own_schema(names: list[str] | None, tmp_path: Path) -> None:
    schema = json.loads(official("sarif-schema-2.1.0.json").read_text("utf-8"))
    view = changes_view(compare(1.2, "energy=2%", "*:energy=1%", names=names), HOSTILE[0])
    made = json.loads(save_view(view, tmp_path / "d.sarif").read_text("utf-8"))
    jsonschema.validators.validator_for(schema)(schema).validate(made)


@pytest.mark.parametrize("names", [None, HOSTILE], ids=["plain", "hostile"])
def test_code_quality_fits_gitlabs_own_schema(names: list[str] | None, tmp_path: Path) -> None:
    schema = json.loads(official("codeclimate.json").read_text("utf-8"))
    view = changes_view(compare(1.2, "energy=2%", "*:energy=1%", names=names), HOSTILE[0])
    made = json.loads(save_view(view, tmp_path / "d.codequality").read_text("utf-8"))
    assert made
    for finding in made:
        jsonschema.Draft7Validator(schema).validate(finding)


@pytest.mark.parametrize("names", [None, HOSTILE], ids=["plain", "hostile"])
def test_junit_fits_the_schema_of_its_readers(names: list[str] | None, tmp_path: Path) -> None:
    etree = pytest.importorskip("lxml.etree")
    schema = etree.XMLSchema(etree.parse(str(official("junit-10.xsd"))))
    for runs in (1, 3):
        view = changes_view(compare(1.2, "energy=2%", "*:energy=1%", names=names, runs=runs))
        made = etree.parse(str(save_view(view, tmp_path / "d.xml")))
        assert schema.validate(made), schema.error_log
