"""Tests of plots: their content, and that no texts overlap."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import matplotlib as mpl
import numpy as np
import pytest
from llamaherd.coding.plots import counts, description, drawing, fitting, intervals
from llamaherd.coding.plots.counts import label_summary
from llamaherd.coding.plots.plot import plot_of
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.engine.core.stats import RequestStats
from plotted import notes, the, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

mpl.use("Agg")
from matplotlib import pyplot as plt

LONG = "a label of many words that goes on and on, with $dollars$ and _underscores_"
NAMES = ("no", LONG, "\u5206\u985e \U0001f600", "x" * 70)
BOOK = lh.Codebook("Which?", NAMES)


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def coded(context: lh.Context) -> lh.Coded:
    texts = [f"text {i}" for i in range(60)]
    labelled = lh.annotate({"text": texts}, "text", BOOK, context)
    rng = np.random.default_rng(1)
    probs = rng.dirichlet([0.4] * 4, 60)
    labels: list[str | None] = [NAMES[i] for i in probs.argmax(axis=1)]
    labels[3] = None
    frame = {**labelled.frame, "label": labels}
    return dataclasses.replace(labelled, frame=frame, probs=probs, labels=labels)


@pytest.fixture(scope="module")
def validation(coded: lh.Coded) -> lh.types.Validation:
    rng = np.random.default_rng(2)
    codes = [[str(rng.choice(NAMES)) for _ in coded.labels] for _ in range(2)]
    codes[0][:30] = [label or "no" for label in coded.labels[:30]]
    return lh.validate(coded, {"Ann": codes[0], "Ben": codes[1]})


def classes() -> lh.types.ClassifyResults:
    probs = np.array([[0.95, 0.02, 0.02, 0.01], [0.1, 0.6, 0.2, 0.1], [np.nan] * 4])
    return lh.types.ClassifyResults(
        names=NAMES,
        probs=probs,
        logprobs=np.log(probs),
        normalize="sum",
        errors=[None, None, "failed"],
        finish_reasons=["stop", "stop", "error"],
        stats=lh.Stats(),
    )


def estimates() -> lh.types.Estimates:
    from llamaherd.coding.estimation.estimates import METHODS, Estimate

    rows = tuple(
        Estimate(
            outcome=name,
            term="share",
            group="",
            method=method,
            estimate=0.2 + 0.05 * i,
            std_error=0.02,
            low=0.16 + 0.05 * i,
            high=0.24 + 0.05 * i,
        )
        for name in NAMES
        for i, method in enumerate(METHODS)
    )
    return lh.types.Estimates(
        rows=rows,
        model="mean",
        formula=None,
        level=0.95,
        target="population",
        n_texts=1000,
        n_gold=100,
        design="simple",
    )


def robustness(coded: lh.Coded, n: int = 9) -> lh.types.Robustness:
    rng = np.random.default_rng(3)
    labels = [[str(rng.choice(NAMES)) for _ in coded.labels] for _ in range(n)]
    return lh.types.Robustness(
        variants=tuple(f"{LONG} {i}" for i in range(n)),
        codebook=BOOK,
        rows=list(range(60)),
        labels=labels,
        runs=[{}] * n,
    )


def results(n: int) -> lh.Results:
    rows = [
        lh.Result(
            index=i,
            text="a",
            tokens=[1],
            finish_reason="stop",
            complete=True,
            error=None,
            n_prompt_tokens=1,
            n_reused_tokens=0,
            seed=0,
            stats=RequestStats(
                queue_s=i // 8,
                first_token_s=i // 8 + 0.3,
                wall_s=i // 8 + 0.5 + (i % 8) / 16,
            ),
        )
        for i in range(n)
    ]
    return lh.Results(rows, lh.Stats(n_slots=8, n_prompts=n, wall_s=9.0, prefill_s=2.0))


def everything(
    coded: lh.Coded, validation: lh.types.Validation
) -> list[tuple[Any, str | None]]:
    kinds = ("measures", "labels", "confusion", "calibration", "coverage")
    answers = results(100)
    return [
        (coded, None),
        (classes(), None),
        *((validation, kind) for kind in kinds),
        (estimates(), None),
        (robustness(coded), None),
        (dataclasses.replace(robustness(coded, 3), estimates=(estimates(),) * 3), None),
        (answers, None),
        (answers.stats, None),
    ]


def overlaps(one: Any, other: Any) -> bool:
    """Return True if two boxes overlap by more than a pixel."""
    wide = min(one.x1, other.x1) - max(one.x0, other.x0)
    high = min(one.y1, other.y1) - max(one.y0, other.y0)
    return bool(wide > 1 and high > 1)


# fonts installed on this machine lack glyphs
@pytest.mark.long(reason="codes or estimates many times")
@pytest.mark.filterwarnings("ignore:Glyph .* missing")
def test_no_texts_lie_on_each_other_or_leave_the_figure(
    coded: lh.Coded, validation: lh.types.Validation
) -> None:
    for x, kind in everything(coded, validation):
        ax = lh.plot(x, kind=kind)
        figure = ax.figure
        figure.canvas.draw()
        renderer = figure.canvas.get_renderer()
        ticks = [
            tick.label1
            for axis in (ax.xaxis, ax.yaxis)
            for tick in axis.get_major_ticks()
            if min(axis.get_view_interval()) <= tick.get_loc()
            and tick.get_loc() <= max(axis.get_view_interval())
        ]
        named = [*ticks, ax.title]
        named = [ax.xaxis.label, ax.yaxis.label, *named, *figure.legends]
        straight = [
            artist
            for artist in named
            if artist.get_visible()
            and (not hasattr(artist, "get_rotation") or artist.get_rotation() in (0, 90))
        ]
        boxes = [artist.get_window_extent(renderer) for artist in straight]
        boxes = [box for box in boxes if box.width > 0 and box.height > 0]
        for i, box in enumerate(boxes):
            for other in boxes[:i]:
                assert not overlaps(box, other), (type(x), kind)
            assert box.x0 >= -1, (type(x), kind)
            assert box.y0 >= -1, (type(x), kind)
            assert box.y1 <= figure.bbox.y1 + 1, (type(x), kind)
        for box in boxes[:2]:
            assert not overlaps(box, ax.get_window_extent(renderer))


def test_size_and_resolution_are_those_of_print(coded: lh.Coded) -> None:
    figure = lh.plot(coded).figure
    assert figure.get_size_inches()[0] == 6.5
    assert figure.dpi == 300


def test_bars_are_the_counts(coded: lh.Coded) -> None:
    bars = the(plot_of(coded), description.Rects)
    lengths = np.array(bars.x_end) - np.array(bars.x)
    counted = lengths.reshape(4, len(NAMES)).sum(axis=0)
    assert counted.tolist() == [coded.labels.count(name) for name in NAMES]
    ax = lh.plot(coded)
    (drawn,) = ax.collections
    assert len(drawn.get_paths()) == np.count_nonzero(lengths)
    assert ax.get_yticklabels()[0].get_text() == "no"
    assert ax.get_xlabel() == "number of texts"


def test_labels_of_prompts_are_counted_as_those_of_texts() -> None:
    plot = plot_of(classes())
    # Empty classes keep their shades, so that the shades of other classes do not change.
    assert plot.series.names == ["0.9 to 1", "0.7 to 0.9", "0.5 to 0.7", "below 0.5"]
    bars = the(plot, description.Rects)
    lengths = (np.array(bars.x_end) - np.array(bars.x)).reshape(4, len(NAMES))
    assert lengths[0].tolist() == [1, 0, 0, 0]
    assert lengths[2].tolist() == [0, 1, 0, 0]
    assert list(notes(plot).values()) == ["1 (50%)", "1 (50%)", "0 (0%)", "0 (0%)"]
    assert plot.title == "Labels of 2 of 3 prompts"  # as in the shares


def test_a_call_that_scores_has_a_timeline(tiny_path: Callable[[str], Path]) -> None:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model, n_seq_max=2) as context:
        scored = lh.classify_parallel(context, ["a", "b c", "d"], ["x", "y"])
    assert len(scored.requests) == 3
    plot = plot_of(scored, "time")
    *_, answers = phases(plot)
    assert len(answers) == 3
    assert all(start == end for start, end in answers)  # no answer is generated
    assert plot.title == "3 prompts in 2 slots"
    with pytest.raises(ValueError, match="no prompt that ran"):
        lh.plot(classes(), kind="time")


def phases(plot: description.Plot) -> list[list[tuple[float, float]]]:
    """Return start and end of each prompt in each phase of a timeline."""
    bands = [mark for mark in plot.marks if isinstance(mark, description.Band)]
    return [list(zip(b.low[::2], b.high[::2], strict=True)) for b in bands]


def test_points_and_intervals_are_those_of_the_validation(
    validation: lh.types.Validation,
) -> None:
    plot = plot_of(validation)
    of = validation.accuracy
    drawn = values(plot)
    accuracy = (of.accuracy.value, of.accuracy.low, of.accuracy.high)
    assert drawn["accuracy", "model and people"] == accuracy
    people = {a.name: a.value for a in validation.coder_agreement}
    between = {
        row: v[0] for (row, series), v in drawn.items() if series == "between people"
    }
    titles = {name: coefficient.title for name, coefficient in COEFFICIENTS.items()}
    assert between == {titles[name]: value for name, value in people.items()}
    # The baseline is shown with accuracy, not with kappa and alpha.
    majority = f"always '{intervals._shorten(str(of.majority_label), 40)}'"
    assert [row for row, series in drawn if series == majority] == ["accuracy"]
    assert drawn["accuracy", majority][0] == of.majority_accuracy.value
    assert "95% interval" in plot.x.title


def test_each_coefficient_has_an_axis_of_its_own() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(1000, 100, 400)
    code = rng.random(400) < 0.4
    data = {"label": code.astype(int).tolist(), "x": x.tolist()}
    gold = [int(c) if i % 3 == 0 else None for i, c in enumerate(code)]
    fit = lh.estimate(data, gold, "label ~ x", prob="simple")
    plot = plot_of(fit)
    assert plot.panels == ["Intercept", "x"]
    assert len(values(plot)) == 2 * len(fit.methods)
    ax = lh.plot(fit)
    assert ax.figure.legends == []  # the rows are the series
    inner = ax.child_axes
    assert [one.get_title(loc="left") for one in inner] == plot.panels
    low, high = inner[1].get_xlim()
    assert high - low < 0.1  # the axis of the intercept is wider than 0.1
    below, above = inner[0].get_xlim()
    assert above - below > 0.1
    names = [label.get_text() for label in inner[0].get_yticklabels()]
    assert names == plot.series.names


def test_the_confusion_table_is_drawn(validation: lh.types.Validation) -> None:
    ax = lh.plot(validation, kind="confusion")
    cells = [int(text.get_text().replace(",", "")) for text in ax.texts]
    assert cells == validation.accuracy.confusion.ravel().tolist()


def test_a_timeline_is_in_order_and_complete() -> None:
    plot = plot_of(results(30))
    waits, reads, answers = phases(plot)
    begun = [end for _, end in waits]
    assert begun == sorted(begun)
    assert [start for start, _ in reads] == begun
    assert [start for start, _ in answers] == [end for _, end in reads]
    assert all(start <= end for phase in phases(plot) for start, end in phase)
    assert len(answers) == 30
    assert plot.title == "30 prompts in 8 slots"


def test_draws_on_axes_that_are_given(
    coded: lh.Coded, validation: lh.types.Validation
) -> None:
    for x, kind in everything(coded, validation):
        figure, ax = plt.subplots()
        assert lh.plot(x, ax, kind=kind) is ax
        assert figure.legends == []


def test_labels_are_no_mathematics(coded: lh.Coded) -> None:
    ax = lh.plot(coded)
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())


def test_a_page_gets_shapes_and_texts(validation: lh.types.Validation) -> None:
    svg = drawing.svg_of(plot_of(validation, "confusion"), "name")
    assert svg.startswith("<svg")
    assert "<image" not in svg
    assert "$dollars$" in svg  # as text, not as outlines
    assert 'id="name-' in svg


@pytest.mark.parametrize(
    ("x", "kind", "error", "message"),
    [
        (3, None, TypeError, "x must be a Coded, ClassifyResults"),
        (lh.Stats(), "labels", ValueError, "kind is for a validation, not for Stats"),
        (lh.Results([], lh.Stats()), None, ValueError, "no prompt that ran"),
    ],
)
def test_what_has_no_plot_says_so(
    x: object, kind: str | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lh.plot(x, kind=kind)


def test_kinds_that_there_are_not(validation: lh.types.Validation) -> None:
    with pytest.raises(ValueError, match="kind must be one of"):
        lh.plot(validation, kind="all")
    plain = lh.validate(["a", "b"], ["a", "a"])
    for kind in ("calibration", "coverage"):
        with pytest.raises(ValueError, match="needs the probabilities"):
            lh.plot(plain, kind=kind)


def test_numbers_that_are_none_are_left_out() -> None:
    checked = lh.validate(["a", "b", "a"], ["a", "c", "a"])
    ax = lh.plot(checked, kind="labels")
    assert not math.isnan(sum(ax.get_xlim()))


@pytest.mark.parametrize("kind", ["measures", "labels", "confusion", "calibration"])
@pytest.mark.parametrize("names", [(1, 2), (1.5, 2.5), (True, False)], ids=str)
def test_labels_that_are_not_text_are_plotted(kind: str, names: tuple[Any, Any]) -> None:
    labels = [*names, *names, names[0]] * 4
    codes = [names[0], *labels[1:]]
    checked = lh.validate(labels, codes, prob=[0.8] * 20)
    assert lh.plot(checked, kind=kind).figure is not None


def test_shades_of_a_confusion_matrix_have_a_legend(
    validation: lh.types.Validation,
) -> None:
    figure = lh.plot(validation, kind="confusion").figure
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "share of the texts with this label"
    assert [text.get_text() for text in legend.get_texts()][::4] == ["0%", "to 100%"]


def test_titles_count_in_english() -> None:
    summary = [{"label": "a", "n": 1, "n_labelled": 1, "share": 1.0, "bands": None}]
    assert counts.labels_plot(summary, 1).title == "Labels of 1 text"
    assert counts.labels_plot(summary, 1200, "prompts").title == (
        "Labels of 1 of 1,200 prompts"
    )
    nothing = [{"label": "a", "n": 0, "n_labelled": 0, "share": None, "bands": None}]
    assert counts.labels_plot(nothing, 9).title == "Labels of 0 of 9 texts"
    names = ("n_prompts", "n_prefill_tokens", "n_decode_tokens", "prefill_s", "decode_s")
    rates = ("prefill_tokens_per_s", "decode_tokens_per_s", "wall_s")
    fields = dict.fromkeys((*names, *rates), 1)
    assert counts.time_plot(fields).title == "1 prompt in 1.0 s"


@pytest.mark.parametrize(
    ("labels", "title"),
    [
        (["a", "b", None], "Labels of 2 of 3 texts"),
        (["", "", None], "Labels of 2 of 3 texts"),  # none of the labels applies
        ([None, None, None], "Labels of 0 of 3 texts"),
        (["", "a; b", "a"], "Labels of 3 texts"),
    ],
)
def test_the_title_counts_the_texts_with_an_answer(
    labels: list[str | None], title: str
) -> None:
    summary = label_summary(labels, ["a", "b"], None, several=True)
    assert counts.labels_plot(summary, 3).title == title


def test_the_title_has_the_texts_that_were_used() -> None:
    fields = lh.validate(["a", None] * 10, ["a", "b"] * 10).to_dict()
    title = intervals.measures_plot(fields).title
    assert title.endswith("(20 texts; accuracy: 10)")


def test_variants_with_equal_shares_do_not_cover_each_other() -> None:
    fields = {
        "variants": ["one", "two"],
        "names": ["a"],
        "shares": [[0.5], [0.5]],
        "flips": [0.0, 0.0],
        "n_texts": 10,
    }
    plot = intervals.robustness_plot(fields)
    assert len(set(the(plot, description.Points).y)) == 2
    drawing.draw(plot)


def test_coefficients_are_shown_with_their_intervals() -> None:
    codes = [["a", "b", "a", "a", "b", "a"], ["a", "b", "b", "a", "b", "b"]]
    measures = [
        lh.percent_agreement(codes),
        lh.cohen_kappa(*codes),
        lh.krippendorff_alpha(codes),
    ]
    plot = plot_of(measures)
    assert plot.y.names == [COEFFICIENTS[measure.name].title for measure in measures]
    assert [value for value, _, _ in values(plot).values()] == [e.value for e in measures]
    assert plot.title == "Agreement of 2 coders on 6 units"
    assert lh.plot(measures[1]).get_xlabel() == "value, with interval"
    with pytest.raises(TypeError, match="must be a Coded"):
        lh.plot([measures[0], 1])


def test_a_coverage_curve_is_drawn_by_itself_as_it_is_of_a_validation(
    validation: lh.types.Validation,
) -> None:
    assert validation.coverage is not None
    alone, part = plot_of(validation.coverage), plot_of(validation, "coverage")
    assert alone.marks == part.marks
    assert alone.y.limits == part.y.limits
    assert alone.note == "dashed line: accuracy of all texts"
    none = dataclasses.replace(
        validation.coverage,
        **dict.fromkeys(
            ("threshold", "coverage", "accuracy", "low", "high"), np.zeros(0)
        ),
    )
    with pytest.raises(ValueError, match="no coded texts"):
        plot_of(none)


def test_names_of_variants_are_short_and_different() -> None:
    row = {"outcome": "a", "term": "share", "group": "", "low": 0.1, "high": 0.3}
    rows = [{**row, "variant": f"{LONG} {i}", "estimate": 0.2} for i in range(3)]
    fields = {"rows": rows, "n_texts": 9, "n_gold": 5, "level": 0.95, "model": "ols"}
    in_rows = fitting.fit(intervals.variants_plot({**fields, "formula": "y ~ x"})).rows
    legend = fitting.fit(intervals.variants_plot({**fields, "formula": ""})).legend
    for names, width in ((in_rows, 30), (legend, 78)):
        assert [name[-2:] for name in names] == [" 0", " 1", " 2"]
        assert max(map(len, names)) <= width


@pytest.mark.parametrize(
    ("shares", "limits"),
    [
        ([0.2, 0.9], (0.0, 1.0)),
        ([0.2, 0.4], (0.0, 0.4 * 1.1)),
        ([0.0], (0.0, 1.0)),
        ([math.nan], (0.0, 1.0)),
    ],
)
def test_an_axis_of_shares_begins_at_zero(
    shares: list[float], limits: tuple[float, float]
) -> None:
    fields = {"variants": ["a"], "names": ["b"] * len(shares), "shares": [shares]}
    plot = intervals.robustness_plot({**fields, "flips": [0.0], "n_texts": 1})
    assert plot.x.limits is not None
    low, high = plot.x.limits
    assert low < limits[0] < limits[1] < high
    assert high - low == pytest.approx(1.04 * (limits[1] - limits[0]))
    drawing.draw(plot)


def test_rows_without_counts_have_the_lightest_shade() -> None:
    fields = {"accuracy": {"labels": ["a", "b"], "confusion": [[30, 10], [0, 0]]}}
    plot = counts.confusion_plot(fields)
    classes = the(plot, description.Rects).series
    assert classes == [3, 1, 0, 0]
    assert [plot.series.names[i] for i in classes] == ["to 75%", "to 25%", "0%", "0%"]


def luminance(colour: str) -> float:
    """Return the brightness of a colour in grey, as print and screens compute it."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2


@pytest.mark.parametrize("shades", [description.BANDS, description.SHARES])
def test_shades_differ_in_grey(shades: tuple[str, ...]) -> None:
    grey = sorted(luminance(shade) for shade in shades)
    assert grey in (
        [luminance(shade) for shade in shades],
        [luminance(shade) for shade in reversed(shades)],
    )
    contrasts = [(b + 0.05) / (a + 0.05) for a, b in pairwise(grey)]
    assert min(contrasts) > 1.15


def test_texts_on_shades_are_readable() -> None:
    for i, shade in enumerate(description.SHARES):
        grey = luminance(shade)
        ink = 0.0 if i < description.N_LIGHT else 1.0
        light, dark = max(grey, ink), min(grey, ink)
        contrast = (light + 0.05) / (dark + 0.05)
        assert contrast > 4, shade


def test_names_of_rows_stay_different_and_fit() -> None:
    many = [f"a rather long label number {i:02d} with some words" for i in range(30)]
    summary = [
        {"label": name, "n": 1, "n_labelled": 30, "share": 1 / 30, "bands": None}
        for name in many
    ]
    plot = counts.labels_plot(summary, 30)
    for height in (3.6, 7.0, 12.0, None):
        fitted = fitting.fit(plot, 6.5, height)
        assert len(set(fitted.rows)) == 30
        lines = sum(name.count("\n") + 1 for name in fitted.rows)
        assert 0.15 * lines * fitted.row_size < fitted.height
    assert fitting.fit(plot, 6.5, 3.6).row_size < fitting.fit(plot, 6.5, 12.0).row_size
    alike = [f"{'the same beginning of all labels ' * 4}{i}" for i in range(2)]
    assert len(set(fitting.in_one_line(alike, 26))) == 2
    assert fitting.in_one_line(["abc", "abcdefghijkl"], 9) == ["abc", "abc...jkl"]
    assert fitting.wrap("a\nb\tc") == "a b c"
    assert fitting.wrap("") == " "
    lines = fitting.wrap("x" * 200).split("\n")
    assert [len(line) for line in lines] == [26, 26, 26]
    assert lines[-1].endswith("...")


def test_a_plot_of_very_many_groups_shows_the_first_ones() -> None:
    fields = {
        "formula": None,
        "model": "mean",
        "level": 0.95,
        "n_texts": 5000,
        "n_gold": 900,
        "grouped_by": ["id"],
        "rows": [
            {"outcome": "y", "term": "share", "group": f"g{i}", "method": "dsl"}
            | {"estimate": 0.5, "low": 0.4, "high": 0.6}
            for i in range(1000)
        ],
    }
    plot = intervals.estimates_plot(fields)
    assert plot.note == "the first 100 of 1,000 rows"
    assert len(plot.y.names) == len(values(plot)) == 100
    fitted = fitting.fit(plot)
    assert fitted.height <= 30
    assert fitted.row_size == 1
    terms = [row | {"term": f"x{i}", "group": ""} for i, row in enumerate(fields["rows"])]
    plot = intervals.estimates_plot({**fields, "formula": "y ~ g", "rows": terms})
    assert len(plot.panels) == 100
    assert plot.note == "the first 100 of 1,000 panels"


def test_a_narrow_plot_has_more_lines_and_fewer_columns(
    validation: lh.types.Validation,
) -> None:
    plot = plot_of(validation, "labels")
    wide, narrow = fitting.fit(plot, 6.5, 4.0), fitting.fit(plot, 3.0, 4.0)
    assert narrow.title.count("\n") > wide.title.count("\n")
    assert narrow.legend_columns < wide.legend_columns
    assert narrow.n_ticks < wide.n_ticks
    longest = max(len(line) for line in narrow.title.split("\n"))
    assert longest <= 24
    assert fitting.width_of("\u5206\u985e") == 4


def regression(n_terms: int, methods: Sequence[str]) -> description.Plot:
    fields = {
        "formula": "y ~ x",
        "model": "ols",
        "level": 0.95,
        "n_texts": 10,
        "n_gold": 5,
        "rows": [
            {"outcome": "y", "term": f"x{i}", "group": "", "method": method}
            | {"estimate": 1.0, "low": 0.0, "high": 2.0}
            for i in range(n_terms)
            for method in methods
        ],
    }
    return intervals.estimates_plot(fields)


def test_a_method_has_one_colour_and_symbol_in_all_plots() -> None:
    shares = plot_of(estimates()).series
    fit = regression(2, ("dsl", "gold", "naive")).series  # without ppi
    looks = [
        {name: (key.colour(i), key.symbol(i)) for i, name in enumerate(key.names)}
        for key in (shares, fit)
    ]
    assert len(set(looks[0].values())) == 4
    assert looks[1].items() <= looks[0].items()


def has_text(artist: Any, text: str) -> bool:
    return getattr(artist, "get_text", lambda: None)() == text


@pytest.mark.parametrize("n_terms", [1, 2, 5])
@pytest.mark.parametrize("n_methods", [1, 2, 3])
def test_titles_of_panels_lie_on_no_ticks(n_terms: int, n_methods: int) -> None:
    panels = panels_drawn(regression(n_terms, ("dsl", "gold", "naive")[:n_methods]))
    panels[0].figure.canvas.draw()
    for above, below in pairwise(panels):
        (title,) = below.findobj(partial(has_text, text=below.get_title(loc="left")))
        for tick in above.get_xticklabels():
            assert not overlaps(tick.get_window_extent(), title.get_window_extent())


def test_panels_are_side_by_side_where_they_are_too_low() -> None:
    plot = regression(9, ("dsl", "gold"))
    assert fitting.fit(plot, 6.5, 12.0).n_columns == 1
    low = fitting.fit(plot, 6.5, 3.6)
    assert low.n_columns > 1
    assert fitting.fit(plot).n_columns == 1  # as high as it has to be
    assert len(panels_drawn(plot)) == 9


def panels_drawn(plot: description.Plot) -> list[Any]:
    return list(drawing.draw(plot).child_axes)


def test_without_matplotlib_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(
        ImportError, match="plots need matplotlib, which is not installed"
    ):
        lh.plot(lh.Stats())


def test_axes_are_checked() -> None:
    with pytest.raises(lh.ArgumentTypeError, match="a kind of plot as kind=") as raised:
        lh.plot([], "confusion")  # type: ignore[arg-type]
    assert raised.value.argument == "ax"


def test_a_plot_lets_the_backend_of_a_notebook_stay_interactive(tmp_path: Path) -> None:
    # The backend of notebooks, matplotlib_inline, does this when pyplot chooses it, and
    # shows figures only as long as pyplot is interactive.
    backend = "from matplotlib.backends.backend_agg import *\nimport matplotlib\n"
    (tmp_path / "notebook_backend.py").write_text(
        f"{backend}matplotlib.interactive(True)"
    )
    code = (
        "import llamaherd as lh, matplotlib as mpl\n"
        "before = mpl.rcParams.copy()\n"
        "lh.plot([lh.krippendorff_alpha([['a', 'b'], ['a', 'b']])])\n"
        "assert mpl.is_interactive()\n"
        "assert mpl.get_backend() == 'module://notebook_backend', mpl.get_backend()\n"
        "changed = [k for k in before if before[k] != mpl.rcParams[k]]\n"
        "assert changed in ([], ['interactive']), changed\n"
    )
    here = {
        **os.environ,
        "MPLBACKEND": "module://notebook_backend",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
    }
    subprocess.run([sys.executable, "-c", code], check=True, env=here)
