"""The page in a browser: by mouse, by keyboard, by the rules of screen readers."""

import pytest

pytestmark = pytest.mark.browser
PAGES = ("h200", "gtx980", "hide")
MAX_FOLLOWED = 50  # links of a page, spread over it
OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"
# A busy machine's headless browser may drop a frame for good: no step of the walk waits longer than a second.
WALK = """async () => {
  document.documentElement.style.scrollBehavior = 'auto';
  const nextFrames = done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 15)));
  for (let y = 0; y < document.body.scrollHeight; y += 600) {
    scrollTo(0, y);
    await Promise.race([new Promise(nextFrames), new Promise(done => setTimeout(done, 1000))]);
  }
}"""


@pytest.mark.parametrize(("width", "mode"), [(1280, "light"), (1280, "dark"), (800, "light"), (375, "light")])
@pytest.mark.parametrize("name", [*PAGES, "explanation"])
def test_no_message_no_request_no_horizontal_scrolling(opened, name, width, mode):
    page = opened(name, width, mode)
    page.tab.evaluate(OPEN_ALL)
    page.tab.evaluate(WALK)
    assert page.is_quiet(), (page.messages, page.requests)
    assert page.tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("name", [*PAGES, "explanation"])
def test_no_axis_title_runs_over_ticks_and_no_tick_is_cut_on_a_phone(opened, name):
    page = opened(name, 390)
    page.tab.evaluate(OPEN_ALL)
    page.tab.evaluate(WALK)
    found = page.tab.evaluate("""[...document.querySelectorAll('svg.plot')].flatMap(svg => {
        const all = svg.getBoundingClientRect();
        const title = [...svg.querySelectorAll('.name')].at(-1).getBoundingClientRect();
        const boxes = [...svg.querySelectorAll('.axis text')].map(each => each.getBoundingClientRect());
        const across = [...svg.querySelectorAll('.axis.x text')].map(each => each.getBoundingClientRect());
        return boxes.some(box => box.left < all.left - 1 || box.right > all.right + 1) ||
            boxes.some(box => box.left < title.right - 1 && box.top < title.bottom && box.bottom > title.top) ||
            across.some((box, n) => n && box.left < across[n - 1].right) ? [svg.getAttribute('aria-label')] : [];
    })""")
    assert found == []


@pytest.mark.parametrize("name", ["h200", "hide"])
def test_a_page_is_short(opened, name):
    page = opened(name, 1440)
    assert page.tab.evaluate("document.documentElement.scrollHeight") < 12_000


@pytest.mark.parametrize("name", PAGES)
def test_every_plot_is_drawn_and_gets_its_buttons(opened, name):
    page = opened(name)
    page.tab.evaluate(OPEN_ALL)
    page.tab.evaluate(WALK)
    plots = page.tab.evaluate("""[...document.querySelectorAll('figure.plot')].map(each => {
        const marks = [...each.querySelectorAll('.marks path')].map(path => path.getBBox());
        const ticks = each.querySelectorAll('.axis text').length;
        return [each.id, marks.length, Math.max(...marks.map(box => box.width + box.height)), ticks,
                each.querySelectorAll('button').length];
    })""")
    assert len(plots) >= 10
    for identity, marks, size, ticks, buttons in plots:
        assert marks >= 1 and ticks >= 2 and buttons == 5, identity
        assert size >= 0, identity


@pytest.mark.parametrize("name", PAGES)
def test_evidence_links_lead_to_plots(opened, name):
    page = opened(name)
    links = page.tab.evaluate("[...document.querySelectorAll('.evidence a')].map(each => each.getAttribute('href'))")
    assert links
    different = list(dict.fromkeys(links))
    for href in different[:: -(-len(different) // MAX_FOLLOWED)]:
        page.tab.evaluate("href => { location.hash = ''; location.hash = href; }", href)
        page.tab.wait_for_function(
            """href => { const box = document.querySelector(href).getBoundingClientRect();
                         return box.height > 50 && box.top < innerHeight && box.bottom > 0; }""",
            arg=href,
        )


def test_the_keyboard_suffices(opened):
    page = opened("gtx980")
    press = page.tab.keyboard.press
    press("Tab")
    assert page.tab.evaluate("document.activeElement.className") == "skip"
    press("Enter")
    for target in (".element > summary", ".finding:has(svg.plot) > summary"):
        for _ in range(40):
            press("Tab")
            if page.tab.evaluate("target => document.activeElement.matches(target)", target):
                break
        if target.startswith(".element"):
            press("Enter")
    press("Enter")
    assert page.tab.evaluate("document.activeElement.parentElement.open")
    for _ in range(25):  # links to plots, then the plots
        press("Tab")
        if page.tab.evaluate("document.activeElement.matches('svg.plot')"):
            break
    assert page.tab.evaluate("document.activeElement.matches('svg.plot')")
    press("ArrowRight")
    figure = "document.activeElement.closest('figure')"
    assert page.tab.evaluate(f"!{figure}.querySelector('.tip').hidden")
    assert ":" in page.tab.evaluate(f"{figure}.querySelector('[aria-live]').textContent")
    ticks = f"[...{figure}.querySelectorAll('.axis.x text')].map(each => each.textContent).join()"
    before = page.tab.evaluate(ticks)
    press("+")
    press("+")
    assert page.tab.evaluate(ticks) != before
    press("0")
    whole = page.tab.evaluate(f"{figure}.querySelector('.marks').getAttribute('transform')")
    assert whole == "matrix(1 0 0 1 0 0)"


def test_table_and_download_of_a_plot(opened):
    page = opened("h200")
    figure = page.tab.locator("figure.plot:visible").first
    figure.scroll_into_view_if_needed()
    figure.get_by_role("button", name="Table").click()
    assert figure.locator("tbody tr").count() >= 2
    with page.tab.expect_download() as caught:
        figure.get_by_role("button", name="Download").click()
    lines = caught.value.path().read_text().splitlines()
    assert len(lines) == figure.locator("tbody tr").count() + 1
    assert page.is_quiet()


def test_zoom_by_mouse(opened):
    page = opened("h200")
    plot = page.tab.locator("svg.plot:visible").first
    plot.scroll_into_view_if_needed()
    page.tab.wait_for_timeout(200)
    box = plot.bounding_box()
    page.tab.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.3)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.7, steps=4)
    page.tab.mouse.up()
    zoomed = plot.locator(".marks").get_attribute("transform")
    assert zoomed != "matrix(1 0 0 1 0 0)"
    plot.dblclick()
    assert plot.locator(".marks").get_attribute("transform") == "matrix(1 0 0 1 0 0)"


def test_the_filter_leaves_matching_findings(opened):
    page = opened("h200")
    page.tab.get_by_label("Filter").fill("l2 near")
    page.tab.wait_for_timeout(400)
    shown = page.tab.locator(".finding:visible .c-attribute").all_text_contents()
    assert "near latency" in shown and len(shown) < 10
    every = page.tab.locator(".finding").count()
    status = page.tab.get_by_role("status")
    assert status.text_content() == f"{len(shown)} of {every} findings"
    page.tab.get_by_label("Filter").fill("")
    page.tab.wait_for_timeout(400)
    assert status.text_content() == "" and page.tab.locator(".element .finding:visible").count() == 0
    assert page.tab.locator("details.element:visible").count() > len(shown)


@pytest.mark.parametrize("name", PAGES)
def test_in_print_everything_is_open_and_nothing_cut(opened, name):
    page = opened(name)
    folded = page.tab.evaluate("document.querySelectorAll('details:not([open])').length")
    page.tab.emulate_media(media="print")
    page.tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert folded > 10 and page.tab.locator("details:not([open])").count() == 0
    assert page.tab.locator(".evidence").first.is_visible()
    wide = """[...document.querySelectorAll('main *')].filter(each => !each.closest('svg, .aside, #tools') &&
              each.getBoundingClientRect().right > innerWidth + 1).map(each => each.className + each.tagName)"""
    page.tab.set_viewport_size({"width": 720, "height": 1000})  # a sheet of A4
    assert page.tab.evaluate(wide) == []
    page.tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.tab.locator("details:not([open])").count() == folded


@pytest.mark.parametrize("name", PAGES)
def test_the_badge_is_one_line_on_a_phone(opened, name):
    page = opened(name, 390)
    assert page.tab.evaluate("document.querySelector('.origin').getClientRects().length") == 1
    assert page.tab.evaluate("document.querySelector('.origin').getBoundingClientRect().height") < 30  # of one line


def test_a_long_name_is_cut(opened):
    page = opened("hostile", 390)
    assert page.tab.evaluate("document.querySelector('h1').getBoundingClientRect().height") < 300


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("name", [*PAGES, "explanation"])
def test_axe_finds_nothing_serious(opened, name, mode):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(name, mode=mode, bypass_csp=True)
    page.tab.evaluate(OPEN_ALL)
    page.tab.evaluate(WALK)
    found = axe.Axe().run(page.tab).response["violations"]
    serious = [
        (each["id"], each["impact"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_the_page_works_without_scripts(opened):
    page = opened("h200", java_script_enabled=False)
    assert page.tab.locator("svg.hierarchy").count() == 2
    page.tab.locator("details.element > summary").first.click()
    page.tab.locator(".finding > summary").first.click()
    assert page.tab.locator(".finding[open] .evidence").first.is_visible()


def test_a_hostile_page_runs_no_script_and_stays_usable(opened):
    page = opened("hostile")
    assert page.is_quiet(), page.messages
    page.tab.get_by_label("Filter").fill("hit latency")
    page.tab.wait_for_timeout(600)
    page.tab.locator(".finding:visible > summary").first.click()
    assert page.tab.locator(".finding[open] dl").first.is_visible()
    assert page.tab.evaluate("document.querySelectorAll('img, iframe').length") == 0
