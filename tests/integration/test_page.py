"""The page in a real Chromium: of the demonstration, of constructed nodes, and of a constructed cluster.

JOBFEATURES_PICTURES names a folder that gets a screenshot of each page, light and dark, wide and narrow.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiohttp import web

from jobfeatures.cli import main as jobfeatures
from jobfeatures.errors import Rejected
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.web import app as front
from jobfeatures_exporter.web.app import front_routes
from jobfeatures_exporter.web.asked import AskedPage
from jobfeatures_exporter.web.pages.controller import render_controller
from jobfeatures_exporter.web.pages.job import render_job
from jobfeatures_exporter.web.pages.node import render_node, view_context
from tests.exporter.conftest import make_context
from tests.exporter.web.pages import showcase, test_job
from tests.integration.conftest import until
from tests.labs.monitoring.lab import Lab

BIN = Path(sys.executable).parent
PHONE, WIDE = {"width": 375, "height": 812}, {"width": 1440, "height": 900}


@dataclass
class Constructed:
    """What the front shows; the figures change with each look."""

    make: object
    looks: int = 0

    def html(self, asked=None) -> str:
        self.looks += 1
        return self.make()


def node(make):
    def render() -> str:
        context = make()
        history = showcase.make_history(context)
        return render_node(context, showcase.families_of(context), history=history)

    return render


def dense() -> str:
    context = showcase.make_busy_node()
    history, asked = showcase.make_history(context), AskedPage(view="dense", sort="wasted")
    families = showcase.families_of(context)
    return render_node(context, families, history=history, asked=asked)


def job() -> str:
    context, key = showcase.make_busy_node(), JobKey("slurm", "48310")
    families = showcase.families_of(context)
    (view,) = view_context(context, Numbers(families), only=key).jobs
    course, details = showcase.make_history(context).job(key), showcase.make_details()
    # What it loads is served beside the page at /.
    text = render_job(context, families, view, course, details)
    return text.replace('"../page.', '"page.')


def cluster() -> str:
    context, views = showcase.make_cluster_context()
    return render_controller(context, showcase.families_of(context, "controller"), views)


def gone() -> str:
    return test_job.page_of(user="ann", name="wrf").replace('"../page.', '"page.')


def make_large_node():
    """Return a busy node whose figures, and a name of a file that cannot be used, are as long as they get."""
    context = showcase.make_busy_node()
    jobs = {
        key: replace(job, allocated_cpus=1024, start_secs=int(showcase.NOW) - 29 * 86_400)
        for key, job in context.jobs.items()
    }
    cpu_rates = dict.fromkeys(jobs, 1019.4)
    skipped = (Rejected("/spool/" + "d" * 255, "not a job"),)
    sources = tuple(replace(each, skipped=skipped) for each in context.sources)
    return replace(context, sources=sources, jobs=jobs, cpu_rates=cpu_rates, node_busy_cpus=1019.4)


MAKERS = {
    "large": node(make_large_node),
    "gone": gone,
    "busy": node(showcase.make_busy_node),
    "draining": node(showcase.make_draining_node),
    "idle": node(showcase.make_idle_node),
    "everything": node(make_context),
    "dense": dense,
    "job": job,
    "controller": cluster,
}


@contextmanager
def served(shown):
    """Serve a page from a thread; gives its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.add_routes(front_routes(shown))
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs Chromium")
    try:
        import axe_playwright_python  # noqa: F401
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("needs playwright and axe-playwright-python, the extra browser")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-quic"])
        yield started
        started.close()


@dataclass
class Watched:
    """A page in the browser, and everything that went wrong or outside."""

    page: object
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def open_page(browser):
    """Return a function that opens an address; at the end nothing may have gone wrong in any of them.

    Ask for the address first: pages refresh themselves, and have to end before their server.
    """
    opened = []

    def open_(address: str, viewport=None, scheme="light", *, script=True, clock=False) -> Watched:
        context = browser.new_context(
            viewport=viewport or WIDE, color_scheme=scheme, java_script_enabled=script
        )
        page = context.new_page()
        watched = Watched(page)
        page.on("console", lambda message: watched.said.append(message.text))
        page.on("pageerror", lambda error: watched.said.append(str(error)))
        page.on("request", lambda request: watched.asked.append(request.url))
        page.on("requestfailed", lambda request: watched.said.append(f"failed: {request.url}"))
        page.on(
            "response",
            lambda each: watched.said.append(f"{each.status}: {each.url}") if each.status >= 400 else None,
        )
        if clock:
            page.clock.install()
        page.goto(address)
        opened.append((watched, address, context))
        return watched

    yield open_
    for watched, address, context in opened:
        context.close()
        assert watched.said == []
        assert [each for each in watched.asked if not each.startswith(address)] == []


@pytest.fixture(params=MAKERS)
def named_address(request):
    with served(Constructed(MAKERS[request.param])) as address:
        yield request.param, address


@pytest.fixture
def busy_address():
    with served(Constructed(MAKERS["busy"])) as address:
        yield address


def overflow_of(page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_a_page_fits_is_accessible_and_asks_nobody_else(named_address, open_page):
    """On a telephone and a wide screen, light and dark: loaded once, for that and loading axe-core take longer."""
    name, address = named_address
    page = open_page(address, PHONE).page
    for width, size in (("phone", PHONE), ("wide", WIDE)):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            # Else a colour may be on its way to the other one.
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
            assert overflow_of(page) == 0, (width, scheme)
            found = judge(page)
            assert found == [], (width, scheme, found)
            if folder := os.environ.get("JOBFEATURES_PICTURES"):
                page.screenshot(path=Path(folder) / f"{name}-{scheme}-{width}.png", full_page=True)


BROKEN_FIGURES = """() => [...document.querySelectorAll('.tiles dd > div:first-of-type')].filter((each) => {
  const range = document.createRange();
  range.selectNodeContents(each);
  const lines = [...range.getClientRects()];
  const tile = each.closest('.tiles > div').getBoundingClientRect();
  return lines.some((one) => one.right > tile.right || Math.abs(one.bottom - lines[0].bottom) > one.height / 2);
}).map((each) => each.textContent)"""


def test_figures_fit_their_tile_at_every_width(open_page):
    """From a small phone to the widest screen: none is broken over two lines or leaves its tile."""
    for name in ("large", "job", "gone", "controller"):
        with served(Constructed(MAKERS[name])) as address:
            page = open_page(address, PHONE).page
            for width in range(360, 2561, 40):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate(BROKEN_FIGURES) == [], f"{name} at {width} px"
                assert overflow_of(page) == 0, f"{name} at {width} px"
            page.close()  # else it would refresh when nobody answers any more


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_of_schedules_is_accessible_and_has_no_empty_heading(open_page, tmp_path, scheme):
    log, report = tmp_path / "log.swf", tmp_path / "report.html"
    jobs = (
        f"{n} {n * 50} {n % 7 * 900} {900 + n} {n % 4 + 1} -1 -1 -1 7200 -1 1 {n % 5} 1 -1 {n % 2} -1 -1 -1"
        for n in range(60)
    )
    log.write_text("; MaxProcs: 8\n; UnixStartTime: 1700000000\n" + "\n".join(jobs) + "\n")
    assert jobfeatures(["schedule", str(log), "--share", "2", "--report", str(report)]) == 0
    page = open_page(report.as_uri(), WIDE, scheme).page
    assert judge(page) == []
    heads = page.eval_on_selector_all("th", "all => all.map(each => each.textContent.trim())")
    assert heads
    assert "" not in heads


def judge(page) -> list[str]:
    """Return what axe-core finds fault with."""
    from axe_playwright_python.sync_playwright import Axe

    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        f"{each['id']}: {each['help']}: {one['html'][:200]}: {one.get('failureSummary', '')[:300]}"
        for each in found
        for one in each["nodes"][:3]
    ]


def column(page, number: int, table: str = "jobs-table") -> list[str]:
    return page.eval_on_selector_all(
        f"#{table} tbody tr", f"rows => rows.map(row => row.cells[{number}].firstChild.textContent)"
    )


def jobs(page) -> list[str]:
    return page.eval_on_selector_all("#jobs-table tbody th bdi", "all => all.map(each => each.textContent)")


def focus_by_tab(page, text: str) -> None:
    """Press Tab until the button with this text has the focus, as somebody without a mouse does."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == text:
            return
    pytest.fail(f"no Tab leads to {text}")


def test_rows_are_sorted_by_keyboard_and_the_direction_is_told(busy_address, open_page):
    page = open_page(busy_address).page
    before = jobs(page)
    focus_by_tab(page, "Memory")
    page.keyboard.press("Enter")
    assert page.get_attribute("#jobs-table th:nth-child(4)", "aria-sort") == "descending"
    assert jobs(page) == ["48291_7", "48318", "48307", "pilot-77", "48255", "48310", "48301"]
    page.keyboard.press("Space")
    assert page.get_attribute("#jobs-table th:nth-child(4)", "aria-sort") == "ascending"
    assert jobs(page) == ["48301", "48310", "48255", "pilot-77", "48307", "48318", "48291_7"]
    assert sorted(jobs(page)) == sorted(before)
    focus_by_tab(page, "Time")
    page.keyboard.press("Enter")
    assert page.get_attribute("#jobs-table th:nth-child(4)", "aria-sort") == "none"
    assert jobs(page)[0] == "48255"  # which ends first
    assert jobs(page)[-1] == "48301"  # which has ended


def test_the_focus_can_be_seen(busy_address, open_page):
    page = open_page(busy_address).page
    focus_by_tab(page, "Memory")
    outline = page.evaluate("getComputedStyle(document.activeElement).outline")
    assert re.search(r"solid 3px|3px solid|rgb.*3px", outline), outline


def test_rows_are_filtered_and_the_rest_is_counted(busy_address, open_page):
    page = open_page(busy_address).page
    page.fill("#jobs-table-filter", "mweber")
    assert (
        page.eval_on_selector_all("#jobs-table tbody tr", "rows => rows.filter(r => !r.hidden).length") == 2
    )
    assert page.text_content(".tools [role=status]") == "2 of 7 rows"
    page.fill("#jobs-table-filter", "")
    assert page.text_content(".tools [role=status]") == ""


def test_a_refresh_keeps_order_focus_and_what_is_open(open_page, monkeypatch):
    monkeypatch.setattr(front, "MIN_INTERVAL_SECS", 0.0)  # the browser's clock is wound, ours is not
    shown = Constructed(MAKERS["busy"])
    with served(shown) as address:
        page = open_page(address, clock=True).page
        page.click("#jobs-table th:nth-child(4) button")
        page.click("summary")
        page.focus("#jobs-table th:nth-child(4) button")
        before = jobs(page)
        looks = shown.looks
        page.evaluate("document.querySelector('h1').textContent = 'old'")
        page.clock.fast_forward(16_000)
        page.locator("h1", has_text="gpu-a017").wait_for()
        assert shown.looks == looks + 1
        assert jobs(page) == before
        assert page.get_attribute("#jobs-table th:nth-child(4)", "aria-sort") == "descending"
        assert page.evaluate("document.activeElement.textContent") == "Memory"
        assert page.evaluate("document.querySelector('details').open")
        page.uncheck("#refresh-box")
        page.evaluate("document.querySelector('h1').textContent = 'kept'")
        page.clock.fast_forward(60_000)
        assert page.text_content("h1") == "kept"
        assert shown.looks == looks + 1


def test_without_its_script_the_page_shows_the_same_and_offers_nothing_dead(busy_address, open_page):
    page = open_page(busy_address, script=False).page
    assert page.locator("#jobs-table tbody tr").count() == 7
    assert page.locator("button").count() == 0
    assert page.locator("input").count() == 0


def test_a_drain_plan_is_drawn_and_told_in_figures(open_page):
    with served(Constructed(MAKERS["controller"])) as address:
        page = open_page(address).page
        assert page.locator("figure svg.chart").count() == 2
        label = page.get_attribute("figure svg.chart", "aria-label")
        assert "core" in label
        page.click("figure summary")
        assert page.locator("#plan-0 tbody tr").first.is_visible()
        assert "the cheapest" in page.text_content("#plan-0")


def test_the_page_of_the_demonstration_shows_its_jobs(open_page):
    """Real processes, the whole daemon."""
    process = subprocess.Popen(
        [BIN / "jobfeatures-exporter", "demo", "--web.listen-address", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = None
        for line in process.stdout:
            if found := re.search(r"http://[^/]+/", line):
                address = found[0]
                break
        assert address
        until(lambda: "pilot with several payloads" in read(address))
        until(lambda: "1 of 4 jobs report" in read(address))
        page = open_page(address, PHONE).page
        text = page.text_content("#jobs-table")
        for name in (
            "burns one CPU",
            "grows its memory",
            "pilot with several payloads",
            "near its wall limit",
        ):
            assert name in text
        assert overflow_of(page) == 0
        assert judge(page) == []
        until(lambda: re.search(r"1 of 1|0\.9[0-9]? of 1", read(address)), timeout_secs=60)  # burns one CPU
    finally:
        process.terminate()
        process.communicate(timeout=240)


def test_real_exporters_of_a_cluster_show_their_nodes_and_the_schedule(open_page, tmp_path):
    """Real daemons and a real controller, on machines and a batch system that are played."""
    if shutil.which("prometheus") is None:
        pytest.skip("the lab needs Prometheus")
    with Lab(tmp_path / "lab", interval_secs=5) as lab:
        node, controller = (f"http://{lab.exporters[name]}/" for name in ("c1", "controller"))
        until(lambda: "What jobs report" in read(node), timeout_secs=60)
        until(lambda: "Users with the most weighted tardiness" in read(controller), timeout_secs=60)
        page = open_page(node).page
        assert page.text_content("h1") == "c1"
        assert any("requested by" in each for each in page.locator(".notice").all_text_contents())
        assert "1001" in jobs(page)
        assert judge(page) == []
        page = open_page(controller, PHONE).page
        assert page.text_content("h1") == "Cluster (slurm)"
        assert page.locator("figure svg.chart").count() == 3  # a partition each: batch, gpu, whole
        assert page.locator("#users-slurm tbody tr").count() >= 5
        assert overflow_of(page) == 0
        assert judge(page) == []


def read(address: str) -> str:
    import urllib.request

    with urllib.request.urlopen(address, timeout=240) as response:
        text = response.read().decode()
    return re.sub(r"<[^>]*>", "", text)
