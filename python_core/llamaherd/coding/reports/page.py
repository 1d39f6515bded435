"""Page of a report: its sections, which a template writes, and the words for values."""

from __future__ import annotations

import unicodedata
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
from markupsafe import Markup

from llamaherd.coding.annotation.codebook import page
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.plots import counts, drawing, intervals
from llamaherd.coding.plots.counts import Passage, passage_counts, passages_of
from llamaherd.coding.plots.description import WIDTH, Plot
from llamaherd.coding.plots.plot import OF_VALIDATION
from llamaherd.coding.references import GUIDELINES
from llamaherd.coding.reports.methods import facts_of, methods_of
from llamaherd.coding.reports.prose import REPORT_WORDS, weights_of
from llamaherd.coding.reports.report_data import Contents, to_json
from llamaherd.coding.sentences import FILTERS, enumeration, number, with_interval
from llamaherd.coding.validation.page import PEOPLE, measures_of
from llamaherd.engine.core.phrases import as_sentence, percents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


MOST_ROWS = 100  # rows that a table shows
LONGEST = 4000  # maximum number of characters shown of a text
N_COLOURS = 6  # number of colours in the page's style; further labels reuse them
_DASH = "\u2013"
_CONTROLS = {i: 0x2400 + i for i in range(32) if chr(i) not in "\n\t"} | {127: 0x2421}
# Characters that could end a script element or confuse an HTML parser, with equivalent
# JSON escapes.
_ESCAPED: dict[str, str | int | None] = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
_PLOTS: dict[str, Callable[..., Plot]] = {
    "summary": counts.labels_plot,
    "passages": counts.passages_plot,
    "estimates": intervals.estimates_plot,
    "robustness": intervals.robustness_plot,
    **OF_VALIDATION,
}


class Sections(NamedTuple):
    """Content of a report as HTML."""

    lead: Markup
    parts: list[tuple[str, str, Markup]]


class Figures:
    """Plots of a report as `image` writes them: from a plot, its number and description.

    `missing` is a message if matplotlib is not installed; otherwise "".
    """

    def __init__(self, image: Callable[[Plot, int, str], Markup]) -> None:
        self.missing = ""
        self._image = image
        self._n = 0

    def figure(self, name: str, *values: Any) -> Markup:  # of the plot
        """Draw the plot with this name; "" without matplotlib."""
        if self.missing:
            return Markup("")
        plot = _PLOTS[name](*values)
        self._n += 1
        try:
            image = self._image(plot, self._n, f"{plot.title}. {plot.alt}")
        except ImportError:
            self.missing = f"There are no plots in this report: {drawing.MISSING}"
            return Markup("")
        kind = ' class="narrow"' if plot.width < WIDTH else ""
        return Markup(f"<figure{kind}>{image}</figure>")  # noqa: S704 - image is escaped


def page_of(contents: Contents) -> str:
    """Render the page, which also contains its data as JSON."""
    figures = Figures(_svg)
    sections = sections_of(contents, figures)
    return _PAGES.get_template("report.html.j2").render(
        title=contents["title"],
        lead=sections.lead,
        version=contents["run"]["versions"].get("llamaherd", ""),
        created=contents["created"],
        sections=sections.parts,
        plots_missing=figures.missing,
        json=script_json(contents),
    )


def script_json(contents: Contents) -> Markup:
    """Return JSON that is safe inside a script element."""
    text = to_json(contents).translate(str.maketrans(_ESCAPED))
    return Markup(text)  # noqa: S704 - all markup is escaped


def _svg(plot: Plot, n: int, description: str) -> Markup:
    """Return a plot as an SVG element, whose texts matplotlib escapes."""
    svg = drawing.svg_of(plot, f"plot{n}")
    label = Markup.escape(description)
    labelled = svg.replace("<svg", f'<svg aria-label="{label}"', 1)
    return Markup(labelled)  # noqa: S704 - all texts are escaped


def sections_of(contents: Contents, figures: Figures) -> Sections:
    """Write the sections of a report."""
    facts = facts_of(contents)
    module: Any = _PAGES.get_template("sections.html.j2").make_module(
        {**facts, **_more(facts), "methods": methods_of(contents)}
        | {"figure": figures.figure}
    )
    parts = [part for part in module.sections if part[2].strip()]
    return Sections(module.lead, parts)


def _more(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that only the sections need."""
    run, data, validation = facts["run"], facts["data"], facts["validation"]
    failed = {int(index) for index in facts["errors"]}
    fits = facts["estimates"]
    first = fits[0]["notes"] if len(fits) > 1 else ()
    return {
        "n_distinct": len(set(data["rows"]) - {None}),
        "n_failed": sum(index in failed for index in data["rows"]),
        "span_labels": span_labels(facts),
        "validation_weights": weights_of(validation) if validation else (),
        "estimate_titles": titles_of(fits),
        "shared_notes": [n for n in first if all(n in fit["notes"] for fit in fits)],
        "codebook_lines": page(facts["book"], width=10**6)[2:],
        "settings_groups": _settings(run, facts["stats"], data["n_rows"]),
    }


def span_labels(contents: Mapping[str, Any]) -> list[str] | None:
    """Return the labels of passages; None if labels are no passages, or hidden."""
    content = contents["run"]["codebook"]["content"]
    if content.get("type") != SPANS or contents["labels"]["are_hashes"]:
        return None
    return list(content.get("labels") or [])


def _settings(
    run: Mapping[str, Any], stats: Mapping[str, Any] | None, n_rows: int
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the settings, versions, machine and times by title."""
    machine = dict(run["machine"])
    memory = machine.pop("memory_bytes", None)
    if memory is not None:
        machine["memory"] = f"{memory / 2**30:.1f} GiB"
    n, n_stored = run.get("n_prompts", 0), run.get("n_journal", 0)
    time = {"started": run["started"]}
    if n_rows < run.get("n_rows", 0):
        time["coded rows"] = f"{run['n_rows']:,}, of which {n_rows:,} are reported"
    if run.get("seconds") is not None and not (n_stored and n_stored >= n):
        time["duration"] = duration_text(run["seconds"])
    if n_stored:
        time["from the journal"] = f"{n_stored:,} of {n:,} prompts"
    if stats is not None:
        time["statistics of the call"] = stats["line"]
    return [
        ("How labels were computed", run["settings"]),
        ("Context", run["context"]),
        ("Versions", run["versions"]),
        ("Machine", machine),
        ("Time", time),
    ]


def titles_of(fits: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a different title for each of several estimates."""
    names = [fit.get("title") or _title(fit) for fit in fits]
    return [
        f"{name} ({names[: i + 1].count(name)})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


def _title(fit: Mapping[str, Any]) -> str:
    """Return a title from the content: the formula, or "Share of yes by party"."""
    if fit["formula"]:
        return str(fit["formula"])
    terms = {row["term"] for row in fit["rows"]} - {"difference"}
    outcomes = {row["outcome"] for row in fit["rows"]}
    term = terms.pop() if len(terms) == 1 else "estimate"
    name = f"{term} of {outcomes.pop()}" if len(outcomes) == 1 else f"{term}s"
    by = fit.get("grouped_by") or ()
    groups = f" by {enumeration(by)}" if by else ""
    return f"{name[:1].upper()}{name[1:]}{groups}"


def titled_measures(
    fields: Mapping[str, Any],
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the measures of a validation with their titles; `fields` is its dict."""
    for row in measures_of(fields):
        if row.title:
            of_people = row.part in (PEOPLE, "numbers of people")
            title = f"{row.title} {PEOPLE}" if of_people else row.title
            yield f"accuracy of {title}" if row.part == "baseline" else title, row.number


class MarkedPiece(NamedTuple):
    """Part of a text with the same passages throughout; "" for no labels.

    `labels` are of all passages that contain it, `starts` of those that begin here;
    `colour` is the number of the colour of the last label.
    """

    text: str
    labels: str
    starts: str
    colour: int


def pieces_of(
    text: str, passages: Iterable[Passage], names: Sequence[str]
) -> list[MarkedPiece]:
    """Split a text at the starts and ends of its passages, which may overlap."""
    text = text[:LONGEST]
    inside = [
        Passage(max(passage.start, 0), min(passage.end, len(text)), passage.label)
        for passage in passages
        if passage.start < min(passage.end, len(text))
    ]
    ends = {0, len(text), *(p.start for p in inside), *(p.end for p in inside)}
    pieces = []
    for start, end in pairwise(sorted(ends)):
        labels = [p.label for p in inside if p.start <= start and end <= p.end]
        starts = [p.label for p in inside if p.start == start]
        last = labels[-1] if labels else ""
        at = names.index(last) if last in names else len(names)
        joined, begun = (", ".join(dict.fromkeys(cells)) for cells in (labels, starts))
        pieces.append(MarkedPiece(text[start:end], joined, begun, at % N_COLOURS))
    return pieces


def _quoted_passage(example: Mapping[str, Any]) -> Passage:
    """Return the quote that supports the label of an example."""
    start, end = example["quote"]
    return Passage(start, end, str(example["label"]))


# ---- words for values ------------------------------------------------------------------


def visible(value: object) -> object:
    """Make control characters of a text visible, and replace invalid characters."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(
        "\ufffd" if unicodedata.category(c) == "Cs" or 0x80 <= ord(c) < 0xA0 else c
        for c in value.translate(_CONTROLS)
    )


def shorten_value(value: object) -> str:
    """Return the first `LONGEST` characters of a value, and the number of all."""
    if isinstance(value, Markup):
        return value
    text = str(value)
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]} ... ({len(text):,} characters)"


def share_text(value: float | None) -> str:
    """Return a share in percent; a dash for None."""
    return _DASH if value is None else percents(value)


def ends_text(measure: Mapping[str, Any], digits: int) -> str:
    """Return the ends of an interval; "" without an interval."""
    ends = [number(measure.get(name), digits, "") for name in ("low", "high")]
    return " to ".join(ends) if all(ends) else ""


def duration_text(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def setting_text(value: object) -> object:
    """Return the value of a setting: a word for None, True and False."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value


_PAGES = jinja2.Environment(
    loader=jinja2.PackageLoader("llamaherd.coding.reports"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    finalize=visible,
    extensions=["jinja2.ext.do"],
    trim_blocks=True,
    lstrip_blocks=True,
)


def _key_name(key: str) -> str:
    """Return a key of the data as words, but a name such as "Qwen3-0.6B" as it is."""
    return key.replace("_", " ") if key.islower() and "-" not in key else key


_PAGES.globals |= REPORT_WORDS | {
    "duration": duration_text,
    "ends": ends_text,
    "estimate_name": intervals.estimate_name,
    "estimators": intervals.METHODS,
    "fixed": partial(number, missing=_DASH),
    "guidelines": GUIDELINES,
    "interval": partial(with_interval, form="({} to {})", missing=_DASH),
    "longest": LONGEST,
    "measures": titled_measures,
    "most_rows": MOST_ROWS,
    "passage_counts": passage_counts,
    "passages_of": passages_of,
    "pieces": pieces_of,
    "quoted": _quoted_passage,
    "share": share_text,
}
_PAGES.filters |= FILTERS
_PAGES.filters |= {
    "cut": shorten_value,
    "dash": lambda value: _DASH if value is None else value,
    "key_name": _key_name,
    "sentence": as_sentence,
    "setting": setting_text,
    "share": share_text,
}
