"""Renew what README.md shows of the H200's result file: the printed summary and the drawing.

python docs/making/readme.py
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gpudissect.cli.app import main
from gpudissect.views.page.hierarchy import hierarchy_file
from making.result_page import RESULTS, result_of

ROOT = Path(__file__).parents[2]
END = "Valid for"  # the line of the summary after the last one that is shown
OMITTED = ("Constant", "L0 I-cache", "L1 I-cache", "L2 cache       partitions", "Host", "L1 TLB")  # beginnings of rows


def summary() -> str:
    """The first screen of `gpudissect show`, without the rows of `OMITTED`."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        main(["show", str(RESULTS / "h200.json")])
    lines = output.getvalue().partition(f"\n{END}")[0].splitlines()
    lines = [line for line in lines if not line.startswith(OMITTED)]
    return "\n".join([lines[0].partition("  driver:")[0], *(line.rstrip() for line in lines[1:])])


if __name__ == "__main__":
    readme = ROOT / "README.md"
    before, mark, rest = readme.read_text(encoding="utf-8").partition("```text\n")
    after = rest.partition("```\n")[2]
    readme.write_text(f"{before}{mark}{summary()}\n```\n{after}", encoding="utf-8")
    (ROOT / "docs" / "assets" / "h200.svg").write_text(hierarchy_file(result_of("h200")), encoding="utf-8")
