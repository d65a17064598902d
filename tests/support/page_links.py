"""What a reader of a page finds one click away from each finding."""

import re
from html import unescape

from gpudissect.views.page.findings import NO_WORKLOAD

LINE = re.compile(r'<details class="finding" id="(f\d+)">(.*?)</details>', re.DOTALL)
ATTRIBUTE = re.compile(r'<span class="c-attribute">(.*?)</span>')
LINK = re.compile(r'<a href="#(p\d+)">(.*?)</a>')


def plots_by_finding(text):
    """Titles of the plots that each finding of a page links to, in their order: (attribute, titles, its words)."""
    told = []
    for _, line in LINE.findall(text):
        evidence = re.search(r'<p class="evidence">(.*?)</p>', line, re.DOTALL)[1]
        titles = [unescape(title) for _, title in LINK.findall(evidence)]
        told.append((unescape(ATTRIBUTE.search(line)[1]), titles, unescape(re.sub(r"<.*?>", "", evidence))))
    return told


def without_evidence(result, text):
    """Findings of a page, found, that neither lead to a plot nor say why there is none."""
    told = plots_by_finding(text)
    assert len(told) == len(result.findings)
    return [
        f"{finding.element}.{finding.attribute}: {words}"
        for finding, (_, titles, words) in zip(result.findings, told, strict=True)
        if finding.status.value == "found" and not titles and NO_WORKLOAD not in words
    ]
