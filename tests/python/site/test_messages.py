"""No code reads the text of a message: errors and failures have fields."""

from __future__ import annotations

from pathlib import Path

import pytest
from read_messages import read_in_cpp, read_in_python, read_in_r

ROOT = Path(__file__).parents[3]

# Texts of libraries without other information, and texts of cells, by file and
# function.
_ALLOWED = {
    ("calls/structured/enforce.py", "enforced"): "llguidance's only answer is a text",
    ("calls/structured/enforce.py", "_problem"): "llguidance's only answer is a text",
    (
        "engine/native/llguidance.py",
        "ignored_of_schema",
    ): "llguidance's only answer is a text",
    (
        "engine/native/request.py",
        "_regex_problem",
    ): "llguidance's only answer is a text",
    ("cli/main.py", "_run"): "Python says only in a text that no thread can start",
    ("calls/asks/constraints.py", "_with_text"): "a message of a chat",
    ("server/chats.py", "_message"): "a message of a chat",
    ("server/chats.py", "_content"): "a message of a chat",
    ("cli/conventions.py", "prepare_streams"): "a handler of errors, no message",
    ("calls/run/job.py", "new_problem"): "a warning is compared with the last one",
    ("coding/estimation/formulas.py", "_plain"): "formulaic's only answer is a "
    "text, whose further lines have colours",
    ("remote/client.py", "_hidden"): "a key is taken out of a message",
    ("remote/client.py", "_message"): "the answer of another server, as one line",
    (
        "engine/core/errors.py",
        "stored",
    ): "a cell of a table, not a message",
}
_ALLOWED_IN_CPP = {"constraint/llguidance.cpp": "llguidance's only answer is a text"}


def test_no_python_code_reads_messages() -> None:
    package = ROOT / "python_core" / "llamaherd"
    found = [
        (str(path.relative_to(package)), function, line)
        for path in sorted(package.rglob("*.py"))
        for line, function in read_in_python(path.read_text(encoding="utf-8"))
    ]
    assert [each for each in found if each[:2] not in _ALLOWED] == []
    assert {each[:2] for each in found} == set(_ALLOWED)  # no entry is out of date


def test_no_r_code_reads_messages() -> None:
    found = [
        (path.name, line)
        for path in sorted((ROOT / "r_package" / "R").glob("*.R"))
        for line in read_in_r(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_no_cpp_code_reads_messages() -> None:
    shim = ROOT / "capi_shim"
    found = {
        str(path.relative_to(shim))
        for path in sorted(shim.rglob("*"))
        if path.suffix in (".c", ".cpp", ".h", ".hpp")
        for _ in read_in_cpp(path.read_text(encoding="utf-8"))
    }
    assert found == set(_ALLOWED_IN_CPP)


@pytest.mark.parametrize(
    "line",
    [
        'if "locked" in str(error): pass',
        'if str(error).startswith("prompts"): pass',
        'if str(error).lower().startswith("prompts"): pass',
        'text = str(error).replace("prompts[0]", "prompt")',
        'text = f"{error}".replace("a", "b")',
        'if error.args[0] == "no": pass',
        'if error.args == ("no",): pass',
        "re.sub('x', 'y', str(error))",
        "_NAME.match(str(error))",
        'text = str(error)\n    if "no" in text: pass',
        'text = str(error)\n    re.search("no", text)',
        "if result.error == CANCELLED: pass",
        'if errors[3] != "not computed": pass',
        "if error not in (None, CANCELLED): pass",
        'if "no" in result.message.lower(): pass',
        'if problem.endswith("order"): pass',
        'if errors.get("0") != CANCELLED: pass',
    ],
)
def test_what_reads_a_message_is_found(line: str) -> None:
    source = f"try:\n    pass\nexcept OSError as error:\n    {line}\n"
    assert read_in_python(source), line
    named = source.replace("error", "failed")  # a caught exception may have any name
    if "str(failed)" in named:
        assert read_in_python(named), line


@pytest.mark.parametrize(
    "line",
    [
        'raise ValueError(f"x: {error}")',
        "problem = str(error)",
        "if not problem or error is None: pass",
        'if problem != "": pass',
        'if error.code == "too_long": pass',
        "if is_cancelled(error): pass",
        'if error.argument in ("a", "b"): pass',
        "lines = str(error).splitlines()",
        'if on_error == "stop": pass',
        'if message["role"] == "user": pass',
    ],
)
def test_fields_may_be_read(line: str) -> None:
    source = f"try:\n    pass\nexcept OSError as error:\n    {line}\n"
    assert not read_in_python(source), line


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        ('grepl("locked", conditionMessage(cnd))', True),
        ('errors <- sub("^the prompt", "the text", texts$problems)', True),
        ('startsWith(errors[failed], "not computed: ")', True),
        ('bad <- problems != "the prompt is NA"', True),
        ('if (cnd$message == "no") 1', True),
        ('if (message$role == "user") 1', False),
        ("errors[missing] <- problems[missing]", False),
        ("abort(conditionMessage(cnd))", False),
        ("# startsWith(errors, 'x')", False),
        ('startsWith(conditionMessage(cnd), "prompts")', True),
        ('regmatches(conditionMessage(e), regexpr("[0-9]+", conditionMessage(e)))', True),
        ('grepl(\n  "locked",\n  conditionMessage(cnd)\n)', True),
        ('said <- conditionMessage(cnd)\nif (grepl("no", said)) 1', True),
        ("said <- conditionMessage(cnd)\nabort(said)", False),
        ("switch(conditionMessage(cnd), no = 1)", True),
        ('substr(e$message, 1, 3) == "no "', True),
        ('cnd$message %in% c("a", "b")', True),
        ('grepl("x", text)\nabort(conditionMessage(cnd))', False),
        ('codes != "cancelled"', False),
    ],
)
def test_r_code_is_searched(line: str, *, is_read: bool) -> None:
    assert bool(list(read_in_r(line))) is is_read


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        ('if (strstr(e.what(), "locked")) return 1;', True),
        ('if (error->message.find("locked") != npos) return 1;', True),
        ('if (std::string(e.what()).rfind("no", 0) == 0) return 1;', True),
        ('if (strcmp(error.message, "no") == 0) return 1;', True),
        ('if (message == "no") return 1;', True),
        ("return set_error(error, e.code(), e.what());", False),
        ("if (message.empty()) return 0;", False),
        ('// if (message == "no")', False),
    ],
)
def test_cpp_code_is_searched(line: str, *, is_read: bool) -> None:
    assert bool(list(read_in_cpp(line))) is is_read
