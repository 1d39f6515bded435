"""Messages use the terms of the caller's language."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd._r.boundary import boundary
from llamaherd.calls.run.job import Job
from llamaherd.cli.wording import COMMAND_LINE
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import BadArgumentError
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.core.thinking import checked_thinking
from llamaherd.engine.core.words import PYTHON, R, call, setting, spoken_in, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_REST = "a number of tokens or a"
_TOGETHER = "cannot be given together: the constraint decides where an answer ends"
_DATA = {"text": ["a", "b", "c"], "label": ["x", "y", "x"]}
_SAMPLE = lh.gold_sample(_DATA, 2, seed=1)
# A call that fails, the message in Python, the message in R.
_CASES: list[tuple[Callable[[], object], str, str]] = [
    (
        lambda: checks.flag("chat", 1),
        "chat must be true or false, not 1 (int)",
        "`chat` must be TRUE or FALSE, not 1",
    ),
    (
        lambda: checks.text("system", None),
        "system must be a text, not None (NoneType)",
        "`system` must be a text, not NULL",
    ),
    (
        lambda: checks.integer("n", True, 1),
        "n must be an integer, not True (bool)",
        "`n` must be an integer, not TRUE",
    ),
    (
        lambda: checks.choice("scale", "nominl", ["nominal", "ordinal"]),
        "scale must be one of 'nominal', 'ordinal', not 'nominl' (str)",
        '`scale` must be one of "nominal", "ordinal", not "nominl"',
    ),
    (
        lambda: SamplingParams(choices=3),  # type: ignore[arg-type]
        "choices must be a list of texts, not 3 (int)",
        "`choices` must be a vector of texts, not 3",
    ),
    (
        lambda: SamplingParams(regex="a", min_tokens=2),
        f"min_tokens and regex {_TOGETHER}",
        f"`min_tokens` and `regex` {_TOGETHER}",
    ),
    (
        lambda: checks.some_texts("stop", {"a": 1}),
        "stop must be a text or a list of texts, not {'a': 1} (dict)",
        "`stop` must be a text or a vector of texts, not a named list of length 1",
    ),
    (
        lambda: lh.gold_size(compare=0.1, error=1),
        "error has no effect with compare: it is for measure='mae'",
        '`error` has no effect with `compare`: it is for `measure = "mae"`',
    ),
    (
        lambda: lh.validate({"label": ["a", "b"]}, [["a"]]),
        "gold must have a code, or None, for each of 2 texts, not 1 of 'coder 1'",
        '`gold` must have a code, or NA, for each of 2 texts, not 1 of "coder 1"',
    ),
    (
        lambda: lh.read_gold({"id": ["1"], "a": ["x"]}, _SAMPLE, coders=["b"]),
        "coders: the data frame has no column 'b' (str) for codes",
        '`coders`: the data frame has no column "b" for codes',
    ),
    (
        lambda: lh.estimate(_DATA, _SAMPLE, prob="simple"),
        "prob must not be given: gold has a design",
        "`prob` must not be given: `gold` has a design",
    ),
    (
        lambda: checked_thinking("thinking", "on"),
        f"thinking must be None, True, False, {_REST} Thinking, not 'on' (str)",
        f'`thinking` must be NULL, TRUE, FALSE, {_REST} thinking(), not "on"',
    ),
]


@pytest.mark.parametrize(("failing", "in_python", "in_r"), _CASES)
def test_messages_in_both_languages(
    failing: Callable[[], object], in_python: str, in_r: str
) -> None:
    with pytest.raises(BadArgumentError, match=f"^{re.escape(in_python)}$"):
        failing()
    assert boundary(failing)()["message"] == in_r


def _texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module with their lines, without docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docs:
            yield node.lineno, node.value


def test_functions_and_tables_in_messages_have_the_name_of_the_caller() -> None:
    package = Path(lh.__file__).parent
    names = "|".join(name for name in lh.__all__ if name.islower())
    # "llamaherd::f()" and "f() of Python" name the language.
    named = re.compile(
        rf"(?<!::)\b({names})\(\)(?! (and [a-z_]+\(\) )?(of|in) Python)|\bdata frame\b"
    )
    apart = {"words.py", "openapi.py", "data.py"}  # terms; documents; batches of Ray
    places = [
        f"{file.relative_to(package)}:{line}: {text}"
        for file in sorted(package.rglob("*.py"))
        if "_r" not in file.parts and file.name not in apart
        if named.search(file.read_text(encoding="utf-8"))  # parsing is slow
        for line, text in _texts(file)
        if named.search(text)
    ]
    assert places == []


def test_functions_have_the_name_of_the_caller() -> None:
    assert call("annotate") == "annotate()"
    with spoken_in(R):
        assert call("annotate") == "annotate_texts()"
        assert call("validate") == "validate()"
    with spoken_in(COMMAND_LINE):
        assert call("best_codebook") == "`llamaherd codebooks best`"
        assert call("validate") == "`llamaherd validate`"
        assert call("report") == "report() of Python or R"


def test_settings_have_the_form_of_a_call() -> None:
    assert setting("chat", True) == "chat=True"
    assert setting("type", "fields") == "type='fields'"
    with spoken_in(R):
        assert setting("chat", True) == "`chat = TRUE`"
        assert setting("journal", None) == "`journal = NULL`"
        assert setting("type", "fields") == '`type = "fields"`'
        assert setting("n_ubatch", 512) == "`n_ubatch = 512`"
    assert words() is PYTHON


class _Failing:
    progress: Any = None
    problem = ""

    def cancel(self) -> None:
        pass

    def run(self) -> object:
        return checks.flag("chat", 1)


def test_a_job_has_the_words_of_its_start() -> None:
    with spoken_in(R):
        job = Job(_Failing())
    with pytest.raises(BadArgumentError, match=r"^chat must be TRUE or FALSE, not 1$"):
        job.results()
