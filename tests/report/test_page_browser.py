"""The report in a real browser: it loads, answers, zooms, fits a phone, and asks nobody for anything."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hdrl.figures.figure import Span
from hdrl.report.page import write_report
from hdrl.report.page.report import report_of_runs
from hdrl.report.runs import read_report_runs
from hdrl.setting import SETTINGS

from .made_runs import make_run

BATCH = SETTINGS["batch"]


for library in ("jinja2", "matplotlib"):
    pytest.importorskip(library, reason="reports need it: pip install 'hdrl[report]'")
playwright = pytest.importorskip("playwright.sync_api", reason="looking at pages needs playwright")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="looking at pages needs chromium")

TABS = ["summary", "metrics", "schedule", "over-time", "distributions", "learning", "reproduce"]
CHARTS = {"over-time": 3, "distributions": 2, "learning": 1}
HOSTILE = '</script><img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as tools:
        chromium = tools.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of two small runs, the names of one of them hostile."""
    folder = tmp_path_factory.mktemp("report")
    make_run(folder / "a", policy="first-high_gflops", n_jobs=300, n_cores=64, n_blocks=2)
    make_run(
        folder / "b", policy=HOSTILE, n_jobs=300, n_cores=64, seed=2, job_ids=[f"{HOSTILE}{i}" for i in range(300)]
    )
    (folder / "a/rewards.log").write_text("".join(f"{-100 + i}\n" for i in range(50)))
    return write_report([folder / "a", folder / "b"], folder / "report.html")


class Visit:
    """One look at a page, with everything that it said and asked for."""

    def __init__(self, browser: Any, file: Path, **context: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        started_s = time.perf_counter()
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-ready]", state="attached")
        self.load_s = time.perf_counter() - started_s

    def open(self, tab: str) -> None:
        self.page.click(f"#tab-{tab}")
        self.page.wait_for_selector(f"#panel-{tab}[data-state=drawn]", timeout=60_000)

    def overflow(self) -> int:
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def is_clean(self) -> bool:
        outside = [url for url in self.asked if not url.startswith(("file:", "data:", "blob:"))]
        assert self.said == []
        assert outside == []
        return True


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    visits: list[Visit] = []

    def look(file: Path, **context: Any) -> Visit:
        visits.append(Visit(browser, file, **context))
        return visits[-1]

    yield look
    for one in visits:
        one.context.close()


def test_every_tab_opens_without_a_word_on_the_console(two_runs: Path, visit: Callable[..., Visit]):
    look = visit(two_runs)
    assert [tab.get_attribute("data-name") for tab in look.page.query_selector_all('[role="tab"]')] == TABS
    for tab in TABS:
        look.open(tab)
        visible = look.page.eval_on_selector_all(
            '[role="tabpanel"]', "all => all.filter(p => !p.hidden).map(p => p.id)"
        )
        assert visible == [f"panel-{tab}"]
        assert look.overflow() == 0
    assert look.page.query_selector_all(".failed") == []
    # The second run is named like an attack, and so are its jobs.
    assert look.page.title().startswith("Which of")
    assert look.page.query_selector_all("img[src=x], svg image[src=x]") == []
    assert HOSTILE in look.page.inner_text("#panel-reproduce")
    for tab, n_charts in CHARTS.items():
        look.open(tab)
        sizes = look.page.eval_on_selector_all(f"#panel-{tab} img", "all => all.map(one => one.naturalWidth)")
        assert len(sizes) == n_charts
        assert min(sizes) > 300, "a picture that the browser cannot read has no size"
    assert look.is_clean()


def test_the_answer_stands_above_all(two_runs: Path, visit: Callable[..., Visit]):
    page = visit(two_runs).page
    assert page.inner_text("h1").startswith("Which of first-high_gflops and </script>")
    assert "lowest mean bounded slowdown" in page.inner_text(".verdict")
    assert "One run each: no interval" in page.inner_text(".certainty")
    assert page.inner_text("#panel-summary thead").split("\n")[0].startswith("run")
    assert "mean bounded slowdown" in page.inner_text("#panel-summary thead").split("\n")[0]


def test_tabs_by_keyboard_and_by_address(two_runs: Path, visit: Callable[..., Visit]):
    page = visit(two_runs).page
    page.focus("#tab-summary")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-metrics"
    assert page.get_attribute("#tab-metrics", "aria-selected") == "true"
    assert page.get_attribute("#tab-summary", "tabindex") == "-1"
    page.keyboard.press("End")
    assert page.url.endswith("#reproduce")
    page.reload()
    page.wait_for_selector("#panel-reproduce:not([hidden])")


def canvas_of(page: Any) -> bytes:
    return page.locator(".gantt canvas").first.screenshot()


def test_the_schedule_zooms_by_mouse_keys_and_buttons(two_runs: Path, visit: Callable[..., Visit]):
    look = visit(two_runs)
    page = look.page
    look.open("schedule")
    whole = canvas_of(page)
    box = page.locator(".gantt canvas").first.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 200, steps=4)
    page.mouse.up()
    page.wait_for_selector(".gantt[data-view]")
    t0, t1, c0, c1 = map(float, page.get_attribute(".gantt", "data-view").split())
    assert t1 - t0 < 0.3 * 3100 / 60  # minutes
    assert c1 - c0 < 30
    page.wait_for_timeout(100)
    zoomed = canvas_of(page)
    assert zoomed != whole
    page.click('button[data-zoom="all"]')
    page.focus(".gantt canvas")
    page.keyboard.press("+")
    shown = [float(number) for number in page.get_attribute(".gantt", "data-view").split()]
    assert shown[3] - shown[2] == pytest.approx(64 / 1.6)
    page.keyboard.press("0")
    assert page.get_attribute(".gantt", "data-view").endswith(" 0 64")
    assert look.is_clean()


def test_pointing_at_a_job_tells_about_it(tmp_path: Path, visit: Callable[..., Visit]):
    folder = make_run(tmp_path / "a", n_jobs=2, n_cores=4, n_blocks=1, job_ids=["early", "late"])
    look = visit(write_report([folder], tmp_path / "report.html"))
    look.open("schedule")
    data = read_report_runs([folder], BATCH)[0].data
    look.page.locator(".gantt canvas").first.scroll_into_view_if_needed()
    box = look.page.locator(".gantt canvas").first.bounding_box()
    begin, end = data.start_s.min(), data.end_s.max()
    middle = (data.start_s[0] + data.end_s[0]) / 2
    x = box["x"] + 64 + (middle - begin) / (end - begin) * (box["width"] - 74)
    y = box["y"] + 8 + (4 - data.blocks.first_core[0] - 0.5) / 4 * (box["height"] - 56)  # core 0 is at the bottom
    look.page.mouse.move(x, y)
    assert look.page.inner_text(".gantt-note").startswith("Job early: waited")


def test_two_schedules_below_each_other(two_runs: Path, visit: Callable[..., Visit]):
    look = visit(two_runs)
    look.open("schedule")
    assert [figure.is_visible() for figure in look.page.query_selector_all(".gantt figure")] == [True, False]
    look.page.locator("select.gantt-run").nth(1).select_option("1")
    look.page.wait_for_selector(".gantt figure:nth-of-type(2)", state="visible")
    for kind in ("1", "item", "0"):
        look.page.select_option("select.gantt-colour", kind)
    label = look.page.locator(".gantt canvas").nth(1).get_attribute("aria-label")
    assert label.startswith("Gantt chart of </script>")
    assert look.is_clean()


def test_names_of_runs_stand_below_their_curves(two_runs: Path, visit: Callable[..., Visit]):
    look = visit(two_runs)
    look.open("distributions")
    names = look.page.locator("#panel-distributions .names").first.locator("li")
    assert [text.strip() for text in names.all_inner_texts()] == ["first-high_gflops", HOSTILE]
    words = look.page.locator("#panel-distributions img").first.get_attribute("alt")
    assert "Medians: first-high_gflops" in words
    look.open("learning")
    assert look.page.locator("#panel-learning .names").count() == 0, "one run alone needs no name"


def test_pictures_follow_the_width_and_the_colours_of_the_screen(two_runs: Path, visit: Callable[..., Visit]):
    shown = {}
    for width in (1280, 375):
        for scheme in ("light", "dark"):
            look = visit(two_runs, viewport={"width": width, "height": 800}, color_scheme=scheme)
            look.open("over-time")
            picture = look.page.locator("#panel-over-time img").first
            shown[width, scheme] = picture.evaluate("one => one.currentSrc"), picture.screenshot()
    assert shown[1280, "light"][0] != shown[375, "light"][0]
    assert shown[1280, "light"][0] == shown[1280, "dark"][0]
    assert shown[1280, "light"][1] != shown[1280, "dark"][1]


def test_names_of_nodes_and_clusters_stand_beside_the_schedule(tmp_path: Path, visit: Callable[..., Visit]):
    run = make_run(tmp_path / "run", n_jobs=20, n_cores=8)
    (one,) = read_report_runs([run], BATCH)
    bare = canvas_of_report(visit, report_of_runs([one], "mean_wait_s", BATCH), tmp_path / "bare.html")
    spans = {"groups": (Span("left", 0, 4), Span("right", 4, 4)), "parts": (Span("node 0", 0, 8),)}
    named = replace(one, schedule=lambda: replace(one.schedule(), **spans))
    assert canvas_of_report(visit, report_of_runs([named], "mean_wait_s", BATCH), tmp_path / "named.html") != bare


def canvas_of_report(visit: Callable[..., Visit], text: str, file: Path) -> bytes:
    file.write_text(text)
    look = visit(file)
    look.open("schedule")
    assert look.is_clean()
    return canvas_of(look.page)


@pytest.mark.parametrize("width", [390, 1400])
def test_the_first_table_is_not_cut(two_runs: Path, visit: Callable[..., Visit], width: int):
    look = visit(two_runs, viewport={"width": width, "height": 800})
    cut = look.page.eval_on_selector_all(
        "#panel-summary .scroll", "all => all.filter(one => one.scrollWidth > one.clientWidth).length"
    )
    assert cut == 0


def test_a_phone_shows_all_within_its_width(two_runs: Path, visit: Callable[..., Visit]):
    phone = {"viewport": {"width": 375, "height": 667}, "is_mobile": True, "has_touch": True, "color_scheme": "dark"}
    look = visit(two_runs, **phone)
    for tab in TABS:
        look.open(tab)
        assert look.overflow() == 0, tab
    small = look.page.eval_on_selector_all(
        "[role=tab], select, .zoom button",
        "all => all.filter(e => e.offsetParent && e.getBoundingClientRect().height < 40).map(e => e.outerHTML)",
    )
    assert small == []
    assert look.is_clean()


CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const bad = [];
  for (const element of document.querySelectorAll("h1, h2, p, dt, dd, li, th, td, b, span, a, button, summary, code")) {
    if (!element.offsetParent || !element.textContent.trim()) continue;
    const pair = [light(getComputedStyle(element).color), light(behind(element))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) bad.push(`${element.tagName} ${element.className} ${ratio.toFixed(2)}`);
  }
  return bad;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_and_pictures_have_words(two_runs: Path, visit: Callable[..., Visit], scheme: str):
    look = visit(two_runs, color_scheme=scheme)
    for tab in ("summary", "metrics", "reproduce"):
        look.open(tab)
        assert look.page.evaluate(CONTRAST) == []
    assert look.page.eval_on_selector_all('[role="img"]', "all => all.filter(e => !e.ariaLabel).length") == 0
    assert look.page.eval_on_selector_all("table", "all => all.filter(t => !t.caption).length") == 0
    assert look.page.get_attribute("html", "lang") == "en"
    assert len(look.page.query_selector_all("h1")) == 1


def test_without_scripts_all_tables_are_there(two_runs: Path, browser: Any):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(two_runs.as_uri())
    for panel in ("summary", "metrics", "reproduce"):
        assert page.is_visible(f"#panel-{panel} table >> nth=0")
    assert not page.is_visible(".tabs")
    context.close()


def test_printing_shows_the_tables(two_runs: Path, visit: Callable[..., Visit]):
    look = visit(two_runs)
    look.page.emulate_media(media="print")
    assert look.page.is_visible("#panel-summary table")
    assert look.page.is_visible("#panel-reproduce table >> nth=0")
    assert not look.page.is_visible(".tabs")


def test_twenty_runs_of_ten_thousand_jobs(tmp_path: Path, visit: Callable[..., Visit]):
    """Below 20 MB and 3 s; the machine may be busy, so the best of two looks counts."""
    (run,) = read_report_runs([make_run(tmp_path / "run", n_jobs=10_000, n_cores=2_000, n_blocks=6)], BATCH)
    report = tmp_path / "report.html"
    runs = [replace(run, name=f"run {index}", policy=f"policy {index}") for index in range(20)]
    report.write_text(report_of_runs(runs, "mean_bounded_slowdown", BATCH))
    assert report.stat().st_size < 20e6
    assert len(report_of_runs(runs[:1], "mean_bounded_slowdown", BATCH)) < 3e6
    looks = [visit(report), visit(report)]
    assert min(look.load_s for look in looks) < 3
    look = looks[0]
    look.open("schedule")
    assert "Small gaps" in look.page.inner_text(".gantt-note")
    assert look.is_clean()
