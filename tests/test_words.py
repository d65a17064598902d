"""Words that the project does not use, with the standard term in their place."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORDS = {
    r"\b(un)?fore(tell|tells|told|telling)\b": "predict, predicted, not_predicted",
    r"\bheld against\b|\bheld_against\b|\bhold\w* .{0,40}\bagainst\b": "compared with; the reference",
    r"\btold\b|\btell(s|ing)?\b(?!\()|\bsaid\b": "reported, printed, observed",
    r"\basked\b(?! to\b)|\basked_|_asked\b|\basks for\b": "requested",
    r"\b(some|no)body\b": "another actor, no actor",
    r"\bturns? before\b|\bTurn\b|\bturn_sms\b|\bwhose turn\b": "prior accesses, bank pass, attempt",
    r"\bdrawn\b": "random (policy), sampled (data), plotted (figure)",
    r"\bstairs\b|\bStairs\b": "TLB curve",
    r"\bhomes\b|\bHomes\b": "home partition",
    r"\bstumbl\w+\b": "fixed penalty; fail",
    r"\b(far|near) memory\b": "near/far partition",
    r"\bdesk\b|\bDesk\b": "launch buffers",
    r"\bunfit\b|\bUnfit\b": "unsupported workload",
    r"\b(FEWEST|MOST|MANY|ENOUGH)(_\w+)?\b|\bEnough\b": "MIN_, MAX_, a noun with its unit; StopEarly",
    r"\bt(ake|akes|aken|aking|ook)_? ?apart\b|\bWishes\b|\bwishes\b": "run_study, run_options",
    r"\bgone round\b|\banew\b|\bin a hurry\b|\bworth a word\b|\bat the door of\b": "traversed, again, quick",
    r"\blikeness\b|\bLikeness\b": "comparison result",
}
FROZEN = re.compile(r'"(homes|drawn|turns?|Turn|turn_sms|Means|means|Unfit|carveout_asked)"')
"""Parts of seeds (`Bench.seed_for`) and wire names, which recordings depend on."""
WITH_OLD_NAMES = {"test_words.py", "schema1.py", "test_files.py"}
FOLDERS = ("src", "tests", "validation", "benchmarks", "examples", "docs")
SUFFIXES = {".py", ".cu", ".cuh", ".js", ".css", ".md", ".yml", ".cff"}
FILES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in SUFFIXES and path.name not in WITH_OLD_NAMES
) + [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CITATION.cff", "mkdocs.yml")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_banned_word(path: Path) -> None:
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = FROZEN.sub('""', line)
        found += [
            f"{number}: {match[0]!r}: {term}" for word, term in WORDS.items() for match in re.finditer(word, text)
        ]
    assert not found
