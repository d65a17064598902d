"""The page of a comparison on a phone: nothing is cut, and the list links to the tables."""

import pytest

from gpudissect.results.compare import compare
from gpudissect.views.page.comparison import comparison_page
from tests.support.results import PLAIN, result

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [375, 1280])
def test_every_verdict_is_visible(browser, tmp_path, width):
    path = tmp_path / "comparison.html"
    others = [PLAIN | {"l2.hit_latency": 250.0, "l1.index_function": "xor 7^16^17^19^20^21^22 8^17^18"}, PLAIN, PLAIN]
    path.write_text(comparison_page(compare([result(PLAIN), *map(result, others)])), encoding="utf-8")
    tab = browser.new_page(viewport={"width": width, "height": 800})
    tab.goto(path.as_uri())
    tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    boxes = tab.evaluate("""[...document.querySelectorAll('.verdict')].map(each => {
        const box = each.getBoundingClientRect(); return [box.left, box.right]; })""")
    assert len(boxes) == len(PLAIN) + 1
    assert all(0 <= left < right <= width for left, right in boxes)
    assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    tab.evaluate("document.querySelectorAll('details').forEach(each => each.open = false)")
    tab.click(".differing a")
    assert tab.evaluate("document.querySelector('tr:target th').textContent") == "hit latency"
    tab.close()
