"""The plots that findings of a page link to."""

import re
from html import unescape

from gpudissect.views.page.findings import NO_WORKLOAD

FINDING = re.compile(r'<details class="finding" id="f\d+">.*?<p class="evidence">(.*?)</p>.*?</details>', re.DOTALL)
LINK = re.compile(r'<a href="#p\d+">(.*?)</a>')


def linked_plots(text):
    """Titles of the linked plots, and the text on evidence, of each finding of a page."""
    lines = FINDING.findall(text)
    return [([unescape(title) for title in LINK.findall(line)], unescape(re.sub(r"<.*?>", "", line))) for line in lines]


def findings_without_plot(result, text):
    """Found values that neither link to a plot nor say why there is none."""
    return [
        f"{finding.element}.{finding.attribute}: {words}"
        for finding, (titles, words) in zip(result.findings, linked_plots(text), strict=True)
        if finding.status.value == "found" and not titles and NO_WORKLOAD not in words
    ]
