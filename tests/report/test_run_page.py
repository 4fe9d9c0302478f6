"""The page of a run: what it holds, how large it is, and how it behaves in a browser."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

from tests.report.browser import browser
from tests.report.pages import curve, make_page, make_run, predict
from tracetool.report.page_tables import find_gaps, parts_by
from tracetool.report.pictures import timeline
from tracetool.report.pictures.timeline import MOST_MOMENTS, pack_timeline, power_steps
from tracetool.report.run_html import run_html
from tracetool.report.sections.energy_shares import where
from tracetool.report.sections.kernels import COLUMNS
from tracetool.report.sections.roofline import roof

SECTIONS = ["where", "timeline", "agreement", "clocks", "roofline", "kernels", "gaps", "provenance"]

DRAWN = "document.querySelector('#chart-timeline[data-ready]') && document.documentElement.dataset.charts"
LABEL_COLORS = (
    "Promise.all(charts.values()).then(all => all.flatMap(c => c.models)"
    ".filter(m => 'major_label_text_color' in m.attributes)"
    ".map(m => m.major_label_text_color?.value ?? m.major_label_text_color))"
)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    file = folder / "report.html"
    file.write_text(run_html(make_page(make_run(folder / "small.tracetool"))), "utf-8")
    return file


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    file = folder / "report.html"
    file.write_text(run_html(make_page(make_run(folder / "large.tracetool", 100_000, 900))), "utf-8")
    return file


def test_every_section_is_there_and_in_the_navigation(small: Path) -> None:
    text = small.read_text("utf-8")
    assert re.findall(r'<section id="(\w+)"', text) == SECTIONS
    assert re.findall(r'<a href="#(\w+)">', text) == SECTIONS


def test_savings_have_intervals_and_logarithmic_axes_say_so(small: Path) -> None:
    text = small.read_text("utf-8")
    assert re.search(r"[-+][\d.]+ % energy \([-+][\d.]+ to [-+][\d.]+ %\), [-+][\d.]+ % time", text)
    assert re.search(r"% less energy \(90 %: -?[\d.]+ to [\d.]+ %\) than at", text)
    assert "measured time [ms], log scale" in text
    assert "delivered rate [TFLOP/s], log scale" in text


def test_energies_of_one_source_are_said_so(small: Path) -> None:
    assert (
        "idle gaps are not shown, and shares are of the run with them. All of this energy is predicted."
        in small.read_text("utf-8")
    )


def test_hostile_names_are_text(small: Path) -> None:
    text = small.read_text("utf-8")
    assert text.count('<script type="application/json"') == 1 + text.count('class="chart"')
    assert len(re.findall(r"<script>", text)) == 2  # the library's and the page's own
    assert "onerror=alert(1)>" not in text
    assert "\x1b" not in text
    before = text.split("<script>")[0]  # what follows is code
    assert len(re.findall("<(html|body|main|h1)[ >]", before)) == 4


def test_nothing_is_loaded_from_elsewhere(small: Path) -> None:
    text = small.read_text("utf-8")
    found: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in ("link", "iframe", "object", "embed", "base", "img")
            found.extend(v or "" for k, v in attrs if k in ("src", "href", "xlink:href", "action", "srcset"))
            assert not any(k.startswith("on") for k, _ in attrs)

    Links().feed(text)
    assert found
    assert all(v.startswith("#") for v in found)
    assert "url(" not in text.split("<body>")[0]
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)[0]
    assert policy.startswith(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-"
    )
    assert "unsafe-eval" not in policy
    assert "http" not in policy


def test_a_hundred_thousand_kernels_stay_under_three_megabytes(large: Path) -> None:
    assert large.stat().st_size < 3_000_000


def test_a_timeline_beyond_the_limit_merges_neighbors_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 30_000
    monkeypatch.setattr(timeline, "MOST_BARS", most)
    run = make_run(tmp_path / "r.tracetool", most + 10_000, 30)
    made = pack_timeline(run.kernels, run.telemetry, {0: curve(run, predict(run))})
    assert made is not None
    assert made.packed["count"] <= 2 * most
    assert made.packed["count"] + made.merged == most + 10_000
    assert made.packed["model"][0]["count"] <= MOST_MOMENTS


def test_parts_add_up_to_the_whole(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r.tracetool")
    page = make_page(run)
    for key, table in (("operator", "operators"), ("range", "ranges"), ("family", None)):
        groups = None if table is None else run.table(table)
        made = parts_by(run.kernels, page.rows, groups, key)
        assert made["energy_j"].sum() == pytest.approx(page.energy_j())


def test_no_point_of_the_roofline_rests_on_sizes_taken_from_the_time_itself(tmp_path: Path) -> None:
    page = make_page(make_run(tmp_path / "r.tracetool"))
    inferred = pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("anchored only")).otherwise("predicted_from")
    some = roof(replace(page, rows=page.rows.with_columns(inferred.alias("predicted_from"))))
    assert some is not None
    assert re.search(r"Without a point: 3 kernels \([\d.]+ % of the run\) whose shapes", some.intro)
    assert "Without a point" not in str(roof(page))
    assert (
        roof(replace(page, rows=page.rows.with_columns(pl.lit("family rate").alias("predicted_from"))))
        is None
    )


def test_no_share_of_energy_is_said_to_be_zero(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r.tracetool")
    page = make_page(run)
    tiny = pl.when(pl.col("family") == "norm").then(pl.col("energy_j") * 1e-4).otherwise("energy_j")
    rows = page.rows.with_columns(tiny.alias("energy_j"))
    made = where(replace(page, rows=rows, parts={"family": parts_by(run.kernels, rows, None, "family")}))
    assert made is not None
    assert "&lt;0.1</td>" in made.body
    assert ">0.0</td>" not in made.body


def test_lines_of_power_say_that_a_sensor_lies_between(small: Path) -> None:
    assert "averaged and delayed by their sensor" in small.read_text("utf-8")


def test_gaps_and_busy_time_fill_the_span(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r.tracetool", 300)
    found = find_gaps(run.kernels)
    start = run.kernels["start_ns"].to_numpy()
    end = start + run.kernels["duration_ns"].to_numpy()
    busy, until = 0.0, start[0]
    for a, b in zip(start, end, strict=True):
        busy += max(b - max(a, until), 0)
        until = max(until, b)
    assert found.total_ms + busy / 1e6 == pytest.approx(found.span_ms)
    assert found.lengths["total_ms"].sum() == pytest.approx(found.total_ms)


def test_the_power_table_adds_up_to_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r.tracetool", 300)
    page = make_page(run)
    span_s = find_gaps(run.kernels).span_ms / 1e3
    gap_s = find_gaps(run.kernels).total_ms / 1e3
    part_s = span_s / page.power.height
    assert page.power["launches"].sum() == 300
    assert page.power["busy_pct"].mean() == pytest.approx(100 * (1 - gap_s / span_s))
    joules = page.power["power_w"].sum() * part_s
    assert joules == pytest.approx(curve(run, predict(run)).energy_j)
    html = run_html(page)
    assert html.count("Power over time as a table") == 1
    assert ">measured [W]<" in html
    empty = power_steps(run.kernels.clear(), {}, run.telemetry)
    assert not empty.height


def test_in_a_browser_it_opens_sorts_finds_zooms_and_stays_quiet(small: Path, large: Path) -> None:
    with browser() as page:
        page.size(1200, 900)
        page.open(large)
        page.wait(DRAWN)
        assert page.run("document.querySelectorAll('#kernel-table tbody tr').length") == 100

        def first(column: int) -> str:
            return str(
                page.run(f"document.querySelector('#kernel-table tbody tr').cells[{column}].textContent")
            )

        column = [name for name, _, _ in COLUMNS].index("launches")
        launches = f"document.querySelectorAll('#kernel-table th button')[{column}]"
        page.run(f"{launches}.click()")
        most = int(first(column).replace(",", ""))
        assert page.run(f"{launches}.closest('th').getAttribute('aria-sort')") == "descending"
        page.run(f"{launches}.focus()")
        page.press("Enter")
        assert int(first(column).replace(",", "")) < most
        search = "document.getElementById('find')"
        page.run(f"{search}.value = 'kernel_77<'; {search}.dispatchEvent(new Event('input'))")
        assert page.run("document.querySelectorAll('#kernel-table tbody tr').length") == 1
        assert "1 of 900 found" in page.run("document.getElementById('found').textContent")
        said = "document.getElementById('tl-said').textContent"
        page.wait(said)
        whole = page.run(said)
        assert "100,000 launches" in whole
        page.run("document.getElementById('chart-timeline').focus()")
        for _ in range(4):
            page.press("+")
        page.wait(f"{said} !== {whole!r}")
        assert "100,000" not in page.run(said)
        page.run("document.getElementById('tl-all').click()")
        page.wait(f"{said} === {whole!r}")

        for width, dark in ((1200, True), (400, False)):
            page.size(width, 900, dark=dark)
            page.open(small)
            page.wait(DRAWN)
            ink = "#e6edf3" if dark else "#1b1f24"
            assert set(page.run(LABEL_COLORS)) == {ink}
            assert page.run("document.documentElement.scrollWidth") <= width
            assert page.run("getComputedStyle(document.body).backgroundColor") == (
                "rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)"
            )
        page.run("document.getElementById('theme').click()")
        assert set(page.run(LABEL_COLORS)) == {"#e6edf3"}
        assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
        assert page.messages == []


def test_a_pixel_of_short_launches_shows_the_family_with_most_of_its_time(tmp_path: Path) -> None:
    """Pairs of a launch of 1 us and one of 9 us of another family, many to a pixel: all is the second."""
    run = make_run(tmp_path / "r.tracetool", 40_000, 2)
    pair = pl.int_range(pl.len()) // 2 * 10_000
    second = pl.int_range(pl.len()) % 2
    made = run.kernels.with_columns(
        start_ns=pair + second * 1_000, duration_ns=1_000 + second * 8_000, signature=second,
        stream=pl.lit(7, pl.Int32),
    )  # fmt: skip
    page_data = make_page(run)
    timeline = pack_timeline(made, run.telemetry, {0: curve(run, predict(run))})
    file = tmp_path / "report.html"
    file.write_text(run_html(replace(page_data, timeline=timeline)), "utf-8")
    bars = "charts.get('chart-timeline').then(c => c.named('tl-bars').data)"
    with browser() as page:
        page.size(1200, 900)
        page.open(file)
        page.wait(DRAWN)
        fills = page.run(f"{bars}.then(d => d.fill)")
        data = "JSON.parse(document.getElementById('page-data').textContent)"
        families = page.run(f"{data}.family")
        assert len(fills) > 500
        assert set(fills) == {page.run(f"{data}.colors")[families[1]]}
        assert "(90 % of it)" in page.run(f"{bars}.then(d => d.name[100])")
        assert "(90 % of their time)" in page.run("document.getElementById('tl-said').textContent")
        assert page.messages == []


def test_what_stands_under_the_pointer_is_text(small: Path) -> None:
    shown = (
        "(() => { const all = []; const walk = (r) => { for (const e of r.querySelectorAll('*')) {"
        " if (e.classList.contains('bk-Tooltip')) all.push(e.shadowRoot.innerHTML);"
        " if (e.shadowRoot) walk(e.shadowRoot); } }; walk(document); return all.join(' '); })()"
    )
    places = (
        "charts.get('chart-roofline').then(({ view, place }) => {"
        " place.scrollIntoView({ behavior: 'instant', block: 'center' });"
        " const box = place.getBoundingClientRect(); const made = []; for (const r of view.model.renderers) {"
        " const { name, x, y } = r.data_source.data; if (name === undefined) continue;"
        " for (const i of name.keys()) if (name[i].startsWith('<')) made.push("
        "[box.x + view.frame.x_scale.compute(x[i]), box.y + view.frame.y_scale.compute(y[i])]); }"
        " return made; })"
    )
    with browser() as page:
        page.size(1200, 900)
        page.open(small)
        page.wait(DRAWN)
        marks = page.run(places)
        assert marks
        for x, y in marks:
            page.point(x, y)
            page.wait(f"{shown}.includes('&lt;/s')")
            html = page.run(shown)
            assert not re.findall("<(script|img|svg)", html)
        assert page.messages == []


def test_printed_from_the_dark_it_is_dark_on_light(small: Path) -> None:
    with browser() as page:
        page.size(1200, 900, dark=True)
        page.open(small)
        page.wait(DRAWN)
        page.run("dispatchEvent(new Event('beforeprint'))")
        assert set(page.run(LABEL_COLORS)) == {"#1b1f24"}
        pictures = "document.querySelectorAll('.chart > canvas.paper').length"
        assert page.run(pictures) == page.run("document.querySelectorAll('.chart').length")
        page.run("dispatchEvent(new Event('afterprint'))")
        assert page.run(pictures) == 0
        assert set(page.run(LABEL_COLORS)) == {"#e6edf3"}
        assert page.messages == []


def test_no_name_of_a_kernel_leaves_its_column(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r.tracetool")
    file = tmp_path / "report.html"
    file.write_text(run_html(make_page(run)).replace("kernel_15", "Cijk" * 50), "utf-8")
    with browser() as page:
        page.size(1200, 900)
        page.open(file)
        page.wait(DRAWN)
        cells = "[...document.querySelectorAll('#kernel-table td:first-child')]"
        assert page.run(f"{cells}.some(c => c.textContent.startsWith('Cijk'))")
        assert page.run(f"{cells}.every(c => c.scrollWidth <= c.clientWidth + 1)")


def test_paper_holds_headings_boxes_and_colors_and_breaks_no_word_by_letters(small: Path) -> None:
    with browser() as page:
        page.size(800, 1100)
        page.open(small)
        page.wait(DRAWN)
        page.on_paper()
        shown = "[...document.querySelectorAll('{}')].every(e => e.getClientRects().length)"
        assert page.run("document.querySelectorAll('#kernel-table th button').length") > 10
        assert page.run(shown.format("#kernel-table th button"))
        assert page.run(shown.format("#found"))
        assert not page.run(shown.format("#more, nav, #theme"))
        adjusts = "getComputedStyle(document.querySelector('.legend .swatch')).printColorAdjust"
        assert page.run(adjusts) == "exact"
        assert page.run("[...document.querySelectorAll('td.short')].every(e => e.clientHeight < 40)")


def axe_script() -> str:
    """Return the accessibility checker's script: from TRACETOOL_AXE, or an npm folder beside the checkout."""
    named = os.environ.get("TRACETOOL_AXE")
    places = (
        [Path(named)]
        if named
        else [p / "node_modules/axe-core/axe.min.js" for p in (Path.cwd(), Path.home())]
    )
    for place in places:
        if place.is_file():
            return place.read_text("utf-8")
    pytest.skip("no axe-core here (npm install axe-core, or set TRACETOOL_AXE to axe.min.js)")


def test_an_accessibility_checker_finds_nothing_serious(small: Path) -> None:
    script = axe_script()
    with browser() as page:
        for width, dark in ((1200, False), (1200, True), (400, False)):
            page.size(width, 900, dark=dark)
            page.open(small)
            page.wait(DRAWN)
            page.run(script + ";0")
            found = page.run(
                "axe.run().then(r => r.violations.filter(v => ['serious', 'critical'].includes(v.impact))"
                ".map(v => v.id + ': ' + v.nodes.map(n => n.html.slice(0, 120)).join(' ')))"
            )
            assert found == [], f"at {width} px, {'dark' if dark else 'light'}"


def test_a_device_waits_before_its_first_and_after_its_last_activity_too() -> None:
    kernels = pl.DataFrame(
        {"start_ns": [0, 50, 100], "duration_ns": [10, 10, 10], "device": [0, 1, 0], "name": ["a", "b", "c"]}
    )
    found = find_gaps(kernels)
    assert found.span_ms == pytest.approx(2 * 110e-6)
    assert found.total_ms == pytest.approx(found.span_ms - 30e-6)
    assert found.lengths["total_ms"].sum() == pytest.approx(found.total_ms)
