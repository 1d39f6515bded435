"""Compares llamaherd's GBNF matcher with llguidance: allowed tokens and speed.

    cmake --build build/test --target grammars
    python benchmarks/grammars.py SHIM MODEL.gguf [GBNF ...]

llguidance reads Lark, so each grammar is first converted by its `gbnf_to_lark`. Both
matchers then follow the same random texts: at each step the allowed tokens are compared,
and one token that both allow is accepted. Times are CPU time of the calling thread,
measured alternately; the table has medians. Arguments GBNF are further grammar files,
such as the files in llama.cpp's folder `grammars`. The result is in
docs/decisions/0021-own-grammars.md.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from llguidance import _lib
from llguidance.gbnf_to_lark import gbnf_to_lark

GBNF, LARK = 0, 3  # lh_grammar_kind
STARTS = 5  # of each grammar
WALKS = 6
MAX_TOKENS = 40
REASON = 512
JSON = r"""root ::= object
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-f]{4}))* "\"" ws
number ::= "-"? ([0-9] | [1-9] [0-9]{0,15}) ("." [0-9]+)? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""
FORCED = """root ::= "The verdict of the committee is: " verdict "."
verdict ::= "approved without conditions" | "rejected"
"""
GRAMMARS = {
    "two words": 'root ::= "yes" | "no"',
    "words": 'root ::= " "? ("very " | "not ")* ("good" | "bad" | "gut" | "schlecht")',
    "numbers": 'root ::= [0-9]{1,3} ("." [0-9]{2})? " " [a-z]+',
    "other scripts": r'root ::= "\u00fcber" [\u00e4\u00f6\u4e00-\u9fff\U0001F600]+ | "ï"',
    "no quotes": r'root ::= [^\x00-\x1f"]{0,40}',
    "any three": r'root ::= . . .+ "\n"',
    "list": 'root ::= item | item ", " root\nitem ::= [A-Z] [a-z]{2,8}',
    "sum": 'root ::= sum\nsum ::= product (" + " product)*\n'
    'product ::= factor ("*" factor)*\nfactor ::= [0-9]+ | "(" sum ")"',
    "JSON": JSON,
    "fixed text": FORCED,
    "tokens by name": "root ::= <|im_start|> [a-z]+",
    "ambiguous": 'root ::= "a" root "b" | "a" root "c" | "d" | " " root',
    "ambiguous pairs": "root ::= a a a a\na ::= a a | [a-z]",
    "ambiguous repeats": 'root ::= (("a" | "a" "a")* "b")*',
    "empty repeats": 'root ::= (("a"?)*)* "b"',
    "left recursion": 'root ::= root "a" | "b"',
    "left recursion, sum": 'root ::= root " + " x | x\nx ::= x "*" y | y\ny ::= [0-9]+',
    "hidden left recursion": 'root ::= b root "x" | "y"\nb ::= c\nc ::= ""',
    "long repetition": 'root ::= "a"{0,2000} "b"',
}


def labels(n: int, rule: str = "root") -> str:
    """Return a grammar with a rule of n labels, each of one to three words."""
    draw = random.Random(1)  # noqa: S311 - the same labels each time
    parts = ["ba", "ker", "lo", "min", "ra", "sto", "ten", "u", "vi", "za"]
    words = ["".join(draw.choices(parts, k=draw.randint(2, 4))) for _ in range(2 * n)]
    found = {" ".join(draw.choices(words, k=draw.randint(1, 3))) for _ in range(2 * n)}
    choice = " | ".join(f'"{label}"' for label in sorted(found)[:n])
    return f"{rule} ::= {choice}" + ("" if rule == "root" else f"\nroot ::= {rule}")


class GrammarError(Exception):
    """Raised if a grammar cannot be followed further."""


@dataclass
class Times:
    """CPU seconds of starts, masks and checks of single tokens."""

    starts: list[float] = field(default_factory=list)
    masks: list[float] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)


class Shim:
    """Functions of grammars.cpp with a model's vocabulary."""

    def __init__(self, library: Path, model: Path) -> None:
        """Load library and vocabulary; pass llguidance's functions to the library."""
        self._lib = ctypes.CDLL(str(library))
        self._why = ctypes.create_string_buffer(REASON)
        for name in ("model", "start", "copy"):
            getattr(self._lib, f"grammars_{name}").restype = ctypes.c_void_p
        self.model = ctypes.c_void_p(
            self._lib.grammars_model(str(model).encode(), self._why)
        )
        self._check()
        self.n_vocab: int = self._lib.grammars_n_vocab(self.model)
        self.end: int = self._lib.grammars_end(self.model)
        self._hand_over()

    def _hand_over(self) -> None:
        from llamaherd.engine.native.llguidance import _FUNCTIONS  # noqa: PLC0415

        module = ctypes.CDLL(_lib.__file__)
        addresses = [
            ctypes.cast(getattr(module, f"llg_{name}"), ctypes.c_void_p).value or 0
            for name in _FUNCTIONS
        ]
        size = ctypes.sizeof(ctypes.c_void_p) * (1 + len(addresses))
        given = (ctypes.c_size_t * (1 + len(addresses)))(size, *addresses)
        self._lib.grammars_llguidance(given, self._why)
        self._check()

    def _check(self) -> None:
        if self._why.value:
            raise GrammarError(self._why.value.decode(errors="replace"))

    def _call(self, name: str, *values: object) -> tuple[int, float]:
        seconds = ctypes.c_double()
        function = getattr(self._lib, f"grammars_{name}")
        result = function(*values, ctypes.byref(seconds), self._why)
        self._check()
        return result, seconds.value

    def start(self, kind: int, text: str) -> tuple[Constraint, float]:
        """Compile a grammar; return the constraint at its start, and CPU seconds."""
        address, seconds = self._call("start", self.model, kind, text.encode())
        return Constraint(self, address), seconds

    def is_end(self, token: int) -> bool:
        """Return whether the token ends a generation."""
        return bool(self._lib.grammars_is_end(self.model, token))


class Constraint:
    """Compiled grammar at a position in a text."""

    def __init__(self, shim: Shim, address: int) -> None:
        """Own the native object that `Shim.start` created."""
        self._shim = shim
        self._address = ctypes.c_void_p(address)

    def __del__(self) -> None:
        """Free the native object."""
        self._shim._lib.grammars_free(self._address)  # noqa: SLF001

    def _call(self, name: str, *values: object) -> tuple[int, float]:
        return self._shim._call(name, self._address, *values)  # noqa: SLF001

    def copy(self) -> Constraint:
        """Return an independent copy of the constraint."""
        return Constraint(self._shim, self._call("copy")[0])

    def mask(self) -> tuple[set[int], float]:
        """Return the tokens that may come next, and CPU seconds."""
        allowed = (ctypes.c_uint8 * self._shim.n_vocab)()
        _, seconds = self._call("mask", allowed)
        return {i for i, is_in in enumerate(bytes(allowed)) if is_in}, seconds

    def allows(self, token: int) -> tuple[int, float]:
        """Check a single token as in greedy steps; return result and CPU seconds."""
        return self._call("allows", token)

    def forced(self) -> list[int]:
        """Return the tokens that must come next."""
        most = 64
        tokens = (ctypes.c_int32 * most)()
        n, _ = self._call("forced", tokens, most)
        return list(tokens[:n])

    def accept(self, token: int) -> None:
        """Add a token."""
        self._call("accept", token)


@dataclass
class Comparison:
    """Result of the comparison for one grammar."""

    ours: Times = field(default_factory=Times)
    theirs: Times = field(default_factory=Times)
    convert_s: float = 0.0
    n_steps: int = 0
    n_forced: int = 0  # steps in which llguidance allows only the forced token
    difference: str = ""


def masks_differ(ours: set[int], theirs: set[int], forced: list[int], shim: Shim) -> str:
    """Describe how masks differ; "forced" if llguidance allows only a forced token."""
    ours = {token for token in ours if not shim.is_end(token)} | (
        {shim.end} if any(map(shim.is_end, ours)) else set()
    )
    theirs = {token for token in theirs if not shim.is_end(token)} | (
        {shim.end} if any(map(shim.is_end, theirs)) else set()
    )
    if ours == theirs:
        return ""
    if len(theirs) == 1 and theirs < ours and forced[:1] == list(theirs):
        return "forced"
    return f"{len(ours - theirs)} tokens fewer, {len(theirs - ours)} more"


def walk(
    shim: Shim, pair: tuple[Constraint, Constraint], number: int, to: Comparison
) -> None:
    """Follow one random text with both matchers; store times and difference in `to`.

    After a mask is computed, checks of single tokens in the same step cost nothing.
    Therefore masks are measured with texts of even numbers, and checks of single tokens
    with texts of odd numbers.
    """
    draw = random.Random(number)  # noqa: S311 - the same walks each time
    ours, theirs = pair[0].copy(), pair[1].copy()
    for n in range(MAX_TOKENS):
        forced = ours.forced()
        probe = draw.randrange(shim.n_vocab)
        masks: dict[bool, set[int]] = {}
        turns = [(ours, to.ours), (theirs, to.theirs)]
        for constraint, times in turns if n % 2 else reversed(turns):
            if number % 2:
                times.checks.append(constraint.allows(probe)[1])
            masks[constraint is ours], seconds = constraint.mask()
            if not number % 2:
                times.masks.append(seconds)
        how = masks_differ(masks[True], masks[False], forced, shim)
        to.n_steps += 1
        to.n_forced += how == "forced"
        if how not in {"", "forced"}:
            to.difference = to.difference or f"after {n} tokens: {how}"
            return
        token = draw.choice(sorted(masks[True] & masks[False]))
        if shim.is_end(token):
            return
        ours.accept(token)
        theirs.accept(token)


def compare(shim: Shim, gbnf: str) -> Comparison:
    """Compile a grammar with both matchers alternately, and follow random texts."""
    found = Comparison()
    try:
        begin = time.process_time()
        lark = gbnf_to_lark(gbnf)
        found.convert_s = time.process_time() - begin
    except Exception as error:  # noqa: BLE001 - the converter raises plain Exception
        found.difference = f"gbnf_to_lark: {error}"
        return found
    try:
        for _ in range(STARTS):
            ours, ours_s = shim.start(GBNF, gbnf)
            theirs, theirs_s = shim.start(LARK, lark)
            found.ours.starts.append(ours_s)
            found.theirs.starts.append(theirs_s)
        for number in range(WALKS):
            if not found.difference:
                walk(shim, (ours, theirs), number, found)
    except GrammarError as error:
        found.difference = str(error).replace("\n", " ")[:160]
    return found


def row(name: str, found: Comparison) -> str:
    """Return a row of the table."""

    def cells(ours: list[float], theirs: list[float], scale: float) -> str:
        if not ours or not theirs:
            return "- | - | -"
        a, b = statistics.median(ours) * scale, statistics.median(theirs) * scale
        return f"{a:,.2f} | {b:,.2f} | {b / a:.2f}" if a else f"{a:,.2f} | {b:,.2f} | -"

    theirs = [found.convert_s + seconds for seconds in found.theirs.starts]
    same = found.difference or f"same, {found.n_steps} steps ({found.n_forced} forced)"
    return (
        f"| {name} | {cells(found.ours.starts, theirs, 1e3)} "
        f"| {cells(found.ours.masks, found.theirs.masks, 1e6)} "
        f"| {cells(found.ours.checks, found.theirs.checks, 1e6)} | {same} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shim", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("gbnf", type=Path, nargs="*")
    parser.add_argument("--only", nargs="*", help="names of grammars")
    given = parser.parse_args()
    shim = Shim(given.shim, given.model)
    shim.start(LARK, "start: /a/")  # prepares the vocabulary
    shim.start(GBNF, 'root ::= "a"')[0].mask()
    grammars = GRAMMARS | {
        "400 labels": labels(400),
        "8,000 labels": labels(8000),
        "8,000 labels, a rule of their own": labels(8000, "label"),
    }
    grammars |= {path.name: path.read_text(encoding="utf-8") for path in given.gbnf}
    print(
        "| grammar | start, ms: ours | llguidance | ratio | mask, us: ours | llguidance "
        "| ratio | one token, us: ours | llguidance | ratio | tokens allowed |"
    )
    print("|---|" + "---:|" * 9 + "---|")
    for name, gbnf in grammars.items():
        if given.only and name not in given.only:
            continue
        print(row(name, compare(shim, gbnf)), flush=True)


if __name__ == "__main__":
    main()
