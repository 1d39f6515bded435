"""Errors about arguments: fields for programs, a message for people."""

from __future__ import annotations

import errno
import json
import pickle
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd._r.boundary import boundary
from llamaherd._r.hosts import _of_argument, _of_cluster
from llamaherd.engine.core import checks, errors
from llamaherd.engine.core.argument import Argument, Field, Id
from llamaherd.engine.core.errors import (
    CANCELLED,
    Failure,
    SamplerError,
    codes_of,
    is_cancelled,
)

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTILE = ["a[1]", "prompts[0]", "['x']", "{name}", "{0}", "it's"]


@pytest.mark.parametrize(
    ("place", "python", "r", "dotted"),
    [
        ((), "it", "it", "it"),
        ((3,), "it[3]", "it[4]", "it[3]"),
        ((0, "role"), "it[0]['role']", 'it[[1]]["role"]', "it[0].role"),
        ((2, Field("label")), "it[2].label", "it[[3]]$label", "it[2].label"),
        ((Id(7),), "it[7]", 'it["7"]', "it[7]"),
        (("a[1]",), "it['a[1]']", 'it["a[1]"]', "it['a[1]']"),
        ((1, 2), "it[1][2]", "it[[2]][3]", "it[1][2]"),
    ],
)
def test_a_place_is_spelled_for_each_reader(
    place: tuple[int | str, ...], python: str, r: str, dotted: str
) -> None:
    where = Argument("it", place)
    assert str(where) == where.spelled() == python
    assert where.spelled_in_r() == r
    assert where.dotted() == dotted


def test_a_coded_example_is_a_row_of_a_data_frame_in_r() -> None:
    label, quote = Field("label"), Field("quote")
    assert Argument("examples", (2, label)).spelled_in_r() == "examples$label[3]"
    nested = Argument("examples", (0, label, 1, quote))
    assert nested.spelled_in_r() == "examples$label[[1]]$quote[2]"
    assert Argument("examples", (1,)).spelled_in_r() == "examples[2]"


def test_an_error_renders_its_own_message() -> None:
    error = lh.ArgumentError("must be at least 1, not 0", argument="n", place=(3,))
    assert str(error) == error.message == "n[3] must be at least 1, not 0"
    assert error.rendered(Argument.spelled_in_r) == "n[4] must be at least 1, not 0"
    assert (error.argument, error.place, error.code) == ("n", (3,), "invalid_value")
    assert str(error.moved(argument="m", place=())) == "m must be at least 1, not 0"
    in_file = error.moved(file="a.yaml", line=3)
    assert str(in_file) == "a.yaml, line 3: n[3] must be at least 1, not 0"
    assert str(lh.ArgumentError("there is no n")) == "there is no n"


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_users_stay_as_they_are(text: str) -> None:
    error = lh.ArgumentError(f"must not be {text}", argument="labels", place=(0, text))
    assert str(error) == f"labels[0][{text!r}] must not be {text}"
    message = error.rendered(Argument.spelled_in_r)
    assert message == f"labels[[1]][{json.dumps(text)}] must not be {text}"


@pytest.mark.parametrize("cls", [lh.ArgumentError, lh.ArgumentTypeError])
def test_an_error_travels_between_processes(cls: type[lh.BadArgumentError]) -> None:
    error = cls(
        "is {odd}",
        argument=Argument("labels", (1, Field("x"), Id(3))),
        code="odd",
        form="name of {name} {problem}",
        file="a",
        line=2,
    )
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is cls
    assert str(copied) == str(error) == "a, line 2: name of labels[1].x[3] is {odd}"
    assert vars(copied) == vars(error)
    assert [type(step) for step in copied.place] == [int, Field, Id]


def test_a_cause_is_kept() -> None:
    cause = KeyError("x")
    with pytest.raises(lh.ArgumentError) as caught:
        raise lh.ArgumentError("is wrong", argument="n") from cause
    assert caught.value.__cause__ is cause


def test_callers_catch_them_as_before() -> None:
    assert issubclass(lh.ArgumentError, ValueError)
    assert issubclass(lh.ArgumentTypeError, TypeError)
    assert not issubclass(lh.ArgumentError, TypeError)
    assert not issubclass(lh.ArgumentTypeError, ValueError)
    assert issubclass(lh.BadArgumentError, lh.LlamaHerdError)


@pytest.mark.parametrize(
    ("check", "value", "code", "place"),
    [
        (lambda n, v: checks.integer(n, v, 1), 0, "out_of_range", ()),
        (lambda n, v: checks.integer(n, v, 1), "a", "wrong_type", ()),
        (lambda n, v: checks.real(n, v, 0, 1), 2.0, "out_of_range", ()),
        (lambda n, v: checks.real(n, v, 0, 1), None, "wrong_type", ()),
        (checks.flag, 1, "wrong_type", ()),
        (checks.text, 1, "wrong_type", ()),
        (checks.text, "\ud800", "not_unicode", ()),
        (lambda n, v: checks.choice(n, v, ["a"]), "b", "unknown_choice", ()),
        (checks.some_texts, 1, "wrong_type", ()),
        (checks.some_texts, ["a", 1], "wrong_type", (1,)),
        (checks.some_texts, ["a", ""], "empty", (1,)),
        (checks.some_texts, ["a"] * 1025, "too_many", ()),
        (lambda n, v: checks.prompt_list(v, n), "a", "wrong_type", ()),
    ],
)
def test_checks_name_the_argument_and_a_code(
    check: Callable[[Any, object], object],
    value: object,
    code: str,
    place: tuple[int, ...],
) -> None:
    with pytest.raises(lh.BadArgumentError) as caught:
        check("it", value)
    assert caught.value.argument == "it"
    assert (caught.value.code, caught.value.place) == (code, place)


def test_checks_take_a_place() -> None:
    with pytest.raises(lh.ArgumentTypeError, match=r"^rows\[2\]\.n must be an integer"):
        checks.integer(Argument("rows").at(2, Field("n")), "a", 1)


def test_r_gets_fields_and_indices_from_one() -> None:
    @boundary
    def fails() -> None:
        raise lh.ArgumentError(
            "must not be 'a[1]'", argument="it", place=(0, "b[0]", Id(5)), code="odd"
        )

    status = fails()
    assert status["error_type"] == "ArgumentError"
    assert status["message"] == """`it[[1]][["b[0]"]]["5"]` must not be 'a[1]'"""
    assert (status["argument"], status["code"]) == ("it", "odd")
    assert status["place"] == [1, "b[0]", 5]


def test_a_failure_is_a_text_with_a_code() -> None:
    reason = Failure("the prompt has 9 tokens", "too_long")
    assert reason == "the prompt has 9 tokens"
    assert json.dumps([reason]) == '["the prompt has 9 tokens"]'
    copied = pickle.loads(pickle.dumps(reason))
    assert (copied, copied.code) == (reason, "too_long")
    codes = codes_of([reason, None, "of a library", CANCELLED])
    assert codes == ["too_long", None, "failed", "cancelled"]
    assert is_cancelled(CANCELLED)
    assert not is_cancelled(str(CANCELLED))  # a plain text is never parsed


def test_errors_of_clusters_and_samplers_travel_with_their_fields() -> None:
    cluster = lh.ClusterError(
        "there is no Ray at 'a'", code="no_cluster", argument="address", remedy=": None"
    )
    sampler = SamplerError("grammar cannot be parsed", 7, "grammar")
    for error in (cluster, sampler):
        copied = pickle.loads(pickle.dumps(error))
        assert (type(copied), str(copied)) == (type(error), str(error))
        assert vars(copied) == vars(error)
    assert str(cluster) == "address: there is no Ray at 'a': None"


def test_r_words_are_made_of_fields_and_not_of_messages() -> None:
    text = "address: x, or raise start_timeout_s"  # resembles a part of a message
    in_r = _of_cluster(lh.ClusterError(text, code="unreachable", argument="address"))
    assert str(in_r) == f"`cluster`: {text}"
    in_r = _of_cluster(lh.ClusterError("x", code="not_ready", remedy=", or raise y"))
    assert str(in_r) == "x"
    error = lh.ArgumentError(f"is {text!r}", argument="address", code="conflict")
    shutdown = 'reticulate::import("ray")$shutdown() first'
    assert str(_of_argument(error)) == f"cluster is {text!r}: {shutdown}"


def test_a_file_that_cannot_be_used_is_named_for_r(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "a.csv"

    @boundary
    def write(path: str) -> None:
        Path(path).write_text("x", encoding="utf-8")

    status = write(str(missing))
    assert (
        status["message"] == f"{str(missing)!r} cannot be used: No such file or directory"
    )
    assert status["error_type"] == "FileNotFoundError"
    assert f"relative to {str(Path.cwd())!r}" in write("none/a.csv")["message"]


def test_a_full_disk_is_named_for_r() -> None:
    @boundary
    def write() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/disk/a.csv")

    status = write()
    assert status["error_type"] == "OSError"
    expected = "'/disk/a.csv' cannot be used: No space left on device; free space"
    assert status["message"].startswith(expected)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1e-6, 1 - 1e-6, "above 0 and below 1"),
        (1e-6, 0.5, "above 0 and at most 0.5"),
        (0, 1, "between 0 and 1"),
        (0.5, 0.9999, "between 0.5 and 0.9999"),
    ],
)
def test_limits_next_to_0_and_1_are_open(low: float, high: float, words: str) -> None:
    with pytest.raises(lh.ArgumentError, match=f"must be {words}, not 95"):
        checks.real("level", 95, low, high)


def test_tracebacks_name_errors_as_programs_import_them() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    package_kinds = [kind for kind in kinds if kind.__module__.startswith("llamaherd")]
    public = [kind for kind in package_kinds if hasattr(lh, kind.__name__)]
    assert len(public) > 25
    for kind in public:
        assert kind.__module__ == "llamaherd"
    for kind in package_kinds:
        assert pickle.loads(pickle.dumps(kind)) is kind
    with pytest.raises(lh.ArgumentError) as caught:
        checks.real("level", 95, 0, 1)
    (line,) = traceback.format_exception_only(caught.value)
    assert line == "llamaherd.ArgumentError: level must be between 0 and 1, not 95\n"
