"""Grammars and JSON of strangers, which are large, nested or hostile."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.coding.annotation.spans import spans_of_cell
from llamaherd.coding.reports.report_data import read_report
from llamaherd.coding.selection import comparison
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.hub.cache import list_ollama_models, note_of, note_path
from llamaherd.engine.hub.download import FileRequest
from llamaherd.optimize import fastest_files
from llamaherd.server.tools import ToolUse
from programs import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


NEVER = -math.inf
N_PREFIX = len(tiny_models.SPECIAL)  # byte b is token b + N_PREFIX


@pytest.fixture(scope="module")
def context(model: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(model, n_threads=1, deterministic=True) as context:
        yield context


def forced(text: str) -> SamplingParams:
    """Return settings that force the answer to be this text."""
    escaped = "".join(f"\\U{ord(character):08X}" for character in text)
    return SamplingParams(grammar=f'root ::= "{escaped}"', ignore_eos=True)


# ---- prompts --------------------------------------------------------------------------


_DOUBLING = "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1} r{i + 1}\n" for i in range(30))


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        ("root ::= missing", 'rule "missing" is not defined'),
        ('start ::= "a"', 'no rule "root"'),
        ('root ::= "a"\nroot ::= "b"', 'line 2: rule "root" is defined twice'),
        ('root ::= "a"{1000000000}', "more than 1000000 states"),
        ('root ::= (("a"{1,2000}){1,2000}){1,2000}', "more than 1000000 states"),
        ("root ::= " + "(" * 100_000 + '"a"' + ")" * 100_000, "nest more than 256 deep"),
        ("root ::= " + "(" * 100_000, "nest more than 256 deep"),
        ('root ::= "a"' + "?" * 100_000, "nests too deep"),
    ],
)
def test_grammars_that_explode_fail_alone(
    context: lh.Context, grammar: str, reason: str
) -> None:
    params = [SamplingParams(grammar=grammar), SamplingParams()]
    bad, good = lh.generate_parallel(context, ["a", "b"], params=params, max_tokens=3)
    assert bad.error.startswith("grammar cannot be parsed: ")
    assert reason in bad.error
    assert good.error is None


@pytest.mark.parametrize(
    ("grammar", "pattern"),
    [
        ("root ::= " + "(" * 256 + '"ab"' + ")" * 256, "ab"),
        ('root ::= "((((" [(()] # ((((' + "(" * 1000, r"\(\(\(\([()]"),
        # Rules that start with themselves, directly or after parts that may be empty.
        ('root ::= root "a" | "b"', "ba*"),
        ('root ::= b root "x" | "y"\nb ::= c\nc ::= ""', "yx*"),
        ('root ::= ("")* "a"', "a"),
        ('root ::= ("a" | "a" "a")*', "a*"),
        ('root ::= (("a"?)*)*', "a*"),
        # Very many possible starts, or parses of one text.
        ('root ::= ("a"?){0,2000} "b"', "a*b?"),
        (_DOUBLING + 'r30 ::= "a"?', "a*"),
        ('root ::= "a" root "b" | "a" root "c" | "d"', "a*d?[bc]*"),
        ("root ::= " + " | ".join(f'"label {i}"' for i in range(20_000)), r"label \d+"),
        (
            "root ::= r0\n"
            + "".join(f"r{i} ::= r{i + 1}\n" for i in range(50_000))
            + 'r50000 ::= "a"',
            "a",
        ),
    ],
)
def test_odd_grammars_work(context: lh.Context, grammar: str, pattern: str) -> None:
    params = SamplingParams(grammar=grammar)
    result = lh.generate(context, "a", params=params, max_tokens=40)
    assert result.error is None
    assert re.fullmatch(pattern, result.text)


@pytest.mark.parametrize(
    ("settings", "after"),
    [
        ({"grammar": "root ::= root"}, None),
        ({"grammar": "root ::= x\nx ::= root"}, None),
        ({"grammar": 'root ::= "ab" [^\\x01-\\U0010ffff]'}, "ab"),
        ({"grammar": 'root ::= "aab"', "logit_bias": {ord("b") + N_PREFIX: NEVER}}, "aa"),
        ({"choices": ["ub", "uc"], "logit_bias": {ord("u") + N_PREFIX: NEVER}}, " "),
    ],
)
def test_what_cannot_be_finished_fails_alone(
    context: lh.Context, settings: dict[str, object], after: str | None
) -> None:
    params = [SamplingParams(**settings), SamplingParams()]
    bad, good = lh.generate_parallel(context, ["a", "b"], params=params, max_tokens=9)
    assert (bad.text, bad.finish_reason, bad.complete) == (None, "error", False)
    (name,) = {"grammar", "choices"} & settings.keys()
    if after is None:
        assert bad.error == "grammar allows no text: no token may come first"
        assert bad.error.code == "constraint"
        with pytest.raises(lh.SamplerError, match="allows no text"):
            lh.generate(context, "a", params=params[0])
    else:
        assert bad.error.startswith(f'{name} cannot be finished after "{after}": no')
    assert good.error is None


def test_settings_that_forbid_every_token_and_the_end_fail(context: lh.Context) -> None:
    nothing = dict.fromkeys(range(context.model.n_vocab), NEVER)
    params = [SamplingParams(logit_bias=nothing), SamplingParams()]
    bad, good = lh.generate_parallel(context, ["a", "b"], params=params, max_tokens=3)
    assert bad.error == (
        'no token may come after "": logit_bias and ignore_eos forbid them all'
    )
    assert good.error is None


@pytest.mark.long(reason="many calls of a real model")
def test_a_grammar_with_too_many_ways_to_read_a_text_fails_alone(
    context: lh.Context,
) -> None:
    grammar = 'root ::= ("a"?){0,100000} "b"'
    only_a = SamplingParams(grammar=grammar, logit_bias={ord("b") + N_PREFIX: -100.0})
    params = [only_a, SamplingParams()]
    bad, good = lh.generate_parallel(context, ["a", "b"], params=params, max_tokens=60)
    assert bad.error == "grammar has too many ways to read the text so far"
    assert good.error is None


@pytest.mark.parametrize("name", ["grammar", "dry_breakers"])
def test_a_nul_that_would_cut_a_text_is_named(name: str) -> None:
    value = "root ::= \0" if name == "grammar" else ["a", "b\0"]
    with pytest.raises(ValueError, match=rf"{name}.* must not contain a NUL"):
        SamplingParams(**{name: value})


# ---- stop texts -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        (["cd", "bcd"], "a"),  # the stop text that starts first
        (["bcd", "cd"], "a"),
        (["abcdef", "c"], "ab"),
        (["\u00e9"], "abcdef"),
        (["\U0001f600"], "abcdef\u00e9"),
        (["\u00e9\U0001f600"], "abcdef"),
        (["f\u00e9"], "abcde"),
        (["a"], ""),
        (["abcdef\u00e9\U0001f600z"], ""),
        (["x" * 10_000_000, "e"], "abcd"),
        ([f"q{i}" for i in range(1023)] + ["de"], "abc"),
        ("", None),
        (["a", ""], None),
        (["\ud83d"], None),
        (["a"] * 1025, None),
    ],
)
def test_stop_texts(context: lh.Context, stop: str | list[str], text: str | None) -> None:
    settings = {"params": forced("abcdef\u00e9\U0001f600z"), "max_tokens": 20}
    if text is None:
        with pytest.raises(ValueError, match=r"stop(\[\d\])? (must|is not)"):
            lh.generate(context, "a", stop=stop, **settings)
        return
    result = lh.generate(context, "a", stop=stop, **settings)
    assert (result.text, result.finish_reason) == (text, "stop")


def test_a_limit_that_cuts_a_character_leaves_it_out(context: lh.Context) -> None:
    params = forced("a\U0001f600b")
    texts = [
        lh.generate(context, "a", params=params, max_tokens=n).text for n in range(1, 7)
    ]
    assert texts == ["a", "a", "a", "a", "a\U0001f600", "a\U0001f600b"]


# ---- a model that computes no numbers -------------------------------------------------


def test_what_a_broken_token_leaves_does_not_reach_others(tmp_path: Path) -> None:
    """Its keys and values are NaN, and their cells are used again.

    Flash attention skips masked cells. Without it, zero times NaN is NaN.
    """
    path = tiny_models.write(tmp_path / "broken.gguf", "llama", broken_token=N_PREFIX + 7)
    script = f"""
import llamaherd as lh
for options in ({{}}, {{"kv_layout": "unified", "n_ctx": 512}}):
    with lh.Context(lh.Model({str(path)!r}), n_seq_max=2, n_threads=1, **options) as c:
        prompts = ["good", "bad \\a bad", "bad \\a", "fine", "also", "a longer one, fine"]
        out = lh.generate_parallel(c, prompts, max_tokens=4, ignore_eos=True)
        print(*(result.finish_reason for result in out))
"""
    assert (
        ended(script).stdout.splitlines()
        == ["length error error length length length"] * 2
    )


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "read",
    [
        lh.Calibration.from_json,
        lh.types.CodebookChoice.from_json,
        lh.types.CodebookComparison.from_json,
        lh.GoldSample.from_json,
        spans_of_cell,
    ],
)
def test_texts_of_users_are_refused(read: Callable[[str], Any]) -> None:
    with pytest.raises(lh.ArgumentError):
        read(DEEP)


@pytest.mark.parametrize("read", [read_report, lh.read_spans])
def test_files_of_users_are_refused(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    path = tmp_path / "deep.json"
    path.write_text(DEEP)
    with pytest.raises(lh.ArgumentError, match=r"deep\.json"):
        read(path)


def test_damaged_records_count_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.touch()
    note_path(path).write_text(DEEP)
    assert note_of(path) == {}
    request = FileRequest(url="https://example.org/x", target=path, source="x")
    request.state_path.write_text(DEEP)
    assert request.state() == {}
    (tmp_path / fastest_files._RESULT).write_text(DEEP)
    assert fastest_files.look(path, tmp_path) is None


def test_damaged_times_count_as_a_file_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "run.journal.times.json"
    path.write_text(DEEP)
    assert comparison.stored_times(path) is None  # it is not replaced


def test_a_damaged_model_of_ollama_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = tmp_path / "manifests" / "registry.ollama.ai" / "library" / "x" / "latest"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(DEEP)
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    assert not [model for model in list_ollama_models() if model.name.startswith("x:")]


def test_an_answer_to_tools_is_then_text() -> None:
    use = ToolUse([], forced=("one", "two"))
    assert use._forced_calls(DEEP, "stop") == (DEEP, [], "tool_calls")
