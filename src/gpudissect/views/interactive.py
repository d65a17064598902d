"""Results as the Python API hands them out: the data classes of `results` with tables, plots, pages and files."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudissect.errors import UsageError
from gpudissect.results import compare, model
from gpudissect.results.files import check_ending, write_text
from gpudissect.results.model import Items
from gpudissect.results.text import clean, percent, provenance, quantity
from gpudissect.views.notebook import comparison_html, picture, result_html
from gpudissect.views.terminal.compare_table import names_of, print_comparison, value_of
from gpudissect.views.terminal.table import console, print_result

if TYPE_CHECKING:
    import pandas
    from rich.console import Console

MAX_NAMED_RESULTS = 4  # in the line that stands for a comparison


class Finding(model.Finding):
    """One attribute of one element; printed in one line."""

    def __repr__(self) -> str:
        value = quantity(self.value, self.unit) if self.status.has_value else self.status.value
        confidence = f", {percent(self.confidence)}" if self.confidence is not None else ""
        return f"<{clean(self.element)} {clean(self.attribute)}: {value}{confidence}>"

    __str__ = __repr__


class Series(model.Series):
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


class Result(model.Result):
    """A whole result, with its table, page and plots."""

    findings: Items[Finding] = ()
    """What was found, element by element."""
    series: Items[Series] = ()
    """Measured curves and tables behind the findings."""

    @classmethod
    def of(cls, plain: model.Result) -> Result:
        """The same result with display methods."""
        findings = tuple(Finding.model_construct(**dict(each)) for each in plain.findings)
        series = tuple(Series.model_construct(**dict(each)) for each in plain.series)
        return cls.model_construct(**dict(plain) | {"findings": findings, "series": series})

    def save(self, file: str | Path) -> None:
        """Write the result file. Raises `UsageError` for one that cannot be written."""
        write_text(Path(file), self.to_json())

    def to_pandas(self) -> pandas.DataFrame:
        """The findings as a data frame, one row each. Raises `UsageError` without pandas."""
        rows = []
        for finding in self.findings:
            published = finding.published
            row = {name: value for name, value in finding if name not in ("published", "revised")}
            row["status"] = finding.status.value
            row["published"] = published and published.value
            row["verdict"] = published and published.verdict.value
            rows.append(row)
        return data_frame(rows)

    def plots(self, element: str) -> dict[str, str]:
        """Every plot of one element by its title, as SVG files: of its series, its spectrum, its sets."""
        from gpudissect.views.plots.element import figures_of_element
        from gpudissect.views.plots.standalone import standalone

        return {figure.title: svg for figure in figures_of_element(self, element) if (svg := standalone(figure))}

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


def _printed(write: Callable[[Console], None]) -> str:
    text = io.StringIO()
    write(console(text))
    return text.getvalue().rstrip("\n")
