"""Results full of what might harm a page, and what a page consists of."""

import json
from html.parser import HTMLParser

from gpudissect.estimate import Status
from gpudissect.results.model import Failure, Series
from tests.support.results import finding, result

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[2J\"'&--><!--"
LONG = NASTY * 200


class ParsedPage(HTMLParser):
    """Tags, attributes and blocks of JSON of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.blocks = [], [], {}
        self._block = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._block = dict(attrs).get("id") if dict(attrs).get("type") == "application/json" else None

    def handle_data(self, data):
        if self._block:
            self.blocks[self._block] = json.loads(data)
            self._block = None

    @property
    def ids(self):
        return [value for name, value in self.attributes if name == "id"]

    @property
    def fragments(self):
        return {value[1:] for name, value in self.attributes if name == "href" and value.startswith("#")}


def hostile(count=30):
    """Nasty texts everywhere, extreme numbers, series of all shapes, and `count` findings."""
    nasty = {"method": NASTY, "caveats": (NASTY,), "evidence": (NASTY, "a" * 100_000), "reason": NASTY}
    values = (NASTY + "x" * 1_000_000, (1e308, -1e308, 5e-324), 2.0**62)
    findings = [
        finding("l1", name, value, **nasty).model_copy(update={"element": NASTY, "attribute": NASTY, "low": -1e308})
        for name, value in zip(("index_function", "ways", "hit_latency"), values, strict=True)
    ]
    findings += [finding("l2", "hit_latency", float(n), **nasty) for n in range(count)]
    findings.append(finding("dram", "hit_latency", status=Status.NOT_FOUND, reason=NASTY))
    columns = {NASTY: (1.0, None, 3.0, 1e308), "y": (1.0, 2.0, -1e308, 5.0), "text": (NASTY,) * 4}
    shapes = {
        "": {},
        "one": {"x": (1.0,), "y": (2.0,)},
        "nothing": {"x": (None, None), "y": (None, None)},
        "same": {"x": (1.0, 1.0), "y": (0.0, 0.0)},
        "large": {"x": tuple(map(float, range(50_000))), "y": (2.0,) * 50_000},
    }
    series = [Series(element=NASTY, name=NASTY, columns=columns, units={"y": NASTY}, evidence=(NASTY,))]
    series += [Series(element="l1", name=name, columns=shape) for name, shape in shapes.items()]
    device = {"name": NASTY, "spec": NASTY, "facts": {NASTY: NASTY, "clock_hz": 1e308}, "unsupported": {NASTY: NASTY}}
    content = {"findings": tuple(findings), "series": tuple(series), "environment": {NASTY: NASTY}}
    return result({}, **device).model_copy(update=content)


def monstrous():
    """Ten thousand findings of different elements, and everything as long as possible."""
    made = hostile(10_000)
    findings = [
        each.model_copy(update={"element": f"{LONG}{n // 4}", "method": LONG, "caveats": (LONG,) * 9})
        for n, each in enumerate(made.findings)
    ]
    numbered = {f"{n}": LONG for n in range(300)}
    facts = {f"{n}{LONG[:9000]}": LONG for n in range(300)} | {"l2_size": LONG}
    device = {"name": LONG, "spec": LONG, "facts": facts, "unsupported": numbered}
    columns = {"t": (LONG,) * 9, "x": [*range(9)], "y": [*range(9)]}
    content = {
        "device": made.device.model_copy(update=device),
        "findings": tuple(findings),
        "failures": (Failure(experiment=LONG, reason=LONG),) * 300,
        "series": tuple(Series(element="l1", name=f"{LONG}{n}", columns=columns) for n in range(300)),
        "environment": numbered,
    }
    return made.model_copy(update=content)
