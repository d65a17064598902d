"""A headless Chromium of this machine, its messages and requests; tests are skipped without one."""

import shutil
from pathlib import Path

import pytest

import gpudissect
from gpudissect.device.base import Keeper
from gpudissect.device.kinds import open_device
from gpudissect.results.build import build
from gpudissect.results.evidence.series import PAGE_LIMITS, with_evidence
from gpudissect.results.files import load
from gpudissect.results.model import Options
from gpudissect.survey.run import run_survey
from gpudissect.views.page.explanation import explanation_page
from gpudissect.views.page.result import result_page
from tests.support.explanations import explanation
from tests.support.hostile import monstrous

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Shared memory of containers is small, and a headless page counts as hidden: neither may stop its frames.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-renderer-backgrounding",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
)


class Opened:
    """A page in the browser, with its messages and requests."""

    def __init__(self, tab, path):
        self.messages, self.requests, self.tab, self._path = [], [], tab, path
        tab.on("console", lambda message: self.messages.append(message.text))
        tab.on("pageerror", lambda error: self.messages.append(str(error)))
        tab.on("dialog", lambda dialog: self.messages.append(dialog.message))
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.goto(path.as_uri())
        tab.wait_for_timeout(200)

    def is_quiet(self):
        return not self.messages and all(url == self._path.as_uri() or url == "data:," for url in self.requests)


@pytest.fixture(scope="session")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    binary = next(filter(None, map(shutil.which, NAMES)), None)
    if binary is None:
        pytest.skip("no Chromium on this machine")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=binary, args=list(ARGUMENTS))
        yield running
        running.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Pages of a recorded H200, a simulated GPU with traces, latency hiding of a result file, and a hostile result."""
    folder = tmp_path_factory.mktemp("pages")
    with open_device("sim:gtx980") as device:
        kept = Keeper(device)
        elements = ("l1", "constant_l1", "shared", "tlb_l1", "fadd")
        simulated = build(device.info, run_survey(kept, elements=elements), Options())
    gpudissect.discover(f"rec:{ROOT / 'tests' / 'recordings' / 'h200'}", html=folder / "h200.html")
    texts = {
        "hide": result_page(load(ROOT / "docs" / "results" / "h200-latency-hiding.json")),
        "gtx980": result_page(with_evidence(simulated, kept, PAGE_LIMITS)),
        "hostile": result_page(monstrous()),
        "explanation": explanation_page(explanation()),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser, pages):
    """Opens a page by its name, at a width, in light or dark."""
    contexts = []

    def open_page(name, width=1280, mode="light", **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=mode, **options)
        contexts.append(context)
        return Opened(context.new_page(), pages / f"{name}.html")

    yield open_page
    for context in contexts:
        context.close()
