"""Messages that users see."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


# Names of variables, arguments and attributes that hold an exception or a message.
_ERRORS = re.compile(r"(^|_)((?<!on_)error|exception|exc|err|cnd)$")
_TEXTS = re.compile(r"(^|_)(message|problem|problems|(?<!on_)error|errors|why)$")
_SAME = {"lower", "upper", "casefold", "strip", "lstrip", "rstrip", "get"}
_READS = frozenset(
    (
        *("startswith", "endswith", "find", "rfind", "index", "rindex", "count"),
        *("replace", "partition", "rpartition", "split", "rsplit", "translate"),
        *("removeprefix", "removesuffix"),
    )
)
_PATTERNS = {
    "search",
    "match",
    "fullmatch",
    "findall",
    "finditer",
    "sub",
    "subn",
    "split",
}


class _Reader(ast.NodeVisitor):
    """Collects the lines of one function, or of a module, that read messages."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []
        self._caught: set[str] = set()
        self._texts: set[str] = set()
        self._where = ["<module>"]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer = self._caught, self._texts
        self._caught, self._texts = set(self._caught), set(self._texts)
        self._where.append(node.name)
        self.generic_visit(node)
        self._where.pop()
        self._caught, self._texts = outer

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._caught.add(node.name)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        if self._is_text(node.value):
            self._texts |= {t.id for t in node.targets if isinstance(t, ast.Name)}

    def visit_Compare(self, node: ast.Compare) -> None:
        self.generic_visit(node)
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, (ast.In, ast.NotIn)):
                is_read = (self._is_text(right) and not _is_no(left)) or (
                    self._is_text(left) and isinstance(right, (ast.Tuple, ast.List))
                )
            elif isinstance(operator, (ast.Eq, ast.NotEq)):
                sides = (left, right)
                is_read = any(map(self._is_text, sides)) and not any(map(_is_no, sides))
            else:
                is_read = False
            if is_read:
                self._found(node)
            left = right

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute):
            return
        name, of = node.func.attr, node.func.value
        is_read = name in _READS and self._is_text(of)
        if name in _PATTERNS and not self._is_text(of):
            is_read = is_read or any(map(self._is_text, node.args))
        if is_read:
            self._found(node)

    def _found(self, node: ast.expr) -> None:
        self.lines.append((node.lineno, self._where[-1]))

    def _is_error(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._caught or bool(_ERRORS.search(node.id))
        return isinstance(node, ast.Attribute) and bool(_ERRORS.search(node.attr))

    def _is_text(self, node: ast.expr) -> bool:
        """Return whether an expression is a message or a part of a message."""
        if isinstance(node, ast.Name):
            return node.id in self._texts or bool(_TEXTS.search(node.id))
        if isinstance(node, ast.Attribute):
            is_args = node.attr == "args" and self._is_error(node.value)
            return is_args or bool(_TEXTS.search(node.attr))
        if isinstance(node, ast.JoinedStr):
            parts = [p.value for p in node.values if isinstance(p, ast.FormattedValue)]
            return any(self._is_text(p) or self._is_error(p) for p in parts)
        if isinstance(node, ast.Call):
            return self._is_made_of_text(node)
        # A mapping may have this name: message["role"].
        is_part = isinstance(node, ast.Subscript) and not _is_key(node.slice)
        return is_part and self._is_text(node.value)  # type: ignore[attr-defined]

    def _is_made_of_text(self, node: ast.Call) -> bool:
        if isinstance(node.func, ast.Name) and node.func.id in ("str", "repr"):
            return any(self._is_error(a) or self._is_text(a) for a in node.args)
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _SAME:
            return False
        return self._is_text(node.func.value)


def _is_key(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_no(node: ast.expr) -> bool:
    """Return whether a node is None or "": a comparison with these reads no message."""
    return isinstance(node, ast.Constant) and not node.value


def read_in_python(source: str) -> list[tuple[int, str]]:
    """Return the lines that read messages, each with the name of its function."""
    reader = _Reader()
    reader.visit(ast.parse(source))
    return reader.lines


_R_TEXT = r"(conditionMessage\(|\b(cnd|e|err|error)\$message\b|\b(problem|error)s\b)"
_R_CALL = re.compile(
    r"\b(a?grepl?|g?sub|g?regexpr|gregexec|regmatches|regexec|startsWith|endsWith|substr"
    r"|substring|strsplit|switch|match|identical|str_\w+|stri_\w+)\("
)
_R_COMPARED = re.compile(
    rf"{_R_TEXT}[^#,(\n]*([!=]= ?\"[^\"]|%in% )|\"[^\"\n]+\" ?[!=]= ?{_R_TEXT}"
)
_R_KEPT = re.compile(
    r"\b([\w.]+) <- (?:conditionMessage\(|(?:cnd|e|err|error)\$message\b)"
)
_C_TEXT = re.compile(r"what\(\)|[\w.>-]*\b(message|reason|problem)\b(\(\))?")
_C_READ = re.compile(
    rf"\b(strstr|strn?cmp|regex_(search|match))\([^;]*({_C_TEXT.pattern})"
    rf"|({_C_TEXT.pattern})\)?\.(r?find|compare|starts_with|find_first_of)\("
    rf"|({_C_TEXT.pattern}) ?[!=]= ?\"[^\"]"
)


def _arguments(source: str, start: int) -> str:
    """Return the text of a call's arguments, after the opening parenthesis."""
    depth = 1
    for end in range(start, len(source)):
        depth += {"(": 1, ")": -1}.get(source[end], 0)
        if depth == 0:
            return source[start:end]
    return source[start:]


def _uncommented(source: str, mark: str) -> str:
    """Return code in which comment lines are empty."""
    return "\n".join(
        "" if line.lstrip().startswith(mark) else line for line in source.splitlines()
    )


def read_in_r(source: str) -> Iterator[int]:
    """Yield the lines that read messages."""
    code = _uncommented(source, "#")
    kept = "|".join(rf"\b{re.escape(name)}\b" for name in _R_KEPT.findall(code))
    text = re.compile(f"{_R_TEXT}|{kept}" if kept else _R_TEXT)
    starts = {match.start() for match in _R_COMPARED.finditer(code)}
    starts |= {
        call.start()
        for call in _R_CALL.finditer(code)
        if text.search(_arguments(code, call.end()))
    }
    yield from sorted({code.count("\n", 0, at) + 1 for at in starts})


def read_in_cpp(source: str) -> Iterator[int]:
    """Yield the lines that read messages."""
    code = _uncommented(source, "//")
    for match in _C_READ.finditer(code):
        yield code.count("\n", 0, match.start()) + 1


ROOT = Path(__file__).parents[3]

# Texts of libraries without other information, and texts of cells, by file and
# function.
_ALLOWED = {
    (
        "calls/structured/enforce.py",
        "enforceable_part",
    ): "llguidance's only answer is a text",
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
    ("calls/asks/rendering.py", "_with_text"): "a message of a chat",
    ("server/chats.py", "_message"): "a message of a chat",
    ("server/chats.py", "_message_text"): "a message of a chat",
    ("cli/conventions.py", "prepare_streams"): "a handler of errors, no message",
    ("calls/run/job.py", "new_problem"): "a warning is compared with the last one",
    ("coding/estimation/formulas.py", "_plain"): "formulaic's only answer is a "
    "text, whose further lines have colours",
    ("remote/client.py", "_hidden"): "a key is taken out of a message",
    ("remote/client.py", "_message"): "the answer of another server, as one line",
    (
        "engine/core/errors.py",
        "stored_error",
    ): "a cell of a table, not a message",
}
_ALLOWED_IN_CPP = {"constraint/llguidance.cpp": "llguidance's only answer is a text"}


def test_no_python_code_reads_messages() -> None:
    package = ROOT / "python_core" / "llamaherd"
    uses = [
        (str(path.relative_to(package)), function, line)
        for path in sorted(package.rglob("*.py"))
        for line, function in read_in_python(path.read_text(encoding="utf-8"))
    ]
    assert [use for use in uses if use[:2] not in _ALLOWED] == []
    assert {use[:2] for use in uses} == set(_ALLOWED)  # no entry is out of date


def test_no_r_code_reads_messages() -> None:
    uses = [
        (path.name, line)
        for path in sorted((ROOT / "r_package" / "R").glob("*.R"))
        for line in read_in_r(path.read_text(encoding="utf-8"))
    ]
    assert uses == []


def test_no_cpp_code_reads_messages() -> None:
    shim = ROOT / "capi_shim"
    files = {
        str(path.relative_to(shim))
        for path in sorted(shim.rglob("*"))
        if path.suffix in (".c", ".cpp", ".h", ".hpp")
        for _ in read_in_cpp(path.read_text(encoding="utf-8"))
    }
    assert files == set(_ALLOWED_IN_CPP)


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
