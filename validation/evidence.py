"""Count all comparisons with published numbers by what they are evidence of: docs/validation.md, from the tables."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from kinds import DOCS, MEANINGS, NO, TABLES, YES, Kind, count, read

PAGE = DOCS / "validation.md"
DOCUMENT = re.compile(r"Luo \d+|[^ ,:]+")
PRINTED = "as printed"
EXPORTED = ("h200",)  # a GPU file made of a result of gpudissect itself
TEXT = """# Validation: what is compared with what

Every comparison of gpudissect with a published number, by what it is evidence of. Where the number was typed into the
simulation that it is then found in, agreement shows that `discover` inverts the simulator under noise, and nothing
about a GPU or about the paper.

{summary}

What is not found, not supported, ambiguous, or found with some of the three noise seeds only, does not agree. Tables:
[silicon](validation-silicon.csv), [data of papers](validation-data.csv),
[older methods](validation-older-methods.csv), [simulated GPUs](validation.csv),
[latency hiding](validation-hiding.csv) ([page](validation-hiding.md)), [throughput](throughput.csv)
([page](throughput.md)). [Sources](sources.md) explains the keys. Made by `python validation/evidence.py`.

## Silicon

An H200 and an H100, measured by `discover`, and what other groups measured on GPUs of the same generation: mostly an
H100, an H800 or a GH200, never an H200. One card of each model. Both columns are compared with the same {published}
numbers, so they are not {pairs} independent comparisons. Left out: what the driver states, what a manual specifies,
and what was measured on another generation. A row agrees if the published value lies in our bracket, or our bracket in
the published range. A bound on one side does not count as agreeing. No GPU older than Hopper was measured.

{silicon}

## Data that papers print

A paper concludes a structure from its data. Here the structure is simulated, and the data are compared: where they
differ, the simulated structure, the simulation or the paper is wrong. *As printed*: the paper's method gave another
size or line than the GPU has according to the vendor or a later document; the GPU file has the latter, so the paper's
data do not come out.

Readings of Saavedra's and Wong's methods and of MT22's change point are those of the same methods on the simulated
caches, around the capacity that `discover` found. The two classic readings contradict each other on one cache, in MC16
(s4.1, figures 4 and 5) as here, but not by the same numbers.

MC16's second TLB is the plainest case. The paper counts 17 missed entries over 132 MiB and 8 more for each 2 MiB, takes
misses for ways, and concludes one set of 17 and six of 8. But LRU misses every page of an overflowed set, one more than
it has ways: those sets miss 18, 27, ... 72. One set of 16 and seven of 7 give what the paper counted, with the same 65
entries and one set more than its table 5 has. The GPU files keep the paper's conclusion and say so. On a GPU, the sets
that `discover` finds by groups of pages distinguish the two. The counts also need a first TLB that replaces LRU: if it
replaces at random (MC16 table 5: not LRU; so in the file of the GTX980), they vary from lap to lap.

{data}

## Emergent

The simulated SM has the published latencies and rates. How many warps reach 90 % of a rate, who waits for whom, and
what occupancy over time follows are not typed in. Numbers agree within 5 % (of `discover`: within the bracket).

{emergent}

## Tuned

A parameter of the simulation was chosen so that these numbers come out: how much memory latency varies (warps that
streaming and random loads need), the time of shared stores (copies of MC16 table 7), slots of Maxwell.
{tuned}

## Round trip

Each GPU of the catalogue is **simulated** with its published structure. `discover` surveys the simulated GPU without
knowing that structure, once for each of the noise seeds 1, 2, 3.
{round_trip}

Some numbers are in two tables and counted twice: VV16 tables 6.1 to 6.4, MC16 tables 6 and 7. Not compared are
{stated} numbers that the driver states, {outside} that describe a real GPU and are not part of its simulation, and
numbers that a paper measured on another GPU (the GPU files mark those as assumed).

{round_trip_rows}

{documents}

## Calculations

Printed numbers against our arithmetic, formulas and models with printed parameters: no GPU, real or simulated, has a
part in it.
{calculations}

## Printed and compared with nothing

- MC16: the bars of figure 14 (the text has two of their ratios), efficiencies of tables 6 and 7, the cost of reading
  the clock and of storing (s4.2), the read-only mapping of Maxwell (s4.3), the irregular index of the L2 (s4.6), the
  window of 512 MB and where the TLBs stand (s5.2): `discover` has no finding of either.
- MC14: its curves, but for the highest miss rate of figure 9 and the counts of figure 11.
- HC13: its curves, but for where they become flat, and the readings of Saavedra's method.
- MT22: sizes as its own search finds them on the simulated GPUs, figures 4.6 and 4.21 to 4.26, figure 5.1.
- VV16: the stores and loads of listing 3.2, branches, figure 5.1, register banks (s5.3), granularity of occupancy
  (s5.7), four of seven percentiles of table 6.6, measured departure delays (s7.4), the fit of the G80 with two terms.
"""


def page() -> str:
    """The page in Markdown."""
    surveys = read("validation")
    silicon = read("validation-silicon")
    published = [row for row in surveys if row["kind"] == Kind.ROUND_TRIP and row["gpu"] not in EXPORTED]
    exported = [row for row in surveys if row["kind"] == Kind.ROUND_TRIP and row["gpu"] in EXPORTED]
    names = {(row["element"], row["attribute"]) for row in silicon}
    others = [row for name in TABLES if name not in ("validation", "validation-silicon") for row in read(name)]
    round_trip = (
        f"Of numbers that a document published, {_share(published)} come out again with every seed; of numbers that "
        f"were exported from a measured H200, {_share(exported)}; of other pages, "
        f"{_share([row for row in others if row['kind'] == Kind.ROUND_TRIP])}."
    )
    return TEXT.format(
        summary=summary(),
        published=len(names),
        pairs=len(silicon),
        silicon=_silicon(silicon),
        data=_section(Kind.DATA),
        emergent=_section(Kind.EMERGENT),
        tuned=f"{_share(_of(Kind.TUNED))} agree.",
        round_trip=round_trip,
        stated=sum(row["verdict"] == "stated" for row in surveys),
        outside=sum(row["verdict"] == "outside the simulation" for row in surveys),
        round_trip_rows=_rows(row for row in _of(Kind.ROUND_TRIP) if row["agrees"] == NO),
        documents=_documents(surveys),
        calculations=_calculations(),
    )


def summary() -> str:
    """Kinds, what they are and how many agree: the table that README repeats the head of."""
    counts = count()
    lines = [
        (kind.value, MEANINGS[kind], str(counts[kind, True]), str(counts[kind, False]))
        for kind in Kind
        if counts[kind, True] + counts[kind, False]
    ]
    return _table(("kind", "compared", "agree", "do not agree"), lines)


def _share(rows: Sequence[dict[str, str]]) -> str:
    return f"{sum(row['agrees'] == YES for row in rows)} of {len(rows)}"


def _of(kind: Kind) -> list[dict[str, str]]:
    """Rows of one kind from all tables of simulated GPUs, with the columns of the survey's."""
    rows = []
    for name in TABLES:
        for row in read(name):
            if row["kind"] == kind:
                row.setdefault("what", " ".join(row.get(column) or "" for column in ("element", "attribute")))
                row.setdefault("verdict", row.get("note") or "")
                rows.append(row)
    return rows


def _section(kind: Kind) -> str:
    """How many agree, by document, and the rows that do not."""
    rows = sorted(_of(kind), key=lambda row: row["what"].endswith(PRINTED))
    return "\n\n".join([f"{_share(rows)} agree. Those that do not:", _rows(row for row in rows if row["agrees"] == NO)])


def _rows(rows: Iterable[dict[str, str]]) -> str:
    columns = ("gpu", "what", "published", "found", "verdict", "source")
    return _table(columns, ([row[column].replace("**", "") for column in columns] for row in rows))


def _silicon(rows: Sequence[dict[str, str]]) -> str:
    """A row for each published number, a column for each GPU."""
    by_name: dict[tuple[str, ...], dict[str, dict[str, str]]] = defaultdict(dict)
    for row in rows:
        by_name[row["element"], row["attribute"], row["published"], row["source"]][row["gpu"]] = row
    gpus = list(dict.fromkeys(row["gpu"] for row in rows))
    heads = ("element", "attribute", "published", *(f"{gpu.upper()}, measured here" for gpu in gpus), "source")
    lines = [
        (element, attribute, known, *(_found(found.get(gpu)) for gpu in gpus), source)
        for (element, attribute, known, source), found in by_name.items()
    ]
    counts = ", ".join(f"{_share([row for row in rows if row['gpu'] == gpu])} on the {gpu.upper()}" for gpu in gpus)
    return f"{counts} agree.\n\n{_table(heads, lines)}"


def _found(row: dict[str, str] | None) -> str:
    if row is None:
        return ""
    text = row["found"] if row["bracket"] in ("", "exact") else f"{row['found']} ({row['bracket']})"
    return text if row["agrees"] == YES else f"**{text}: {row['verdict'].partition(': ')[2] or row['verdict']}**"


def _documents(surveys: Sequence[dict[str, str]]) -> str:
    """Round trips by GPU and document."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in surveys:
        match = DOCUMENT.match(row["source"])
        if row["kind"] == Kind.ROUND_TRIP:
            counts[row["gpu"], match[0] if match else row["source"]][row["agrees"]] += 1
    lines = [(gpu, key, str(n[YES] or ""), str(n[NO] or "")) for (gpu, key), n in counts.items()]
    return _table(("GPU", "document", "agree", "do not agree"), lines)


def _calculations() -> str:
    rows = [row for row in _of(Kind.CALCULATION)]
    parts = []
    for basis in dict.fromkeys(row["basis"] for row in rows):
        parts.append(f"{basis}: {_share([row for row in rows if row['basis'] == basis])}")
    return f"To the last printed digit agree: {'; '.join(parts)}. The [page](validation-hiding.md) lists the others."


def _table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    lines: Iterator[str] = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines])


def main() -> int:
    """Write the page, or compare with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page would change")
    options = parser.parse_args()
    text = page()
    if options.check:
        is_current = PAGE.read_text(encoding="utf-8") == text
        print("evidence: as written" if is_current else f"{PAGE.name} is out of date: run validation/evidence.py")
        return 0 if is_current else 1
    PAGE.write_text(text, encoding="utf-8")
    print(summary())
    return 0


if __name__ == "__main__":
    sys.exit(main())
