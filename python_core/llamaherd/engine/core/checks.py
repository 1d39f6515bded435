"""Checks of arguments. Each check returns the value, or raises an error about it.

`name` is the name of the argument, or an `Argument` that names one of its elements.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Callable, Collection, Iterable, KeysView, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from difflib import SequenceMatcher
from io import IOBase
from numbers import Real
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, overload

from llamaherd.engine.core.argument import Name, argument_of
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.plain import plain, plain_tree
from llamaherd.engine.core.words import call, words

_T = TypeVar("_T")

INT32_MAX = 2**31 - 1
_MOST_DIGITS = 18  # of a number in a text, which fits into 64 bits
_WORD_END = re.compile(r"[-_./\s]+")
_NEAR = 0.75  # similarity of words of which one is a typing error, see `SequenceMatcher`
_NEXT_TO = 1.5e-6  # limits this close to 0 or 1 are named as 0 or 1

# Names of other libraries (llama.cpp, llama-cpp-python, vLLM, OpenAI, transformers).
_NAMES_ELSEWHERE = {
    "penalty_repeat": "repeat_penalty repetition_penalty penalty_repetition",
    "repeat_last_n": "last_n_tokens_size penalty_last_n repetition_context_size",
    "penalty_freq": "frequency_penalty penalty_frequency",
    "penalty_present": "presence_penalty penalty_presence",
    "max_tokens": "max_new_tokens max_completion_tokens max_output_tokens max_length "
    "n_predict num_predict",
    "min_tokens": "min_new_tokens min_length",
    "temperature": "temp",
    "typical_p": "typical",
    "mirostat": "mirostat_mode",
    "dry_breakers": "dry_sequence_breakers dry_seq_breakers",
    "stop": "stop_sequences stop_strings stop_words",
    "stop_token_ids": "eos_token_id",
    "n": "best_of num_return_sequences n_samples num_samples",
    "seed": "random_state",
    "params": "sampling_params",
    "schema": "response_format json_schema guided_json structured_outputs "
    "output_schema text_format",
    "regex": "guided_regex",
    "grammar": "guided_grammar",
    "choices": "guided_choice",
    "logprobs": "top_logprobs n_probs",
    "chat": "messages",
    "system": "system_prompt instructions system_message",
    "template": "chat_template chat_format",
    "variables": "chat_template_kwargs template_kwargs",
    "thinking": "reasoning_effort enable_thinking reasoning thinking_budget",
    "prefix": "prefill assistant_prefix",
    "progress": "use_tqdm verbose show_progress",
    "n_ctx": "max_model_len context_length context_size num_ctx",
    "n_seq_max": "max_num_seqs n_parallel parallel",
    "n_batch": "max_num_batched_tokens batch_size",
    "n_ubatch": "ubatch_size",
    "n_threads": "num_threads num_thread threads",
    "flash_attn": "flash_attention",
    "type_k": "cache_type_k kv_cache_dtype",
    "type_v": "cache_type_v",
    "n_gpu_layers": "gpu_layers ngl num_gpu",
    "path": "model_path",
    "lora": "loras lora_path lora_adapters",
}
OTHER_NAMES = {
    other: name for name, others in _NAMES_ELSEWHERE.items() for other in others.split()
}


def digits(text: str) -> int | None:
    """Return the number that at most 18 ASCII digits write; None for other texts."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None


def integer(name: Name, value: object, low: int, high: int = INT32_MAX) -> int:
    """Check an integer in [low, high]; accept numpy's integers, refuse True and False."""
    number = None
    # An array has __index__, which fails if the array has several numbers.
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        with suppress(TypeError):
            number = operator.index(value)
    if number is None:
        raise ArgumentTypeError(f"must be an integer, not {brief(value)}", argument=name)
    if not low <= number <= high:
        is_low = number < low and high == INT32_MAX  # omit INT32_MAX
        limit = f"at least {low}" if is_low else f"between {low} and {high}"
        limit = str(low) if low == high else limit
        raise ArgumentError(
            f"must be {limit}, not {_digits(number)}", argument=name, code="out_of_range"
        )
    return number


def real(name: Name, value: object, low: float, high: float) -> float:
    """Check a finite number in [low, high]."""
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ArgumentTypeError(f"must be a number, not {brief(value)}", argument=name)
    written = ""
    try:
        number = float(value)
    except OverflowError:  # raised for a large integer
        number, written = math.inf, _digits(operator.index(math.floor(value)))
    if not (math.isfinite(number) and low <= number <= high):
        raise ArgumentError(
            f"must be {_range(low, high)}, not {written or _short(number, low, high)}",
            argument=name,
            code="out_of_range",
        )
    return number


def _short(number: float, low: float, high: float) -> str:
    """Return a number with few digits, with all digits if it would seem in range."""
    short = f"{number:g}"
    return words().number(repr(number) if low <= float(short) <= high else short)


def _range(low: float, high: float) -> str:
    """Return the limits in words; a limit close to 0 or 1 stands for an open interval."""
    is_open = 0 < low <= _NEXT_TO, 1 - _NEXT_TO <= high < 1
    if not any(is_open):
        return f"between {low:g} and {high:g}"
    least = "above 0" if is_open[0] else f"at least {low:g}"
    return f"{least} and {'below 1' if is_open[1] else f'at most {high:g}'}"


def flag(name: Name, value: object) -> bool:
    """Check a bool; accept numpy's."""
    value = plain(value)
    if not isinstance(value, bool):
        raise ArgumentTypeError(
            f"must be {words().truth}, not {brief(value)}", argument=name
        )
    return value


def text(name: Name, value: object) -> str:
    """Check a str that UTF-8 can encode; return a text of a subclass as a plain str."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"must be a text, not {brief(value)}", argument=name)
    plain_text: str = plain(value)
    problem = unicode_problem(plain_text)
    if problem:
        raise ArgumentError(problem, argument=name, code="not_unicode")
    return plain_text


def not_blank(name: Name, value: object) -> str:
    """Check that a text is not blank and has no NUL character; return the text."""
    checked = text(name, value)
    if not checked.strip():
        raise ArgumentError("must not be empty", argument=name, code="empty")
    return without_nul(name, checked)


def without_nul(name: Name, text: str) -> str:
    """Check that a text has no NUL character, at which C ends texts; return the text."""
    if "\0" in text:
        raise ArgumentError("must not contain a NUL character", argument=name)
    return text


def unicode_problem(text: str) -> str:
    """Return why UTF-8 cannot encode a text; "" if it can."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return (
            f"is not valid Unicode: character {error.start + 1} is U+"
            f"{ord(text[error.start]):04X}, half of a surrogate pair"
        )
    return ""


def tree(name: Name, value: object) -> Any:  # of the type of the value
    """Return a value with plain values in all its lists and mappings."""
    try:
        return plain_tree(value)
    except RecursionError:
        raise ArgumentError("is nested too deeply", argument=name) from None


def path(name: Name, value: object) -> Path:
    """Return a path."""
    if not isinstance(value, (str, os.PathLike)):
        raise ArgumentTypeError(f"must be a path, not {brief(value)}", argument=name)
    if isinstance(value, str) and not value.strip():  # Path("") is the current folder
        raise ArgumentError(
            "must be a path, not an empty text", argument=name, code="empty"
        )
    return Path(without_nul(name, plain(os.fsdecode(value))))


def paths(name: str, value: object) -> list[Path]:
    """Return the paths of one file, or of a list of files."""
    if isinstance(value, (str, os.PathLike)):
        return [path(name, value)]
    what = no_list(value)
    if what or isinstance(value, (Mapping, bytes)) or not isinstance(value, Iterable):
        raise ArgumentTypeError(
            f"must be a path or {words().many} of paths, not {what or brief(value)}",
            argument=name,
        )
    where = argument_of(name)
    files = [path(where.at(i), item) for i, item in enumerate(value)]
    if not files:
        raise ArgumentError("must name a file", argument=name)
    return files


def choice(name: Name, value: object, choices: Sequence[_T]) -> _T:
    """Return the value if it is one of `choices`."""
    value = plain(value)
    for candidate in choices:
        if type(value) is type(candidate) and value == candidate:
            return candidate
    allowed = ", ".join(map(words().literal, choices))
    raise ArgumentError(
        f"must be one of {allowed}, not {brief(value)}",
        argument=name,
        code="unknown_choice",
    )


@overload
def instance(name: Name, value: object, kind: type[_T], expected: str) -> _T: ...


@overload
def instance(
    name: Name, value: object, kind: tuple[type[Any], ...], expected: str
) -> Any: ...


def instance(
    name: Name, value: object, kind: type[Any] | tuple[type[Any], ...], expected: str
) -> Any:
    """Check the type of a value; `expected` completes the message "must be ..."."""
    if not isinstance(value, kind):
        raise ArgumentTypeError(f"must be {expected}, not {brief(value)}", argument=name)
    return value


def some_texts(name: Name, value: object) -> tuple[str, ...]:
    """Check a str, a sequence of str, or None."""
    if value is None:
        return ()
    value = column_as_list(value)
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, (list, tuple)):
        raise ArgumentTypeError(
            f"must be a text or {words().many} of texts, not {brief(value)}",
            argument=name,
        )
    if len(value) > 1024:
        raise ArgumentError(
            f"must have at most 1024 texts, not {len(value)}",
            argument=name,
            code="too_many",
        )
    where = argument_of(name)
    texts = tuple(text(where.at(i), item) for i, item in enumerate(value))
    if "" in texts:
        raise ArgumentError(
            "must not be empty", argument=where.at(texts.index("")), code="empty"
        )
    return texts


def prompt_list(
    prompts: object,
    name: str = "prompts",
    single: str | None = None,
) -> list[object]:
    """Return the elements of a list of prompts; `single` is advice for one prompt."""
    is_scalar = getattr(prompts, "shape", None) == ()  # of numpy
    if (
        isinstance(prompts, (str, bytes, Mapping))
        or is_scalar
        or not isinstance(prompts, Iterable)
    ):
        advice = (
            f" ({call('generate')} answers a single one)" if single is None else single
        )
        hint = " (was nothing read?)" if prompts is None else advice
        raise ArgumentTypeError(
            f"must be a list of {name}, not {type(prompts).__name__}{hint}",
            argument=name,
        )
    what = no_list(prompts)
    if what:
        raise ArgumentTypeError(f"must be a list of {name}, not {what}", argument=name)
    return [plain(prompt) for prompt in prompts]


def column_as_list(value: object) -> object:
    """Convert a column of pandas, polars, pyarrow or numpy to a list; nothing else."""
    if not hasattr(value, "columns"):
        for name in ("to_pylist", "to_list", "tolist"):
            convert = getattr(value, name, None)
            if callable(convert):
                return convert()
    return value


def distinct(name: Name, values: Sequence[object]) -> None:
    """Check that no value is given twice."""
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise ArgumentError(
                f"must be different values, not {brief(value)} twice", argument=name
            )
        seen.add(value)


def known_fields(
    content: Iterable[Any],
    known: Sequence[str],
    required: Iterable[str],
    what: str,
    place_of: Callable[[str], Name] = str,
) -> None:
    """Check the names of fields; `place_of` returns the place of a field."""
    for name in content:
        if name not in known:
            hint = meant(name, known) or f"; it has {', '.join(known)}"
            raise ArgumentError(
                f"is not a field of {what}{hint}",
                argument=place_of(str(name)),
                code="unknown_argument",
            )
    for name in required:
        if name not in content:
            raise ArgumentError("is missing", argument=place_of(name), code="missing")


def no_list(value: object) -> str:
    """Return why an iterable cannot be used as a list; "" if it can."""
    if isinstance(value, AbstractSet) and not isinstance(value, KeysView):
        return f"a {type(value).__name__}: its elements have no order"
    if isinstance(value, IOBase):
        return "an open file: read it first, with .read() or .read().splitlines()"
    if hasattr(value, "columns"):  # iteration over a data frame yields column names
        return f"a {type(value).__name__}: take one of its columns"
    return ""


def meant(name: object, names: Collection[object]) -> str:
    """Return a suggestion for an unknown name, as the end of a message."""
    ours = OTHER_NAMES.get(str(name), str(name))
    others = [ours, *_NAMES_ELSEWHERE.get(ours, "").split()]
    suggestion = next((other for other in others if other in names), None)
    if suggestion is None and isinstance(name, str):
        # A longer name is no typing error, and its comparison is slow.
        likely = [(_likeness(name[:60], n), n) for n in names if isinstance(n, str)]
        likeness, near = max(likely, key=itemgetter(0), default=(0.0, ""))
        suggestion = near if likeness >= _NEAR else None
    return "" if suggestion is None else f"; did you mean {quoted(str(suggestion))}?"


def _likeness(name: str, other: str) -> float:
    """Return the similarity of the words that differ most: "top_n" is not "top_p"."""
    pair = [_WORD_END.split(text.lower()) for text in (name, other)]
    if len(pair[0]) != len(pair[1]):
        return 0.9 * SequenceMatcher(None, "".join(pair[0]), "".join(pair[1])).ratio()
    return min(SequenceMatcher(None, a, b).ratio() for a, b in zip(*pair, strict=True))


def quoted(text: str) -> str:
    """Return a text in quotes for messages, shortened; `brief` also adds the type."""
    return words().quoted(text if len(text) <= 60 else f"{text[:57]}...")


def brief(value: object) -> str:
    """Return a value for messages: shortened, and followed by its type."""
    if isinstance(value, (str, bytes, bytearray)):
        value = value[:60]
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the caller's class may raise anything
        text = "a value"
    text = " ".join(line.strip() for line in text.splitlines())  # columns have several
    if len(text) > 60:
        text = text[:57] + "..."
    return words().value(value, text)


def _digits(number: int) -> str:
    """Return an integer for messages; Python refuses to write very large integers."""
    if abs(number) < 10**40:
        return str(number)
    exponent = math.log10(abs(number))
    sign = "-" if number < 0 else ""
    return f"{sign}{10 ** (exponent % 1):.3g}e+{int(exponent)}"
