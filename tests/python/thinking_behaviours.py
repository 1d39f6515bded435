"""Behaviours of models and calls that think, as data: the rows of the table.

One scripted model has all behaviours. The digit after the last "#" of a text is the
number of tabs that the chat template writes after the opening marker. Each number of
tabs is a token that a different thought follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import llamaherd as lh
import scripted_model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BUDGET = 20
ENDLESS = 19_000  # tokens of a thought that a test cancels: some seconds
# "|" ends a prompt behind which the model opens a thought itself, "!" one behind which it
# answers at once, ";" one without a marker.
TEMPLATE = (
    "{%- for m in messages -%}[{{ m.role }}]"
    "{%- if m.reasoning_content -%}<think>{{ m.reasoning_content }}</think>{{ '\\n' }}"
    "{%- endif -%}{{ m.content }};{%- endfor -%}"
    "{%- if add_generation_prompt -%}"
    "{%- set kind = messages[-1].content.split('#')[-1][:1] -%}"
    "{%- if '#' not in messages[-1].content -%}<think>"
    "{%- elif kind in '|!;' -%}{{ kind }}"
    "{%- else -%}<think>{{ '\\t' * (kind | int) }}{%- endif -%}"
    "{%- endif -%}"
)
CLOSES, ENDLESSLY, TWICE, ENDS_TURN, CHARACTER, SAYS_STOP, AT_ONCE, INVALID = range(8)
PLAIN = {"start": "<t>", "end": "</t>"}  # its end marker shares a token with other text
PIECES = {"start": "<u>", "end": "</u>"}  # its end marker has three tokens
_SCRIPT: dict[str | bytes, str | bytes] = {
    "Hm": ", so",
    ", so": "</think>",
    "</think>": "\n",
    "\n": "yes",
    " ": "yes",
    '"': "yes",
    "!": "yes",
    "|": "<think>",
    "<think>": "Hm",
    "\t" * ENDLESSLY: "aa",
    "aa": "bb",
    "bb": "aa",
    "\t" * TWICE: "<think>",
    "\t" * ENDS_TURN: "Ww",
    "Ww": scripted_model.END,
    "\t" * CHARACTER: b"\xe2",
    b"\xe2": b"\x82",
    b"\x82": b"\xac",
    b"\xac": "and",
    "and": "</think>",
    "\t" * SAYS_STOP: "STOP",
    "STOP": "</think>",
    "\t" * AT_ONCE: "</think>",
    "\t" * INVALID: b"\xc3",
    b"\xc3": b"(",
    b"(": "</think>",
    "<t>": "x1",
    "x1": "y</t>zz",
    "y</t>zz": "\n",
    "<u>": "x2",
    "x2": "</",
    "</": "u",
    "u": ">",
    ">": "\n",
    "yes": scripted_model.END,
}


def write_model(path: Path) -> Path:
    """Write the model of all behaviours."""
    others = ("\n", " ", '"', "!", "|", "u", ">")
    entries = [text for text in _SCRIPT if text not in others]
    scripted_model.write(
        path, *entries, links=_SCRIPT, chat_template=TEMPLATE, n_ctx=2**15
    )
    return path


class Told(NamedTuple):
    """Fields of a prompt that an interface returns."""

    thinking: str | None
    n_tokens: int
    is_complete: bool | None
    answer: str | None  # None for a failed prompt


COLUMNS = ("thinking", "n_thinking_tokens", "thinking_complete")
CLOSED = Told("Hm, so", 3, True, "yes")
NONE = Told(None, 0, None, "yes")
FAILED = Told(None, 0, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """A row of the table.

    Attributes:
        name: Name.
        does: Ability that the behaviour needs of an interface (door).
        texts: Prompts in the form in which a user writes them.
        results: Result of each prompt.
        scored: Results if the answer is constrained or scored; None for `results`.
        thinking: Argument of the call.
        options: More arguments.
        context: Name of the context, see `CONTEXTS`.
        lacks: Doors that lack the behaviour, with the reason.
    """

    name: str
    does: str = "ask"
    texts: tuple[str, ...]
    results: tuple[Told, ...]
    scored: tuple[Told, ...] | None = None
    thinking: Any = BUDGET
    options: Mapping[str, Any] = field(default_factory=dict)
    context: str = "plain"
    lacks: Mapping[str, str] = field(default_factory=dict)


CONTEXTS: dict[str, dict[str, Any]] = {
    "plain": {"n_ctx": 4096, "n_seq_max": 4},
    "deterministic": {"deterministic": True, "n_seq_max": 4},
    "long": {"n_ctx": 20_000, "n_seq_max": 2},
    "short": {"n_ctx": 512, "n_seq_max": 8, "kv_layout": "unified"},
}


def _one(name: str, kind: object, result: Told, **more: Any) -> Behaviour:
    return Behaviour(name=name, texts=(f"A #{kind}",), results=(result,), **more)


def _budget(n: int, result: Told) -> Behaviour:
    return _one(f"budget of {n}", ENDLESSLY, result, thinking=n)


_NO_STOP = {
    "choices": "an answer ends after its choice, before any stop text",
    **dict.fromkeys(
        ("classify", "score", "annotate"),
        "labels are scored, not generated: stop texts do not apply",
    ),
}
_NO_SAMPLES = {"score": "continuations are given, so none are sampled"}
_WHOLE_CALLS = "a cluster runs whole calls and refuses streams"
_NOT_STREAMED = dict.fromkeys(
    ("classify", "score", "annotate"), "all scores are returned together"
)
_SHARED = "a beginning that all texts share, " * 20

BEHAVIOURS = (
    _one("closes its thought", CLOSES, CLOSED),
    _one("never closes it", ENDLESSLY, Told("aabbaabbaa", 5, False, "yes"), thinking=5),
    _one("opens it twice", TWICE, Told("Hm, so", 4, True, "yes")),
    _one("ends its turn in it", ENDS_TURN, Told("Ww", 1, False, "yes")),
    _one(
        "closes in the middle of a token",
        ";",
        Told("x1y", 2, True, "yes"),
        thinking={"budget": BUDGET, **PLAIN},
    ),
    _one(
        "closes in several tokens",
        ";",
        Told("x2", 4, True, "yes"),
        thinking={"budget": BUDGET, **PIECES},
    ),
    _one(
        "budget ends inside a character",
        CHARACTER,
        Told("€", 3, False, "yes"),
        thinking=1,
    ),
    _one("closes it at once", AT_ONCE, Told("", 1, True, "yes")),
    _one("writes bytes that are no text", INVALID, Told("\ufffd(", 3, True, "yes")),
    _one("opens it itself, by default", "|", CLOSED, scored=(NONE,), thinking=None),
    _one("does not think, by default", "!", NONE, thinking=None),
    _one("told not to think", CLOSES, NONE, thinking=False),
    _budget(0, Told("", 0, False, "yes")),
    _budget(1, Told("aa", 1, False, "yes")),
    _budget(7, Told("aabb" * 3 + "aa", 7, False, "yes")),
    _one(
        "stop text in the thought",
        SAYS_STOP,
        Told("STOP", 2, True, "yes"),
        options={"stop": ["STOP"]},
        lacks=_NO_STOP,
    ),
    _one(
        "prefix of the answer",
        CLOSES,
        CLOSED,
        options={"prefix": "It is: "},
        lacks={"annotate": "the codebook sets the words before a label"},
    ),
    Behaviour(
        name="a failed prompt among valid ones",
        texts=("A #0", "x" * 40_000 + " #0", "B #0"),
        results=(CLOSED, FAILED, CLOSED),
    ),
    Behaviour(
        name="a long shared beginning",
        texts=tuple(f"{_SHARED}{i} #{i % 4}" for i in range(8)),
        results=(
            CLOSED,
            Told("aabb" * 10, BUDGET, False, "yes"),
            Told("Hm, so", 4, True, "yes"),
            Told("Ww", 1, False, "yes"),
        )
        * 2,
    ),
    Behaviour(
        name="deterministic",
        texts=tuple(f"{'word ' * i}#{i % 4}" for i in range(8)),
        results=(
            CLOSED,
            Told("aabb" * 10, BUDGET, False, "yes"),
            Told("Hm, so", 4, True, "yes"),
            Told("Ww", 1, False, "yes"),
        )
        * 2,
        context="deterministic",
    ),
    Behaviour(
        name="paused as the cache is short",
        does="pause",
        texts=tuple(f"{i} #1" for i in range(8)),
        results=(Told("aabb" * 50, 100, False, "yes"),) * 8,
        thinking=100,
        context="short",
        lacks={
            "Ray": "actors pause prompts as contexts do, but in this test their cache is "
            "large enough for all prompts"
        },
    ),
    _one("several thoughts", CLOSES, CLOSED, does="samples", lacks=_NO_SAMPLES),
    _one(
        "streamed",
        CLOSES,
        CLOSED,
        does="stream",
        lacks={**_NOT_STREAMED, "Ray": _WHOLE_CALLS},
    ),
    Behaviour(
        name="found in a journal",
        does="journal",
        texts=("A #0", "B #3"),
        results=(CLOSED, Told("Ww", 1, False, "yes")),
    ),
    _one(
        "cancelled in its thought",
        ENDLESSLY,
        NONE,
        does="cancel",
        thinking=ENDLESS,
        context="long",
        lacks={"Ray": _WHOLE_CALLS},
    ),
)


def codebook() -> lh.Codebook:
    """Return a codebook with the labels that all doors use."""
    return lh.Codebook("Is it so?", ["yes", "no"])
