"""Connection of the shim with llguidance, which enforces schemas.

The extension module of llguidance has a C API, `llg_*`. Python imports the module. The
shim calls its functions by address, without Python.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import threading
from concurrent.futures import Future
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from llamaherd.engine.core.errors import AbiMismatchError
from llamaherd.engine.core.request import check_wanted
from llamaherd.engine.native.shim import check, ffi, lib, new_struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.native._shim import CData

_T = TypeVar("_T")
# Stack per character of a schema, see capi_shim/constraint/llguidance.cpp.
_STACK_PER_CHARACTER = 1024
_SMALL_STACK = 1 << 19  # every thread has this stack
_starting = threading.Lock()
_TIMES = re.compile(r" \(\d+ times\)$")  # end of a warning that occurs several times

_FUNCTIONS = (  # members of `lh_llguidance`
    "get_version",
    "new_tokenizer_v2",
    "free_tokenizer",
    "constraint_init_set_defaults",
    "new_matcher",
    "clone_matcher",
    "free_matcher",
    "matcher_get_error",
    "matcher_compute_mask_into",
    "matcher_consume_tokens",
    "matcher_compute_ff_tokens",
    "matcher_is_accepting",
    "matcher_is_stopped",
    "tokenize_bytes",
    "new_tokenizer",
)
# Functions that some supported versions lack; the shim needs one of the tokenizers.
_OPTIONAL = {"get_version", "new_tokenizer_v2", "new_tokenizer"}
_VERSIONS = ">=1.5,<2"
_OLD_VARIABLE = "LLAMAHERD_OLD_LLGUIDANCE"


@lru_cache(maxsize=1)
def load() -> str:
    """Pass the functions of llguidance to the shim; return the version of llguidance."""
    cure = f"install it: pip install 'llguidance{_VERSIONS}'"
    try:
        from llguidance import _lib  # only for those who need it
    except ImportError as error:
        raise AbiMismatchError(
            f"schema, regex and Lark grammars need llguidance, which cannot be imported "
            f"({error}); {cure}"
        ) from error
    installed = version("llguidance")
    numbers = tuple(int(part) for part in installed.split(".")[:2])
    if not (1, 5) <= numbers < (2, 0):
        raise AbiMismatchError(f"llguidance {installed} is not supported; {cure}")
    if numbers < (1, 9) and os.environ.get(_OLD_VARIABLE) != "1":
        raise AbiMismatchError(
            f"llguidance {installed} may end the process at a regular expression or a "
            f"schema of extreme cost: pip install 'llguidance>=1.9,<2', or set "
            f"{_OLD_VARIABLE}=1 if no stranger writes your constraints"
        )
    module = ctypes.CDLL(_lib.__file__)
    functions = new_struct("lh_llguidance")
    for name in _FUNCTIONS:
        try:
            function = getattr(module, f"llg_{name}")
        except AttributeError:
            if name in _OPTIONAL:
                continue
            raise AbiMismatchError(
                f"the installed llguidance has no function llg_{name}; {cure}"
            ) from None
        address = ctypes.cast(function, ctypes.c_void_p).value
        setattr(functions, name, ffi.cast("void *", address))
    problem = ffi.new("lh_error *")
    try:
        check(lib.lh_set_llguidance(functions, problem), problem)
    except ValueError as reason:
        raise AbiMismatchError(f"{reason}; {cure}") from None
    return installed


def accepts(model: CData, schema: str, text: str, *, is_lark: bool = False) -> bool:
    """Return whether a text follows a JSON Schema, see `lh_grammar_accepts`."""
    load()
    error = ffi.new("lh_error *")
    accepted = ffi.new("int32_t *")
    content = text.encode()
    status = lib.lh_grammar_accepts(
        model,
        lib.LH_GRAMMAR_LARK if is_lark else lib.LH_GRAMMAR_JSON_SCHEMA,
        schema.encode(),
        content,
        len(content),
        accepted,
        error,
    )
    check(status, error)
    return bool(accepted[0])


def problem_of_schema(text: str) -> str:
    """Return why llguidance rejects a JSON Schema; "" if it accepts the schema."""
    is_error, messages = _validate_grammar(text)
    return messages[0] if is_error and messages else ""


def ignored_of_schema(text: str) -> list[str]:
    """Return the keywords, or "format: x", that llguidance ignores in lenient mode."""
    ignored = []
    for message in _validate_grammar(text)[1]:
        kind, _, names = _TIMES.sub("", message).partition(": ")
        if kind == "Unimplemented keys":
            ignored += json.loads(names)
        elif kind == "Unknown format":
            ignored.append(f"format: {names}")
    return ignored


def _validate_grammar(text: str) -> tuple[bool, list[str]]:
    check_wanted()
    load()
    from llguidance import LLMatcher  # only for those who need it

    grammar = f'{{"grammars":[{{"json_schema":{text}}}]}}'
    is_error, messages = _with_stack(
        len(grammar) * _STACK_PER_CHARACTER,
        lambda: LLMatcher.validate_grammar_with_warnings(grammar),
    )
    return is_error, list(map(str, messages))


def _with_stack(n_bytes: int, function: Callable[[], _T]) -> _T:
    """Return what a function returns on a thread whose stack is large enough."""
    if n_bytes <= _SMALL_STACK:
        return function()
    result: Future[_T] = Future()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            result.set_exception(error)

    thread = threading.Thread(target=run, name="llamaherd-deep", daemon=True)
    with _starting:  # the size applies to all threads that are started meanwhile
        before = threading.stack_size(n_bytes)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            text = f"cannot start a thread with a stack of {n_bytes >> 20} MiB"
            raise MemoryError(text) from error
        finally:
            threading.stack_size(before)
    return result.result()


@lru_cache(maxsize=1024)
def takes_pattern(pattern: str) -> bool:
    """Return whether llguidance supports a pattern; lookarounds are not supported."""
    return not problem_of_schema(json.dumps({"type": "string", "pattern": pattern}))


def finds_pattern(pattern: str, text: str) -> bool:
    """Return whether a pattern of a JSON Schema matches within a text, in linear time."""
    matcher = _pattern_matcher(pattern).deep_copy()
    # llguidance searches texts in the form of JSON, in which DEL must be escaped.
    known = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
    written = json.dumps(known, ensure_ascii=False).replace("\x7f", r"\u007f")
    tokens = _bytes_tokenizer().tokenize_str(written)
    if matcher.try_consume_tokens(tokens) == len(tokens):
        return bool(matcher.is_accepting())
    problem = str(matcher.get_error())
    if problem:
        # Copies of a matcher share states: after this error, no copy would find a match,
        # and none would report an error.
        _pattern_matcher.cache_clear()
        raise ValueError(f"{problem.splitlines()[0]}, for the pattern {pattern!r}")
    return False


_SURROGATES = re.compile("[\ud800-\udfff]")


@lru_cache(maxsize=1)
def _bytes_tokenizer() -> Any:  # a class without types
    from llguidance import LLTokenizer  # only for those who need it

    return LLTokenizer("byte")


@lru_cache(maxsize=1024)
def _pattern_matcher(pattern: str) -> Any:  # a class without types
    """Return a matcher that finds the pattern in texts written as JSON."""
    from llguidance import LLMatcher  # only for those who need it

    schema = json.dumps({"type": "string", "pattern": pattern})
    grammar = f'{{"grammars":[{{"json_schema":{schema}}}]}}'
    return LLMatcher(_bytes_tokenizer(), grammar, log_level=0)
