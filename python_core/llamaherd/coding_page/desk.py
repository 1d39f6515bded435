"""Codes of all coders; selects the next text and undoes codes."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.coding_page.sheet import Sheet, with_coders_of
from llamaherd.coding_page.store import CodeStore, Entry, NewAct
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from llamaherd.coding_page.form import Code

_LONGEST_NOTE = 10_000
CHANGED = "changed"  # code of the error of a page that shows earlier codes
_LONGEST_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Act:
    """A code or skip of a text that was not undone."""

    entry: Entry
    value: Code | None  # code; None for a skip


@dataclass(frozen=True, slots=True)
class CoderProgress:
    """Progress of a coder."""

    n_texts: int  # number of texts to code
    n_coded: int
    n_skipped: int  # number of texts that were skipped and have no code


def order_of(sheet: Sheet, coder: str) -> list[int]:
    """Return the indices of the texts in an order by the seed and the coder's name."""
    digest = hashlib.sha256(coder.encode("utf-8", "surrogatepass")).digest()
    seeds = [sheet.seed, int.from_bytes(digest[:8], "big")]
    order = np.random.default_rng(seeds).permutation(len(sheet.ids))
    return [int(i) for i in order]


class Desk:
    """Codes of all coders for a sheet, stored in a file until `close`."""

    def __init__(self, sheet: Sheet, path: Path) -> None:
        self.store = CodeStore(path, sheet)
        try:
            self._open(sheet)
        except BaseException:
            self.store.close()
            raise

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self.store.close()

    def _open(self, sheet: Sheet) -> None:
        self.sheet = sheet = with_coders_of(sheet, self.store.coders)
        self._lock = threading.RLock()
        self._index = {key: i for i, key in enumerate(sheet.ids)}
        self._orders = {coder: order_of(sheet, coder) for coder in sheet.people}
        self._n_entries = 0
        self._acts: dict[str, list[int]] = defaultdict(list)  # texts, in order
        self._by_text: dict[tuple[str, int], list[Act]] = defaultdict(list)
        self._ties: set[int] = set()  # texts without a majority of the other coders
        self._read_entries()

    @property
    def version(self) -> int:
        """Number of the last entry, which grows with each code, skip or undo."""
        self._read_entries()
        return self._n_entries

    def act(self, coder: str, i: int) -> Act | None:
        """Return the latest code or skip of a text that was not undone, or None."""
        acts = self._by_text.get((coder, i))
        return acts[-1] if acts else None

    def values(self, coder: str) -> list[Code | None]:
        """Return a coder's codes of all texts, in the order of the sheet."""
        self._read_entries()
        acts = [self.act(coder, i) for i in range(len(self.sheet.ids))]
        return [None if act is None else act.value for act in acts]

    def texts_of(self, coder: str) -> list[int]:
        """Return the texts that a coder has to code, in the coder's order.

        The coder of ties gets the texts on which the others disagree, and the texts that
        this coder already coded, even if the others agree now.
        """
        self._read_entries()
        order = self._orders[coder]
        if coder != self.sheet.tie_coder:
            return order
        return [i for i in order if i in self._ties or self.act(coder, i) is not None]

    def progress(self, coder: str) -> CoderProgress:
        """Return the progress of a coder."""
        texts = self.texts_of(coder)
        acts = [act for i in texts if (act := self.act(coder, i)) is not None]
        n_coded = sum(act.value is not None for act in acts)
        return CoderProgress(len(texts), n_coded, len(acts) - n_coded)

    def next_text(self, coder: str, after: int | None = None) -> int | None:
        """Return the next text without a code; None if no such text is left.

        Searches the texts in the coder's order, from the text after `after` and then from
        the beginning. Skipped texts are last; `after` itself is not returned.
        """
        texts = self.texts_of(coder)
        start = texts.index(after) + 1 if after in texts else 0
        turned = texts[start:] + texts[:start]
        fresh = next((i for i in turned if self.act(coder, i) is None), None)
        if fresh is not None:
            return fresh
        skipped = (i for i in turned if i != after)
        return next((i for i in skipped if self._is_skipped(coder, i)), None)

    def can_undo(self, coder: str) -> bool:
        """Whether there is a code or skip to undo."""
        self._read_entries()
        return bool(self._acts[coder])

    def code(
        self,
        coder: str,
        i: object,
        value: object,
        note: object = "",
        seconds: object = None,
        *,
        seen: object = None,
    ) -> int:
        """Store the code of a text; return the text's index."""
        at = self._checked_text(coder, i)
        code = self.sheet.form.checked(self.sheet.texts[at], value)
        remark = _checked_note(note), _checked_seconds(seconds)
        new = NewAct(coder, self.sheet.ids[at], "code", code, *remark)
        return self._add(at, new, seen)

    def skip(
        self,
        coder: str,
        i: object,
        note: object = "",
        seconds: object = None,
        *,
        seen: object = None,
    ) -> int:
        """Store that a coder skipped a text; return the text's index."""
        at = self._checked_text(coder, i)
        remark = _checked_note(note), _checked_seconds(seconds)
        new = NewAct(coder, self.sheet.ids[at], "skip", None, *remark)
        return self._add(at, new, seen)

    def undo(self, coder: str, *, seen: object = None) -> int | None:
        """Undo a coder's last code or skip, if any; return its text, otherwise None."""
        with self._lock:
            self._read_entries()
            _check_seen(seen, self.last_entry_of(coder))
            if not self._acts[coder]:
                return None
            at = self._acts[coder][-1]
            self.store.add(NewAct(coder, self.sheet.ids[at], "undo"))
            self._read_entries()
            return at

    def entry_of(self, coder: str, i: int) -> int:
        """Return the number of the entry with the code or skip of a text; 0 if none."""
        act = self.act(coder, i)
        return 0 if act is None else act.entry.n

    def last_entry_of(self, coder: str) -> int:
        """Return the number of the entry that an undo would undo; 0 if there is none."""
        acts = self._acts[coder]
        return self.entry_of(coder, acts[-1]) if acts else 0

    def _add(self, at: int, new: NewAct, seen: object) -> int:
        with self._lock:
            self._read_entries()
            last = self.act(new.coder, at)
            # A browser that receives no response sends the code or skip again.
            is_again = last is not None and last.entry.act[:5] == new[:5]
            if not is_again:
                _check_seen(seen, self.entry_of(new.coder, at))
            if not is_again or self._acts[new.coder][-1] != at:
                self.store.add(new)
                self._read_entries()
        return at

    def _checked_text(self, coder: str, i: object) -> int:
        if type(i) is not int or i not in self.texts_of(coder):
            raise ArgumentError(
                f"must be the index of a text to code, not {checks.brief(i)}",
                argument="i",
                code="unknown_choice",
            )
        return i

    def _is_skipped(self, coder: str, i: int) -> bool:
        act = self.act(coder, i)
        return act is not None and act.value is None

    def _is_tie(self, i: int) -> bool:
        acts = (self.act(coder, i) for coder in self.sheet.coders)
        codes = [act.value for act in acts if act and act.value is not None]
        return self.sheet.form.is_tie(codes)

    def _read_entries(self) -> None:
        """Read new entries from the store."""
        with self._lock:
            for entry in self.store.entries(self._n_entries):
                self._apply(entry)
                self._n_entries = entry.n

    def _apply(self, entry: Entry) -> None:
        act = entry.act
        at = self._index[act.text_id]
        if act.kind == "undo":
            if not self._acts[act.coder]:
                return
            at = self._acts[act.coder].pop()
            self._by_text[act.coder, at].pop()
        else:
            value = self._stored_code(at, act) if act.kind == "code" else None
            self._acts[act.coder].append(at)
            self._by_text[act.coder, at].append(Act(entry, value))
        if self.sheet.tie_coder is not None:
            (self._ties.add if self._is_tie(at) else self._ties.discard)(at)

    def _stored_code(self, at: int, act: NewAct) -> Code:
        """Return a stored code."""
        try:
            return self.sheet.form.checked(self.sheet.texts[at], act.value)
        except ArgumentError as error:
            raise ArgumentError(
                f"does not fit the stored code {checks.brief(act.value)} of the text "
                f"{checks.quoted(act.text_id)} by {checks.quoted(act.coder)}: keep the "
                "labels and fields that were used, or begin a new file of codes",
                argument="codebook",
                code="conflict",
            ) from error


def _check_seen(seen: object, now: int) -> None:
    """Check that a page shows the latest codes of its coder."""
    if seen is not None and (isinstance(seen, bool) or not isinstance(seen, int)):
        raise ArgumentError(
            f"must be a number, not {checks.brief(seen)}", argument="seen"
        )
    if seen is not None and seen != now:
        raise ArgumentError(
            "This was not saved: you coded in another tab or window since this page was "
            "shown. It now shows what is saved.",
            argument="seen",
            code=CHANGED,
            form="{problem}",
        )


def _checked_note(note: object) -> str:
    text = checks.text("note", note)
    if len(text) > _LONGEST_NOTE:
        raise ArgumentError(
            f"must have at most {_LONGEST_NOTE} characters, not {len(text)}",
            argument="note",
            code="too_many",
        )
    return text


def _checked_seconds(seconds: object) -> float | None:
    """Return the time that a browser measured, or None if it is impossible."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return None
    is_time = math.isfinite(seconds) and 0 <= seconds < _LONGEST_S
    return float(seconds) if is_time else None
