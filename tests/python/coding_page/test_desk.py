"""Codes of several coders: orders, ties, undo, and storage."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from coding_pages import TEXTS, TOPICS
from llamaherd.coding_page.desk import Desk
from llamaherd.coding_page.form import Form
from llamaherd.coding_page.sheet import make_sheet
from llamaherd.coding_page.views import overview
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from pathlib import Path


SPANS = lh.Codebook("Who?", {"a": "", "b": ""}, type="spans", max_spans=2)


def sheet_of(
    coders: Any = ("anna", "ben"), tie_coder: str | None = None, **more: Any
) -> Any:
    return make_sheet({"text": TEXTS}, TOPICS, coders, tie_coder, **more)


def test_orders_differ_by_coder_and_seed_and_are_the_same_each_time(
    tmp_path: Path,
) -> None:
    orders = []
    for seed in (1, 1, 2):
        sheet = sheet_of(seed=seed)
        with closing(Desk(sheet, tmp_path / "codes")) as desk:
            orders.append([tuple(desk.texts_of(coder)) for coder in ("anna", "ben")])
    assert orders[0] == orders[1]
    assert len({*orders[0], *orders[2]}) == 4
    assert all(sorted(order) == list(range(6)) for pair in orders for order in pair)


def test_skipped_texts_come_last(tmp_path: Path) -> None:
    with closing(Desk(sheet_of(), tmp_path / "codes")) as desk:
        first, second, *others = desk.texts_of("anna")
        assert desk.next_text("anna") == first
        desk.skip("anna", first)
        assert desk.next_text("anna", first) == second
        for i in (second, *others):
            desk.code("anna", i, "War")
        assert desk.next_text("anna", others[-1]) == first
        assert desk.next_text("anna", first) is None  # the shown text
        progress = desk.progress("anna")
        assert (progress.n_coded, progress.n_skipped) == (5, 1)
        desk.code("anna", first, "War")
        assert desk.next_text("anna") is None


def test_the_coder_of_ties_has_the_texts_on_which_others_disagree(
    tmp_path: Path,
) -> None:
    with closing(Desk(sheet_of(tie_coder="cleo"), tmp_path / "codes")) as desk:
        assert desk.texts_of("cleo") == []
        desk.code("anna", 1, "War")
        assert desk.texts_of("cleo") == []
        desk.code("ben", 1, "Money")
        desk.code("anna", 2, "War")
        desk.code("ben", 2, "War")
        assert desk.texts_of("cleo") == [1]
        with pytest.raises(ArgumentError, match="i must be the index of a text to code"):
            desk.code("cleo", 2, "War")
        desk.code("cleo", 1, "War")
        desk.code("ben", 1, "War")
        assert desk.texts_of("cleo") == [1]  # the tie coder's code is not lost
        desk.undo("cleo")
        assert desk.texts_of("cleo") == []


def test_ties_are_decided_once_for_each_act(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of the coder of ties does not check all texts for ties."""
    calls: list[Any] = []

    def counted(*args: Any) -> bool:
        calls.append(args)
        return is_tie(*args)

    is_tie = Form.is_tie
    monkeypatch.setattr(Form, "is_tie", counted)
    with closing(Desk(sheet_of(tie_coder="cleo"), tmp_path / "codes")) as desk:
        desk.code("anna", 1, "War")
        desk.code("ben", 1, "Money")
        desk.skip("ben", 2)
        assert desk.texts_of("cleo") == [1]
        assert len(calls) == 3
        assert desk.next_text("cleo") == 1
        assert desk.progress("cleo").n_texts == 1
        assert len(calls) == 3
        desk.undo("ben")
        desk.undo("ben")
        assert desk.texts_of("cleo") == []


def test_many_coders_are_compared_together_only(tmp_path: Path) -> None:
    coders = [f"c{i}" for i in range(11)]
    with closing(Desk(sheet_of(coders), tmp_path / "codes")) as desk:
        for coder in coders:
            desk.code(coder, 0, "War")
            desk.code(coder, 1, "Money")
        assert {part for part, _ in figures(desk)} == {"all coders"}


def test_undo_goes_back_act_by_act(tmp_path: Path) -> None:
    path = tmp_path / "codes"
    with closing(Desk(sheet_of(), path)) as desk:
        assert desk.undo("anna") is None
        desk.code("anna", 0, "War", "first")
        desk.code("anna", 1, "War")
        desk.code("anna", 0, "Money")
        desk.code("ben", 0, "Sports")
        assert desk.undo("anna") == 0
        assert desk.act("anna", 0).value == "War"
        assert desk.act("anna", 0).entry.act.note == "first"
        assert [desk.undo("anna"), desk.undo("anna"), desk.undo("anna")] == [1, 0, None]
        assert desk.values("anna") == [None] * 6
        assert desk.values("ben")[0] == "Sports"
    with sqlite3.connect(path) as db:  # no code is lost
        kinds = [row[0] for row in db.execute("SELECT kind FROM entry ORDER BY n")]
    db.close()
    assert kinds == ["code"] * 4 + ["undo"] * 3


def test_an_act_that_is_sent_again_is_stored_once(tmp_path: Path) -> None:
    with closing(Desk(sheet_of(), tmp_path / "codes")) as desk:
        for _ in range(3):
            desk.code("anna", 4, "War", "note", 2.5)
        desk.skip("anna", 5)
        desk.skip("anna", 5)
        assert len(desk.store.entries()) == 2


def test_two_processes_see_the_same_codes(tmp_path: Path) -> None:
    path = tmp_path / "codes"
    with (
        closing(Desk(sheet_of(), path)) as one,
        closing(Desk(sheet_of(), path)) as other,
    ):
        assert one.store.secret == other.store.secret
        one.code("anna", 3, "War")
        assert other.values("anna")[3] == "War"
        other.undo("anna")
        assert one.values("anna")[3] is None


def test_a_file_is_of_its_texts_and_labels(tmp_path: Path) -> None:
    path = tmp_path / "codes"
    with closing(Desk(sheet_of(), path)) as desk:
        desk.code("anna", 3, "War")
    assert path.stat().st_mode & 0o077 == 0  # the file contains the secret of the keys
    others = make_sheet({"text": ["x"]}, TOPICS, None, None)
    with (
        pytest.raises(ArgumentError, match="has codes of other texts"),
        closing(Desk(others, path)),
    ):
        pass
    fewer = make_sheet(
        {"text": TEXTS}, lh.Codebook("?", ["Sports", "Money"]), "anna", None
    )
    with pytest.raises(
        ArgumentError, match="does not fit the stored code 'War'"
    ) as caught:
        Desk(fewer, path)
    assert caught.value.argument == "codebook"
    words = lh.Codebook("New words?", {**TOPICS.labels, "Other": "New."})
    with closing(Desk(make_sheet({"text": TEXTS}, words, "anna", None), path)) as desk:
        assert desk.values("anna")[3] == "War"
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"no database, but long enough to be read as one " * 30)
    with pytest.raises(ArgumentError, match="cannot be used for codes"):
        Desk(sheet_of(), foreign)
    journal = tmp_path / "journal"
    with sqlite3.connect(journal) as db:
        db.execute("CREATE TABLE result (x)")
    db.close()
    with pytest.raises(ArgumentError, match="is an SQLite file, but has no codes"):
        Desk(sheet_of(), journal)


def test_a_page_that_shows_earlier_codes_stores_nothing(tmp_path: Path) -> None:
    """Two tabs of one coder: the stale one is told, in each order of acts."""
    with closing(Desk(sheet_of("anna"), tmp_path / "codes")) as desk:
        desk.code("anna", 0, "War", seen=0)
        first = desk.entry_of("anna", 0)
        desk.code("anna", 0, "War", seen=0)  # sent again, because no answer arrived
        assert desk.entry_of("anna", 0) == first == desk.last_entry_of("anna")
        n = len(desk.store.entries())
        stale: list[Any] = [
            lambda: desk.code("anna", 0, "Money", seen=0),
            lambda: desk.skip("anna", 0, seen=0),
            lambda: desk.code("anna", 1, "War", seen=first),
            lambda: desk.undo("anna", seen=0),
            lambda: desk.undo("anna", seen=first + 1),
        ]
        for act in stale:
            with pytest.raises(ArgumentError, match="not saved") as caught:
                act()
            assert caught.value.code == "changed"
        for wrong in (True, "1", [1]):
            with pytest.raises(ArgumentError, match="seen must be a number"):
                desk.code("anna", 0, "Money", seen=wrong)
        assert len(desk.store.entries()) == n
        desk.code("anna", 0, "Money", seen=first)
        with pytest.raises(ArgumentError, match="not saved"):  # undone in the other tab
            desk.undo("anna", seen=first)
        assert desk.undo("anna", seen=desk.last_entry_of("anna")) == 0
        assert desk.values("anna")[0] == "War"
        assert desk.undo("anna", seen=first) == 0
        assert desk.undo("anna", seen=0) is None


CRAFTED = {
    "trigger": (
        "CREATE TRIGGER t BEFORE INSERT ON entry BEGIN SELECT RAISE(IGNORE); END",
        "the trigger 't'",
    ),
    "view": ("CREATE VIEW v AS SELECT 1", "the view 'v'"),
    "index": ("CREATE INDEX i ON entry (abs(value))", "the index 'i'"),
    "table": ("CREATE TABLE more (a)", "its table 'more'"),
    "column": ("ALTER TABLE meta ADD COLUMN more TEXT", "its tables are not"),
    "later": ("PRAGMA user_version = 99", "it has format 99"),
    "earlier": ("PRAGMA user_version = 0", "it has format 0"),
    "other": ("PRAGMA application_id = 1", "of another program"),
    "no secret": ("UPDATE meta SET value = '' WHERE key = 'secret'", "secret.*damaged"),
    "short": ("UPDATE meta SET value = 'a' WHERE key = 'secret'", "secret.*damaged"),
    "code": ("UPDATE entry SET value = '{'", "a code in it is damaged"),
}


@pytest.mark.parametrize("kind", CRAFTED)
def test_a_crafted_file_of_codes_is_refused_and_left_as_it_is(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "codes"
    with closing(Desk(sheet_of(), path)) as desk:
        desk.code("anna", 0, "War")
    sql, message = CRAFTED[kind]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(sql)
    before = path.read_bytes()
    with pytest.raises(ArgumentError, match=message):
        Desk(sheet_of(), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["codes"]


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_only_the_owner_can_read_the_file_of_codes(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        path = tmp_path / "codes"
        for _ in range(2):
            with closing(Desk(sheet_of(), path)) as desk:
                desk.code("anna", 0, "War")
                assert [file.stat().st_mode & 0o77 for file in tmp_path.iterdir()] == [0]
            path.chmod(0o644)  # a copy
    finally:
        os.umask(umask)


@pytest.mark.parametrize(
    ("book", "value"),
    [
        (TOPICS, "sports"),
        (TOPICS, None),
        (TOPICS, ["War"]),
        (lh.Codebook("?", ["a", "b"], type="multiple"), "a"),
        (lh.Codebook("?", ["a", "b"], type="multiple"), ["c"]),
        (lh.Codebook("?", lh.number_scale(0, 3)), 2),
        (SPANS, [{"start": 0, "end": 0, "label": "a"}]),
        (SPANS, [{"start": 0, "end": 99, "label": "a"}]),
        (SPANS, [{"start": 0, "end": True, "label": "a"}]),
        (SPANS, [{"start": 0.0, "end": 2.0, "label": "a"}]),
        (SPANS, [{"start": 0, "end": 2, "label": "c"}]),
        (SPANS, [{"start": i, "end": 3, "label": "a"} for i in range(3)]),
        (SPANS, ["Text"]),
    ],
)
def test_a_value_that_is_no_code_is_refused(
    tmp_path: Path, book: lh.Codebook, value: Any
) -> None:
    sheet = make_sheet({"text": TEXTS}, book, "anna", None)
    with closing(Desk(sheet, tmp_path / "codes")) as desk:
        with pytest.raises(ArgumentError, match=r"^value must ") as caught:
            desk.code("anna", 0, value)
        assert caught.value.argument == "value"
        assert desk.store.entries() == []


@pytest.mark.parametrize("i", [-1, 6, True, "0", None, 1.0])
def test_only_texts_of_the_coder_can_be_coded(tmp_path: Path, i: Any) -> None:
    with (
        closing(Desk(sheet_of(), tmp_path / "codes")) as desk,
        pytest.raises(ArgumentError, match="i must be the index"),
    ):
        desk.code("anna", i, "War")


def test_notes_and_seconds_have_limits(tmp_path: Path) -> None:
    with closing(Desk(sheet_of(), tmp_path / "codes")) as desk:
        with pytest.raises(ArgumentError, match="note must have at most 10000"):
            desk.code("anna", 0, "War", "x" * 10_001)
        with pytest.raises(ArgumentTypeError, match="note must be"):
            desk.code("anna", 0, "War", 3)
        with pytest.raises(ArgumentError, match="note is not valid Unicode"):
            desk.code("anna", 0, "War", "\ud800")
        for seconds in (-1, 1e9, "2", True, None):
            desk.code("anna", 0, "War", "note", seconds)
        assert desk.act("anna", 0).entry.act.seconds is None


# ---- agreement ----


def figures(desk: Desk) -> dict[tuple[str, str], Any]:
    rows = overview(desk)["agreement"]
    return {(row["part"], row["measure"]): row["value"] for row in rows}


def test_agreement_of_labels_is_that_of_the_library(tmp_path: Path) -> None:
    with closing(Desk(sheet_of(("a", "b", "c")), tmp_path / "codes")) as desk:
        assert set(figures(desk).values()) == {None}
        codes = {"a": "SSMMW", "b": "SSMWW", "c": "SM"}
        names = {name[0]: name for name in TOPICS.names}
        for coder, letters in codes.items():
            for i, letter in enumerate(letters):
                desk.code(coder, i, names[letter])
        columns = [desk.values(coder) for coder in codes]
        measures = figures(desk)
        part = "all coders"
        assert measures[part, "percent agreement"] == float(lh.percent_agreement(columns))
        alpha = lh.krippendorff_alpha(columns, levels=TOPICS.names)
        assert measures[part, "Krippendorff's alpha"] == float(alpha)
        kappa = lh.cohen_kappa(*columns[:2], levels=TOPICS.names)
        assert measures["a and b", "Cohen's kappa"] == float(kappa)
        summary = overview(desk)["disagreements"]
        assert summary["n"] == 2
        assert summary["rows"][0]["codes"] == {"a": "Sports", "b": "Sports", "c": "Money"}


def test_labels_and_texts_that_differ_only_in_case_are_compared(tmp_path: Path) -> None:
    book = lh.Codebook("?", ["IT", "it", "other"])
    sheet = make_sheet({"text": TEXTS}, book, ("anna", "ben"), None)
    with closing(Desk(sheet, tmp_path / "codes")) as desk:
        for i, codes in enumerate([("IT", "IT"), ("IT", "it")]):
            for coder, code in zip(("anna", "ben"), codes, strict=True):
                desk.code(coder, i, code)
        assert figures(desk)["all coders", "percent agreement"] == 0.5


def test_agreement_of_other_types(tmp_path: Path) -> None:
    scale = lh.Codebook("?", lh.number_scale(0, 10))
    several = lh.Codebook("?", ["a", "b"], type="multiple")
    span = [{"start": 0, "end": 4, "label": "a"}]
    cases: list[tuple[lh.Codebook, Any]] = [
        (scale, [("1", "2"), ("9", "10")]),
        (several, [(["a"], ["a", "b"]), ([], [])]),
        (SPANS, [(span, span), ([], [])]),
    ]
    measures = {}
    for book, codes in cases:
        sheet = make_sheet({"text": TEXTS}, book, ("anna", "ben"), None)
        with closing(Desk(sheet, tmp_path / book.type)) as desk:
            for i, pair in enumerate(codes):
                for coder, value in zip(("anna", "ben"), pair, strict=True):
                    desk.code(coder, i, value)
            measures[book.type] = figures(desk)
    interval = lh.krippendorff_alpha([[1, 9], [2, 10]], scale="interval")
    alpha = measures["scale"]["all coders", "Krippendorff's alpha"]
    assert alpha == pytest.approx(float(interval))
    assert measures["multiple"]["all coders: a", "percent agreement"] == 1
    assert measures["multiple"]["all coders: b", "percent agreement"] == 0.5
    assert measures["spans"] == {("all coders", "unitizing alpha"): 1.0}
