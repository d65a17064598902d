"""Results as the Python API hands them out: the data classes of `results` with tables, plots, pages and files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from gpudissect.errors import UsageError, suggest
from gpudissect.estimate import Status
from gpudissect.explanation import result as explanation
from gpudissect.explanation import sentences
from gpudissect.printable import clean
from gpudissect.results import compare, model, predict
from gpudissect.results.files import check_ending, write_text
from gpudissect.results.folded import folded
from gpudissect.results.model import Items
from gpudissect.results.summary import Summary, summarize
from gpudissect.results.text import percent, provenance
from gpudissect.results.verdict import Verdict
from gpudissect.views.notebook import comparison_html, explanation_html, findings_html, picture, result_html
from gpudissect.views.terminal.compare_table import names_of, print_comparison, value_of
from gpudissect.views.terminal.layout import console
from gpudissect.views.terminal.table import print_result

if TYPE_CHECKING:
    import pandas
    from rich.console import Console

MAX_NAMED_RESULTS = 4  # in the line that stands for a comparison
_PYDANTIC_NAMES = frozenset(dir(BaseModel))
_NUMERIC_FORMATS = tuple("bdeEfFgGnoxX%")
_COLUMNS = ("element", "attribute", "value", "unit", "low", "high", "confidence")
_EVIDENCE_COLUMNS = ("value_ns", "method", "evidence", "caveats", "reason", "experiment")


class _PublicNames:
    """`dir` without the names of pydantic's models and private ones, for completion at a prompt."""

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_") and name not in _PYDANTIC_NAMES]


class Finding(_PublicNames, model.Finding):
    """One attribute of one element; its text is the value with unit and bracket."""

    @property
    def bracket(self) -> tuple[model.Number | None, model.Number | None]:
        """Low and high end, inclusive, in `unit`; None for an end that is not known."""
        return self.low, self.high

    @property
    def verdict(self) -> Verdict | None:
        """How the value compares with the published one; None if none is published."""
        return self.published.verdict if self.published is not None else None

    @property
    def number(self) -> model.Number:
        """The value as a number in `unit`. Raises `UsageError` with the reason if there is none, or it is no number."""
        if isinstance(self.value, int | float):
            return self.value
        name, text = clean(f"{self.element} {self.attribute}"), str(self)
        if self.status.has_value:
            raise UsageError(f"{name} is not a single number: {text}; use .value")
        raise UsageError(f"{name} has no value: {text}" + (f" ({clean(self.reason)})" if self.reason else ""))

    def __str__(self) -> str:
        return self._text() or self.status.value

    def __format__(self, spec: str) -> str:
        """The text, or with a numeric format such as ``.1f`` the number."""
        return format(self.number if spec.endswith(_NUMERIC_FORMATS) else str(self), spec)

    def __repr__(self) -> str:
        name = clean(f"{self.element} {self.attribute}")
        verdict = "" if self.verdict in (None, Verdict.NOT_COMPARABLE) else self.verdict
        return f"<{name}: {', '.join(filter(None, (str(self), percent(self.confidence), verdict)))}>"

    def _text(self) -> str:
        text = folded(self)
        return f"{self.status.value}, {text}" if text and not self.status.has_value else text


class Element:
    """The findings of one element, as attributes: ``result["l1"].capacity``."""

    def __init__(self, name: str, findings: Iterable[Finding]) -> None:
        self._name, self._findings = name, {each.attribute: each for each in findings}

    def __getattr__(self, attribute: str) -> Finding:
        if attribute.startswith("_"):  # also while it is being unpickled and has no findings yet
            raise AttributeError(attribute)
        try:
            return self[attribute]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __getitem__(self, attribute: str) -> Finding:
        if attribute not in self._findings:
            raise KeyError(_missing(f"attribute of {self._name}", attribute, self._findings))
        return self._findings[attribute]

    def __contains__(self, attribute: object) -> bool:
        return attribute in self._findings

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings.values())

    def __len__(self) -> int:
        return len(self._findings)

    def __dir__(self) -> list[str]:
        return list(self._findings)

    def __repr__(self) -> str:
        return f"<{clean(self._name)}: {clean(', '.join(self._findings))}>"

    def __str__(self) -> str:
        shown = [each for each in self if each.status is not Status.SKIPPED]
        width = max((len(each.attribute) for each in shown), default=0)
        return "\n".join(clean(f"{each.attribute:<{width}}  {each}") for each in shown)

    def _repr_html_(self) -> str:
        return findings_html(list(self))


class Series(_PublicNames, model.Series):
    """Columns of numbers about one element, with their plot."""

    def to_pandas(self) -> pandas.DataFrame:
        """The columns as a data frame. Raises `UsageError` without pandas."""
        return data_frame(self.columns)

    def to_svg(self) -> str:
        """Its plot, the first if it makes several, as an SVG file; empty where there is nothing to plot."""
        from gpudissect.views.plots.element import figures_of_series
        from gpudissect.views.plots.standalone import standalone

        return next((standalone(figure) for figure in figures_of_series(self)), "")

    def save(self, file: str | Path) -> None:
        """Write its plot as .svg. Raises `UsageError` for another name, and where there is nothing to plot."""
        check_ending(path := Path(file), "of a plot", (".svg",))
        if not (svg := self.to_svg()):
            raise UsageError(f"cannot write {path}: there is nothing to plot")
        write_text(path, svg)

    def __repr__(self) -> str:
        rows = len(next(iter(self.columns.values()), ()))
        return f"<{clean(self.element)}: {clean(self.name)}; {', '.join(map(clean, self.columns))}; {rows} rows>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return picture(self.to_svg(), f"{self.element}: {self.name}", ", ".join(self.columns))


class Result(_PublicNames, model.Result):
    """A whole result, with its table, page and plots."""

    findings: Items[Finding] = ()
    """What was found, element by element."""
    series: Items[Series] = ()
    """Measured curves and tables behind the findings."""

    @classmethod
    def of(cls, plain: model.Result) -> Result:
        """The same result with display methods."""
        findings = tuple(Finding.model_construct(**vars(each)) for each in plain.findings)
        series = tuple(Series.model_construct(**vars(each)) for each in plain.series)
        return cls.model_construct(**vars(plain) | {"findings": findings, "series": series})

    @property
    def elements(self) -> tuple[str, ...]:
        """Names of its elements."""
        return tuple(dict.fromkeys(each.element for each in self.findings))

    @property
    def summary(self) -> Summary:
        """One row per level, the TLBs, the warps needed, and what is uncertain or different."""
        return summarize(self)

    def __getitem__(self, element: str) -> Element:
        """The findings of one element: ``result["l1"].capacity``. Raises `KeyError` if there are none."""
        if element not in self:
            raise KeyError(_missing("element of this result", element, self.elements))
        return Element(element, (each for each in self.findings if each.element == element))

    def __contains__(self, element: object) -> bool:
        return element in self.elements

    def __iter__(self) -> Iterator[Finding]:  # type: ignore[override]  # not the fields, as of other models
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __bool__(self) -> bool:
        return True

    def finding(self, element: str, attribute: str) -> Finding:
        """As ``result[element][attribute]``. Raises `KeyError` if there is none."""
        return self[element][attribute]

    def save(self, file: str | Path) -> None:
        """Write the result file. Raises `UsageError` for one that cannot be written."""
        write_text(Path(file), self.to_json())

    def to_pandas(self, *, evidence: bool = False) -> pandas.DataFrame:
        """The findings as a data frame with the index (element, attribute), one row each.

        With `evidence` also method, evidence, caveats and reason. Raises `UsageError` without pandas.
        """
        columns: dict[str, list[Any]] = {
            name: [getattr(finding, name) for finding in self]
            for name in (*_COLUMNS, *(_EVIDENCE_COLUMNS if evidence else ()))
        }
        columns["status"] = [finding.status.value for finding in self]
        columns["published"] = [finding.published and finding.published.value for finding in self]
        columns["verdict"] = [finding.verdict and finding.verdict.value for finding in self]
        return data_frame(columns).set_index(["element", "attribute"])

    def plots(self, element: str) -> dict[str, str]:
        """Every plot of one element by its title, as SVG files: of its series, its spectrum, its sets."""
        from gpudissect.views.plots.element import figures_of_element
        from gpudissect.views.plots.standalone import standalone

        return {figure.title: svg for figure in figures_of_element(self, element) if (svg := standalone(figure))}

    def to_svg(self) -> str:
        """The drawing of the memory hierarchy as an SVG file; empty without a cache or memory."""
        from gpudissect.views.page.hierarchy import hierarchy_file

        return hierarchy_file(self)

    def to_card(self) -> str:
        """One picture of the GPU to share, as an SVG file: the drawing, the summary and a plot."""
        from gpudissect.views.card import card

        return card(self)

    def to_html(self) -> str:
        """The page of the result, one file that needs nothing else; `gpudissect.discover` has one with the traces."""
        from gpudissect.views.page.result import result_page

        return result_page(self)

    def __repr__(self) -> str:
        device = self.device
        origin = provenance(device.origin, device.recorded_origin)
        interrupted = ", interrupted" if self.interrupted else ""
        return f"<{clean(device.name)} {origin} ({clean(device.spec)}): {len(self.findings)} findings{interrupted}>"

    def __str__(self) -> str:
        """The table that ``gpudissect show`` prints, plain."""
        return _printed(lambda out: print_result(out, self))

    def _repr_html_(self) -> str:
        return result_html(self)


class MixPrediction(predict.MixPrediction):
    """The predicted throughput of a mix of instructions; its text is what ``gpudissect predict`` prints."""

    def __str__(self) -> str:
        from gpudissect.views.terminal.worksheet import to_text

        return to_text(self).rstrip("\n")

    def __repr__(self) -> str:
        place = f"{clean(self.sheet.machine.name)}, {self.sheet.warps:g} warps per SM"
        return f"<{place}: {self.instructions_per_cycle:.3g} instructions per cycle and SM, limited by {self.limit}>"


class Explanation(_PublicNames, explanation.Explanation):
    """What limits a kernel on a GPU; its text is the screen of ``gpudissect explain``."""

    @classmethod
    def of(cls, plain: explanation.Explanation) -> Explanation:
        """The same explanation with display methods."""
        return cls.model_construct(_fields_set=plain.model_fields_set, **dict(plain))

    def to_html(self) -> str:
        """The page that ``gpudissect explain --html`` writes."""
        from gpudissect.views.page.explanation import explanation_page

        return explanation_page(self)

    def save(self, file: str | Path) -> None:
        """Write it as .json, or its page as .html. Raises `UsageError` for another name."""
        check_ending(path := Path(file), "of an explanation", (".json", ".html"))
        write_text(path, self.to_html() if path.suffix == ".html" else self.to_json() + "\n")

    def __repr__(self) -> str:
        place = f"{sentences.kernel_of(self)} on {sentences.gpu_of(self)}"
        return f"<{place}: predicted {sentences.time_of(self)}; limited by {sentences.limiter_of(self)}>"

    def __str__(self) -> str:
        """The screen that ``gpudissect explain`` prints, plain."""
        from gpudissect.views.terminal.explanation import print_explanation

        return _printed(lambda out: print_explanation(out, self))

    def _repr_html_(self) -> str:
        return explanation_html(self)


class Row(compare.Row):
    """One attribute in every result of a comparison; printed in one line."""

    def __repr__(self) -> str:
        values = " | ".join(value_of(each) or "-" for each in self.findings)
        name = clean(f"{self.element} {self.attribute}")
        return f"<{name}: {values}: {self.outcome.value}, {clean(self.why)}>"


class Comparison(compare.Comparison):
    """Several results beside one another, with their table and page."""

    @classmethod
    def of(cls, plain: compare.Comparison) -> Comparison:
        """The same comparison with display methods."""
        return cls(**vars(plain) | {"rows": tuple(Row(**vars(row)) for row in plain.rows)})

    def to_pandas(self) -> pandas.DataFrame:
        """One row each, with value, bracket and status of every result as ``A``, ``A_low``, ``A_high``, ``A_status``.

        Raises `UsageError` without pandas.
        """
        rows = []
        for row in self.rows:
            unit = next((each.unit for each in row.findings if each is not None), "")
            cells: dict[str, Any] = {name: getattr(row, name) for name in ("element", "attribute", "why")}
            cells |= {"outcome": row.outcome.value, "unit": unit}
            for number, finding in enumerate(row.findings):
                name = compare.letter(number)
                cells[name] = finding and finding.value
                cells |= {f"{name}_{end}": finding and getattr(finding, end) for end in ("low", "high")}
                cells[f"{name}_status"] = finding and finding.status.value
            rows.append(cells)
        return data_frame(rows)

    def to_html(self) -> str:
        """The results side by side, as one page."""
        from gpudissect.views.page.comparison import comparison_page

        return comparison_page(self)

    def __repr__(self) -> str:
        more = ", ..." if len(self.results) > MAX_NAMED_RESULTS else ""
        names = ", ".join(names_of(self.results[:MAX_NAMED_RESULTS])) + more
        counts = ", ".join(f"{count} {kind.value}" for kind, count in self.counts.items())
        return f"<{len(self.results)} results, {names}: {counts}>"

    def __str__(self) -> str:
        """The table that ``gpudissect compare`` prints, plain."""
        return _printed(lambda out: print_comparison(out, self, everything=False))

    def _repr_html_(self) -> str:
        return comparison_html(self)


def data_frame(content: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """A data frame of columns by name, or of rows. Raises `UsageError` without pandas, which is no dependency."""
    try:
        import pandas
    except ImportError:
        raise UsageError("data frames need pandas: pip install pandas") from None
    return pandas.DataFrame(content)


def _missing(kind: str, name: str, known: Iterable[str]) -> str:
    """The message about a name that is not among `known`: similar names, and all."""
    names = list(known)
    similar = suggest(str(name), names)
    hint = f"did you mean {' or '.join(similar)}? " if similar else ""
    return clean(f"no such {kind}: {str(name)[:40]!r}; {hint}valid: {', '.join(names) or 'none'}")


def _printed(write: Callable[[Console], None]) -> str:
    text = io.StringIO()
    write(console(text))
    return text.getvalue().rstrip("\n")
