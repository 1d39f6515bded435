"""Messages: terms of the caller's language, numbers with nouns, one warning a call."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd._r.boundary import boundary
from llamaherd.calls.run.job import Job
from llamaherd.cli.wording import COMMAND_LINE
from llamaherd.engine.core import checks, phrases
from llamaherd.engine.core.caller import (
    ListedWarning,
    notes_of,
    one_warning,
    warn_caller,
    warn_notes,
)
from llamaherd.engine.core.errors import BadArgumentError
from llamaherd.engine.core.phrases import count_of, part_of, percent, verb
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


@pytest.mark.parametrize(
    ("n", "what", "expected"),
    [
        (1, "text", "1 text"),
        (0, "text", "0 texts"),
        (1200, "coded text", "1,200 coded texts"),
        (1, "coded text", "1 coded text"),
        (2, "person", "2 people"),
        (3, "stratum", "3 strata"),
        (2, "entry", "2 entries"),
        (2, "day", "2 days"),
    ],
)
def test_nouns_follow_their_number(n: int, what: str, expected: str) -> None:
    assert count_of(n, what) == expected


def test_verbs_follow_their_number() -> None:
    assert [verb(n, "is", "are") for n in (0, 1, 2)] == ["are", "is", "are"]


@pytest.mark.parametrize(
    ("n", "whole", "expected"),
    [
        (0, 1, "0 of 1 text of it has"),
        (1, 20, "1 of 20 texts of it has"),
        (0, 20, "0 of 20 texts of it have"),
        (1200, 3000, "1,200 of 3,000 texts of it have"),
    ],
)
def test_verbs_follow_the_number_of_a_part(n: int, whole: int, expected: str) -> None:
    assert part_of(n, whole, "text", of="of it") == expected
    assert part_of(n, whole, "text") == expected.replace(" of it", "")


def test_a_confidence_level_is_not_rounded() -> None:
    """A level of 0.995 was printed as "100% confidence intervals", unlike in R."""
    written = [percent(level) for level in (0.5, 0.95, 0.975, 0.995, 0.9999)]
    assert written == ["50%", "95%", "97.5%", "99.5%", "99.99%"]
    agreement = lh.validate(["a", "b"] * 10, ["a", "b"] * 9 + ["b", "a"], level=0.995)
    assert "[99.5% confidence intervals" in repr(agreement)
    assert "97.5% confidence" in str(lh.gold_size(0.05, level=0.975))


ROOT = Path(__file__).resolve().parents[3]
REPOSITORY = "https://github.com/llamaherd/llamaherd"


def test_the_command_names_the_repository() -> None:
    """Also with extras and options."""
    assert phrases.install_command() == f'pip install "git+{REPOSITORY}"'
    extras = f'pip install -U "llamaherd[docx,plot] @ git+{REPOSITORY}"'
    assert phrases.install_command("docx", "plot", options="-U") == extras


def test_no_text_asks_an_index_for_llamaherd() -> None:
    """This includes sources, documents and help pages."""
    folders = ("python_core", "r_package", "docs", "capi_shim", "scripts", "examples")
    files = [ROOT / "README.md"]
    for folder in folders:
        files += [p for p in (ROOT / folder).rglob("*") if p.is_file()]
    kinds = {".py", ".R", ".Rd", ".Rmd", ".md", ".sh", ".cpp", ".hpp", ".toml"}
    pattern = re.compile(
        r"""pip3? install [^\n|`]*?(?<![\w/.+-])llamaherd(\[[\w,]+\])?"""
        r"""["'` .:)]*(?! ?@)(\s|$)"""
    )
    places = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        if path.suffix in kinds
        for line in path.read_text(encoding="utf-8").splitlines()
        if pattern.search(line)
    ]
    assert places == []


def test_it_is_read_from_disk_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server has it in each answer: reading takes as long as a short request."""
    version = importlib.metadata.version("llamaherd")
    assert lh.__version__ == version
    monkeypatch.setattr(importlib.metadata, "version", None)
    assert lh.__version__ == version


@one_warning()
def _several() -> int:
    """Return a number; warn."""
    warn_caller("a")
    warn_notes(["b", "c", "a"])
    warnings.warn("soon", FutureWarning, stacklevel=1)
    return 7


def test_all_notes_of_a_call_are_one_warning() -> None:
    with pytest.warns(FutureWarning, match="soon"), pytest.warns(ListedWarning) as caught:
        assert _several() == 7
    (warning,) = [record for record in caught if record.category is ListedWarning]
    assert str(warning.message) == "3 warnings:\n- a\n- b\n- c"
    assert notes_of(warning.message) == ("a", "b", "c")
    assert warning.filename == __file__


def test_one_note_is_the_warning_and_no_note_is_none() -> None:
    with pytest.warns(UserWarning, match="^a$") as caught:
        warn_notes(["a"])
    assert [record.category for record in caught] == [UserWarning]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_notes([])


def test_a_filter_for_one_note_removes_it_from_the_list() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "[ab]")
        warn_notes(["a", "b"])
        with pytest.raises(UserWarning, match=r"^c$"):
            warn_notes(["a", "b", "c"])


def test_warnings_before_an_error_are_issued() -> None:
    def failing() -> None:
        with one_warning():
            warn_caller("first")
            raise ValueError("then")

    with (
        pytest.warns(UserWarning, match="first"),
        pytest.raises(ValueError, match="then"),
    ):
        failing()
