"""Finds code that reads the text of a message, in Python, in R and in C++.

A message is for people. Programs read the fields of an error (`argument`, `place`,
`code`) or the code of a failure (`core.errors`).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

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
