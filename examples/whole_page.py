"""A result and its page, with the traces behind every finding and a progress report."""

import sys

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"


def progress(done: int, total: int, what: str) -> None:
    """Report the share done."""
    print(f"{done} of {total}: {what:.60}", file=sys.stderr)


result = gd.discover(DEVICE, only="l1", quick=True, html="whole_page.html", progress=progress)
result.save("whole_page.json")
print(result)
