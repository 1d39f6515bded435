"""Tests of plots: their content, and that no texts overlap."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import matplotlib as mpl
import numpy as np
import pytest
from llamaherd.core.stats import RequestStats
from llamaherd.research.reports import (
    drawing,
    picture_parts,
    pictures,
    shapes,
    validation_pictures,
)
from llamaherd.research.reports.plots import picture_of
from llamaherd.research.reports.report_data import label_summary
from llamaherd.research.statistics.coefficients import COEFFICIENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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
def coded(tiny_path: Callable[[str], Path]) -> lh.Coded:
    texts = [f"text {i}" for i in range(60)]
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        made = lh.annotate({"text": texts}, "text", BOOK, context)
    rng = np.random.default_rng(1)
    probs = rng.dirichlet([0.4] * 4, 60)
    labels: list[str | None] = [NAMES[i] for i in probs.argmax(axis=1)]
    labels[3] = None
    frame = {**made.frame, "label": labels}
    return dataclasses.replace(made, frame=frame, probs=probs, labels=labels)


@pytest.fixture(scope="module")
def validation(coded: lh.Coded) -> lh.Validation:
    rng = np.random.default_rng(2)
    codes = [[str(rng.choice(NAMES)) for _ in coded.labels] for _ in range(2)]
    codes[0][:30] = [label or "no" for label in coded.labels[:30]]
    return lh.validate(coded, {"Ann": codes[0], "Ben": codes[1]}, n_bootstrap=50)


def classes() -> lh.ClassifyResults:
    probs = np.array([[0.95, 0.02, 0.02, 0.01], [0.1, 0.6, 0.2, 0.1], [np.nan] * 4])
    return lh.ClassifyResults(
        names=NAMES,
        probs=probs,
        logprobs=np.log(probs),
        normalize="sum",
        errors=[None, None, "failed"],
        finish_reasons=["stop", "stop", "error"],
        stats=lh.Stats(),
    )


def estimates() -> lh.Estimates:
    from llamaherd.research.estimation.estimates import METHODS, Estimate  # noqa: PLC0415

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
    return lh.Estimates(
        rows=rows,
        model="mean",
        formula=None,
        level=0.95,
        target="population",
        n_texts=1000,
        n_gold=100,
        design="simple",
    )


def robustness(coded: lh.Coded, n: int = 9) -> lh.Robustness:
    from llamaherd.research.coding.variants import Variant  # noqa: PLC0415
    from llamaherd.research.estimation.robustness_result import compared  # noqa: PLC0415

    rng = np.random.default_rng(3)
    labels = [[str(rng.choice(NAMES)) for _ in coded.labels] for _ in range(n)]
    variants = [Variant(name=f"{LONG} {i}", codebook=BOOK) for i in range(n)]
    return compared(variants, labels, list(range(60)), [{} for _ in range(n)])


def results(n: int) -> lh.Results:
    made = [
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
    return lh.Results(made, lh.Stats(n_slots=8, n_prompts=n, wall_s=9.0, prefill_s=2.0))


def everything(
    coded: lh.Coded, validation: lh.Validation
) -> list[tuple[Any, str | None]]:
    kinds = ("measures", "labels", "confusion", "calibration", "coverage")
    made = results(100)
    return [
        (coded, None),
        (classes(), None),
        *((validation, kind) for kind in kinds),
        (estimates(), None),
        (robustness(coded), None),
        (dataclasses.replace(robustness(coded, 3), estimates=(estimates(),) * 3), None),
        (made, None),
        (made.stats, None),
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
    coded: lh.Coded, validation: lh.Validation
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
            each
            for each in named
            if each.get_visible()
            and (not hasattr(each, "get_rotation") or each.get_rotation() in (0, 90))
        ]
        boxes = [each.get_window_extent(renderer) for each in straight]
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
    ax = lh.plot(coded)
    widths = np.zeros(len(NAMES))
    for container in ax.containers:
        widths += [bar.get_width() for bar in container]
    assert widths.tolist() == [coded.labels.count(name) for name in NAMES]
    assert ax.get_yticklabels()[0].get_text() == "no"
    assert ax.get_xlabel() == "number of texts"


def test_labels_of_prompts_are_counted_as_those_of_texts() -> None:
    picture = picture_of(classes())
    assert isinstance(picture, shapes.Bars)
    # Empty classes keep their shades, so that the shades of other classes do not change.
    assert [name for name, _ in picture.parts] == [
        "0.9 to 1",
        "0.7 to 0.9",
        "0.5 to 0.7",
        "below 0.5",
    ]
    assert picture.parts[0][1] == [1, 0, 0, 0]
    assert picture.parts[2][1] == [0, 1, 0, 0]
    assert picture.notes == ["1 (50%)", "1 (50%)", "0 (0%)", "0 (0%)"]
    assert picture.words.title == "Labels of 2 of 3 prompts"  # as in the shares


def test_a_call_that_scores_has_a_timeline(tiny_path: Callable[[str], Path]) -> None:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model, n_seq_max=2) as context:
        found = lh.classify_parallel(context, ["a", "b c", "d"], ["x", "y"])
    assert len(found.requests) == 3
    picture = picture_of(found, "time")
    assert isinstance(picture, shapes.Timeline)
    assert len(picture.end_s) == 3
    assert picture.first_s == picture.end_s  # no answer is generated
    assert picture.words.title == "3 prompts in 2 slots"
    with pytest.raises(ValueError, match="no prompt that ran"):
        lh.plot(classes(), kind="time")


def test_points_and_intervals_are_those_of_the_validation(
    validation: lh.Validation,
) -> None:
    picture = picture_of(validation)
    assert isinstance(picture, shapes.Forest)
    of = validation.accuracy
    first = picture.points[0]
    assert picture.rows[first.row] == "accuracy"
    assert (first.value, first.low, first.high) == (
        of.accuracy.value,
        of.accuracy.low,
        of.accuracy.high,
    )
    people = {a.name: a.value for a in validation.coder_agreement}
    found = {
        picture.rows[p.row]: p.value
        for p in picture.points
        if picture.series[p.series] == "between people"
    }
    titles = {name: coefficient.title for name, coefficient in COEFFICIENTS.items()}
    assert found == {titles[name]: value for name, value in people.items()}
    # The baseline is shown with accuracy, not with kappa and alpha.
    base = picture.points[-1]
    assert picture.rows[base.row] == "accuracy"
    majority = picture_parts.cut(str(of.majority_label), 40)
    assert picture.series[base.series] == f"always '{majority}'"
    assert base.value == of.majority_accuracy.value
    assert "95% interval" in picture.words.x


def test_each_coefficient_has_an_axis_of_its_own() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(1000, 100, 400)
    code = rng.random(400) < 0.4
    data = {"label": code.astype(int).tolist(), "x": x.tolist()}
    gold = [int(c) if i % 3 == 0 else None for i, c in enumerate(code)]
    fit = lh.estimate(data, gold, "label ~ x", prob="simple")
    picture = picture_of(fit)
    assert isinstance(picture, shapes.Panels)
    assert picture.panels == ["Intercept", "x"]
    assert len(picture.points) == 2 * len(fit.methods)
    ax = lh.plot(fit)
    inner = ax.child_axes
    assert [one.get_title(loc="left") for one in inner] == picture.panels
    low, high = inner[1].get_xlim()
    assert high - low < 0.1  # the axis of the intercept is wider than 0.1
    below, above = inner[0].get_xlim()
    assert above - below > 0.1
    names = [label.get_text() for label in inner[0].get_yticklabels()]
    assert names == picture.series


def test_the_confusion_table_is_drawn(validation: lh.Validation) -> None:
    ax = lh.plot(validation, kind="confusion")
    said = [int(text.get_text().replace(",", "")) for text in ax.texts]
    assert said == validation.accuracy.confusion.ravel().tolist()


def test_a_timeline_is_in_order_and_complete() -> None:
    picture = picture_of(results(30))
    assert isinstance(picture, shapes.Timeline)
    assert picture.waited_s == sorted(picture.waited_s)
    pairs = zip(picture.waited_s, picture.first_s, picture.end_s, strict=True)
    assert all(a <= b <= c for a, b, c in pairs)
    assert len(picture.end_s) == 30
    assert picture.words.title == "30 prompts in 8 slots"


def test_draws_on_axes_that_are_given(coded: lh.Coded, validation: lh.Validation) -> None:
    for x, kind in everything(coded, validation):
        figure, ax = plt.subplots()
        assert lh.plot(x, ax, kind=kind) is ax
        assert figure.legends == []


def test_labels_are_no_mathematics(coded: lh.Coded) -> None:
    ax = lh.plot(coded)
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())


def test_a_page_gets_shapes_and_texts(validation: lh.Validation) -> None:
    svg = drawing.svg_of(picture_of(validation, "confusion"), "name")
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


def test_kinds_that_there_are_not(validation: lh.Validation) -> None:
    with pytest.raises(ValueError, match="kind must be one of"):
        lh.plot(validation, kind="all")
    found = lh.validate(["a", "b"], ["a", "a"], n_bootstrap=0)
    for kind in ("calibration", "coverage"):
        with pytest.raises(ValueError, match="needs the probabilities"):
            lh.plot(found, kind=kind)


def test_numbers_that_are_none_are_left_out() -> None:
    found = lh.validate(["a", "b", "a"], ["a", "c", "a"], n_bootstrap=0)
    ax = lh.plot(found, kind="labels")
    assert not math.isnan(sum(ax.get_xlim()))


@pytest.mark.parametrize("kind", ["measures", "labels", "confusion", "calibration"])
@pytest.mark.parametrize("names", [(1, 2), (1.5, 2.5), (True, False)], ids=str)
def test_labels_that_are_not_text_are_plotted(kind: str, names: tuple[Any, Any]) -> None:
    labels = [*names, *names, names[0]] * 4
    codes = [names[0], *labels[1:]]
    found = lh.validate(labels, codes, prob=[0.8] * 20, n_bootstrap=0)
    assert lh.plot(found, kind=kind).figure is not None


def test_shades_of_a_confusion_matrix_have_a_legend(validation: lh.Validation) -> None:
    figure = lh.plot(validation, kind="confusion").figure
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "share of the texts with this label"
    assert [text.get_text() for text in legend.get_texts()][::4] == ["0%", "100%"]


def test_titles_count_in_english() -> None:
    summary = [{"label": "a", "n": 1, "n_labelled": 1, "share": 1.0, "bands": None}]
    assert pictures.labels_picture(summary, 1).words.title == "Labels of 1 text"
    assert pictures.labels_picture(summary, 1200, "prompts").words.title == (
        "Labels of 1 of 1,200 prompts"
    )
    nothing = [{"label": "a", "n": 0, "n_labelled": 0, "share": None, "bands": None}]
    assert pictures.labels_picture(nothing, 9).words.title == "Labels of 0 of 9 texts"
    names = ("n_prompts", "n_prefill_tokens", "n_decode_tokens", "prefill_s", "decode_s")
    rates = ("prefill_tokens_per_s", "decode_tokens_per_s", "wall_s")
    fields = dict.fromkeys((*names, *rates), 1)
    assert pictures.time_picture(fields).words.title == "1 prompt in 1.0 s"


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
    assert pictures.labels_picture(summary, 3).words.title == title


def test_the_title_has_the_texts_that_were_used() -> None:
    told = lh.validate(["a", None] * 10, ["a", "b"] * 10).to_dict()
    title = validation_pictures.measures_picture(told).words.title
    assert title.endswith("(20 texts; accuracy: 10)")


def test_variants_with_equal_shares_do_not_cover_each_other() -> None:
    told = {
        "variants": ["one", "two"],
        "names": ["a"],
        "shares": [[0.5], [0.5]],
        "flips": [0.0, 0.0],
        "n_texts": 10,
    }
    ax = drawing.draw(pictures.robustness_picture(told))
    heights = {float(c.lines[0].get_ydata()[0]) for c in ax.containers}
    assert len(heights) == 2


def test_coefficients_are_shown_with_their_intervals() -> None:
    codes = [["a", "b", "a", "a", "b", "a"], ["a", "b", "b", "a", "b", "b"]]
    found = [
        lh.percent_agreement(codes),
        lh.cohen_kappa(*codes),
        lh.krippendorff_alpha(codes, n_bootstrap=50),
    ]
    picture = picture_of(found)
    assert isinstance(picture, shapes.Forest)
    assert picture.rows == [COEFFICIENTS[each.name].title for each in found]
    assert [p.value for p in picture.points] == [each.value for each in found]
    assert picture.words.title == "Agreement of 2 coders on 6 units"
    assert lh.plot(found[1]).get_xlabel() == "value, with interval"
    with pytest.raises(TypeError, match="must be a Coded"):
        lh.plot([found[0], 1])


def test_a_coverage_curve_is_drawn_by_itself_as_it_is_of_a_validation(
    validation: lh.Validation,
) -> None:
    assert validation.coverage is not None
    alone, part = picture_of(validation.coverage), picture_of(validation, "coverage")
    assert isinstance(alone, shapes.Curve)
    assert isinstance(part, shapes.Curve)
    assert (alone.y, alone.limits) == (part.y, part.limits)
    none = dataclasses.replace(
        validation.coverage,
        **dict.fromkeys(
            ("threshold", "coverage", "accuracy", "low", "high"), np.zeros(0)
        ),
    )
    with pytest.raises(ValueError, match="no coded texts"):
        picture_of(none)


def test_names_of_variants_are_short_and_different() -> None:
    names = [f"{LONG} {i}" for i in range(3)]
    made = picture_parts.short([*names, "own", "own"], 30)
    assert len(set(made)) == 5
    assert max(map(len, made)) <= 30
    assert made[3:] == ["own", "own (2)"]
    assert picture_parts.short(["x" * 70]) == ["x" * 37 + "..."]


@pytest.mark.parametrize(
    ("values", "is_share", "limits"),
    [
        ([0.2, 0.9], True, (0.0, 1.0)),
        ([0.2, 0.4], True, (0.0, 0.4 * 1.1)),
        ([-0.1, 0.3], True, (-0.1, 0.3 * 1.1)),
        ([3.0, 40.0], False, (3.0, 40.0)),
        ([0.0], True, (0.0, 1.0)),
        ([math.nan], True, None),
    ],
)
def test_the_range_of_an_axis(
    values: list[float], is_share: bool, limits: tuple[float, float] | None
) -> None:
    points = [
        shapes.Point(row=0, series=0, value=value, low=math.nan, high=math.nan)
        for value in values
    ]
    picture = shapes.Forest(
        words=shapes.Words(title="", x=""),
        rows=["a"],
        series=["b"],
        points=points,
        is_share=is_share,
    )
    assert picture.limits == limits
    drawing.draw(picture)


def test_rows_without_counts_have_no_shares() -> None:
    picture = shapes.Matrix(
        words=shapes.Words(title="", x=""),
        legend="",
        rows=["a", "b"],
        columns=["a", "b"],
        counts=[[3, 1], [0, 0]],
    )
    assert picture.shares == [[0.75, 0.25], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([], []),
        ([2.0], [2.0]),
        ([1.0, 5.0, 3.0], [1.0, 5.0, 3.0]),
        ([1.0, 1.0], [0.5, 1.5]),
        ([3.0, 1.0, 1.0, 1.0], [3.0, 0.0, 1.0, 2.0]),
        ([1.0, 1.2, 9.0], [0.6, 1.6, 9.0]),
    ],
)
def test_points_that_would_cover_each_other_move_apart(
    x: list[float], expected: list[float]
) -> None:
    assert picture_parts.apart(x, 1.0) == pytest.approx(expected)


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
        "lh.plot([lh.krippendorff_alpha([['a', 'b'], ['a', 'b']], n_bootstrap=0)])\n"
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
