"""Calls with a journal, which reuse stored results and store new results.

The thread of the call passes finished results to a writer thread and continues. Because
a commit waits for the disk, the writer stores all results of a tenth of a second in one
commit.
"""

from __future__ import annotations

from array import array
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

from llamaherd.calls.journal.entry import (
    JournalEntry,
    journal_key,
    settings_json,
    settings_of,
)
from llamaherd.calls.journal.file import DamagedError, quoted, refusals
from llamaherd.calls.journal.journal import VERSION, Journal, mixed_up
from llamaherd.calls.journal.sqlite import is_locked
from llamaherd.calls.run.hosted import Steps, run_steps
from llamaherd.engine.core.errors import JournalError
from llamaherd.engine.core.keeping import keeping
from llamaherd.engine.core.outcome import Finish, Output
from llamaherd.engine.model.tokens import detokenize

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.calls.run.call import Call
    from llamaherd.calls.run.host import Host
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.core.results import FinishReason, Results
    from llamaherd.engine.core.stats import Progress
    from llamaherd.engine.loop.threaded import ThreadedLoop
    from llamaherd.engine.model.file import Lora, ModelFile


_WRONG = "the log-probabilities stored for a prompt do not match its tokens"


def numbers_of(output: Output) -> array[float]:
    """Return log-probabilities to store; those of alternatives come last."""
    if output.scores is not None:
        return array("d", output.scores)
    if output.logprobs is None:
        return array("d")
    others = output.top_logprobs or [{} for _ in output.logprobs]
    rows = ([len(row), *chain.from_iterable(row.items())] for row in others)
    return array("d", [*output.logprobs, *chain.from_iterable(rows)])


def with_numbers(output: Output, request: Request, numbers: Sequence[float]) -> Output:
    """Return an output with its stored log-probabilities."""
    if request.tree is not None:
        if len(numbers) != len(request.tree.tokens):
            raise DamagedError(_WRONG)
        return replace(output, scores=array("d", numbers))
    if request.logprobs is None:
        return output
    try:
        logprobs, top = _read_logprobs(len(output.tokens), numbers)
    except (ValueError, OverflowError, IndexError):
        raise DamagedError(_WRONG) from None
    return replace(output, logprobs=logprobs, top_logprobs=top)


def _read_logprobs(
    n: int, numbers: Sequence[float]
) -> tuple[list[float], list[dict[int, float]]]:
    top: list[dict[int, float]] = []
    at = n
    while at < len(numbers):
        end = at + 1 + 2 * int(numbers[at])
        if not at < end <= len(numbers):
            raise ValueError
        pairs = numbers[at + 1 : end]
        top.append(dict(zip(map(int, pairs[::2]), pairs[1::2], strict=True)))
        at = end
    if len(top) != n:
        raise ValueError
    return list(numbers[:n]), top


_FINISH: dict[FinishReason, Finish] = {"stop": Finish.STOP, "length": Finish.LENGTH}
_REASON: dict[Finish, FinishReason] = {
    Finish.EOG: "stop",
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.ERROR: "error",
}


def record_call(
    call: Call, context: Host, journal: str | os.PathLike[str] | Journal
) -> RecordedCall:
    """Return a call that stores its results in a journal; an open journal stays open."""
    check_unchanged(context.file)
    for lora in context.loras:
        check_unchanged(lora.file)
    return RecordedCall(
        call,
        journal if isinstance(journal, Journal) else Journal(journal),
        context.file,
        context.numerics,
        lambda tokens: detokenize(context.model, tokens, unparse_special=True),
        loras=context.loras,
        is_kept=isinstance(journal, Journal),
    )


class RecordedCall:
    """A call with a journal; the files of `loras` exist.

    `problem` is during the run the first failure to store results, and later the reason
    why results are not stored, or what happened to the file.
    """

    is_stepped = False

    def __init__(
        self,
        call: Call,
        journal: Journal,
        file: ModelFile,
        context: Mapping[str, object],
        detokenize: Callable[[Sequence[int]], str],
        *,
        loras: Sequence[Lora] = (),
        is_kept: bool = False,
    ) -> None:
        self._is_kept = is_kept
        self._call = call
        self._journal = journal
        self._file = file
        self._context = dict(context)
        self._loras = loras
        self._detokenize = detokenize
        self._settings: dict[object, str] = {}
        self._keys: list[bytes] = []
        self._is_stopped = False
        self.problem = ""

    @property
    def progress(self) -> Progress:
        """Progress of the call."""
        return self._call.progress

    def cancel(self) -> None:
        """Cancel the call, see `Call.cancel`."""
        self._call.cancel()

    def run(self, loop: ThreadedLoop) -> Results:
        """Run the call without prompts that have a stored answer, see `Call.run`."""
        return run_steps(self.steps(loop))

    def steps(self, loop: ThreadedLoop) -> Steps[Results]:
        """Run the call in steps, the first and the last of which may be long."""

        def is_cancelled() -> bool:
            return self._call.is_cancelled or loop.is_closed

        with nullcontext() if self._is_kept else closing(self._journal):
            sha256 = self._hash_of(self._file, is_cancelled)
            if sha256 is None or not self._name_loras(is_cancelled):
                return (yield from self._call.steps(loop))
            self._keys = [
                journal_key(sha256, self._settings_of(request), request)
                for request in self._call.requests
            ]
            known = self._recall(is_cancelled)
            writer = Writer(self._journal, self._note_failure)
            try:
                with writer:
                    results = yield from self._call.steps(
                        loop,
                        known=known,
                        on_output=lambda i, output: writer.put(
                            self._entry(i, output, sha256)
                        ),
                    )
            except BaseException:
                self.problem = writer.problem or self._journal.take_notice()
                raise
            with keeping(results):  # the journal may be damaged since it was opened
                self.problem = (
                    writer.problem or self._journal.take_notice() or self._mixed_up(known)
                )
                if self._is_stopped:
                    self.problem = ""  # the error contains it
                    raise self._stop_error(writer)
            return results

    def _note_failure(self, problem: str) -> None:
        """Report the first failure to store results; called by the writer's thread."""
        if self._journal.is_required:
            self._is_stopped = True
            self._call.cancel()
        else:
            self.problem = (
                f"{problem}; the call continues, keeps its results in memory and tries "
                "again to store them: free space on the disk now"
            )

    def _stop_error(self, writer: Writer) -> JournalError:
        n_stored = self._journal.n_results
        return JournalError(
            f"journal: {writer.problem or writer.first_problem}; the run was stopped, "
            "because further results could not be stored. The journal contains "
            f"{n_stored} results: free space on the disk and repeat the same command, "
            "which continues from them"
        )

    def _mixed_up(self, known: Mapping[int, Output]) -> str:
        """Return a message about ignored stored scores; "" if none were ignored."""
        requests = enumerate(self._call.requests)
        if all(request.tree is None or i in known for i, request in requests):
            return ""
        n = self._journal.n_mixed_up
        return mixed_up(self._journal.path, n) + ", but computed again" if n else ""

    def _recall(self, is_cancelled: Callable[[], bool]) -> dict[int, Output]:
        """Return the stored outputs by index."""
        known: dict[int, Output] = {}
        for i, request in enumerate(self._call.requests):
            if is_cancelled():
                break
            entry = self._journal.find(self._keys[i])
            if entry is not None:
                with refusals("journal", self._journal.path):
                    known[i] = _output(entry, request)
        return known

    def _name_loras(self, is_cancelled: Callable[[], bool]) -> bool:
        """Add the adapters to the settings, sorted; return False if cancelled."""
        names = []
        for lora in self._loras:
            if lora.scale == 0:
                continue
            sha256 = self._hash_of(lora.file, is_cancelled)
            if sha256 is None:
                return False
            names.append([sha256.hex(), lora.scale])
        if names:
            self._context["lora"] = sorted(names)
        return True

    def _hash_of(self, file: ModelFile, is_cancelled: Callable[[], bool]) -> bytes | None:
        stored = self._journal.find_model_hash(file.state)
        if stored is not None:
            file.remember(stored)
            return stored
        sha256 = file.sha256(is_cancelled)
        if sha256 is not None:
            # This check is last, to detect changes of the file while it was read.
            check_unchanged(file)
            self._journal.add_model_hash(file.state, sha256)
        return sha256

    def _settings_of(self, request: Request) -> str:
        which = tuple(settings_of(request).items())
        settings = self._settings.get(which)
        if settings is None:
            settings = self._settings[which] = settings_json(request, self._context)
        return settings

    def _entry(self, i: int, output: Output, sha256: bytes) -> JournalEntry:
        request = self._call.requests[i]
        text = request.text
        is_failed = output.finish is Finish.ERROR
        return JournalEntry(
            prompt=self._text(request.tokens) if text is None else text,
            text=None if is_failed else output.text,
            finish_reason=_REASON[output.finish],
            complete=output.complete,
            error=output.message if is_failed else None,
            n_prompt_tokens=output.n_prompt or request.n_prompt,
            tokens=list(output.tokens),
            seed=request.seed,
            model=self._file.name,
            model_sha256=sha256.hex(),
            settings=self._settings_of(request),
            created=datetime.now(UTC),
            version=VERSION,
            key=self._keys[i].hex(),
            numbers=tuple(numbers_of(output)),
            thinking=output.thinking,
            n_thinking_tokens=output.n_thinking_tokens,
            thinking_complete=output.thinking_complete,
        )

    def _text(self, tokens: Sequence[int]) -> str:
        try:
            return self._detokenize(tokens)
        except ValueError:  # the prompt failed because a token is not in the vocabulary
            return " ".join(map(str, tokens))


def _output(entry: JournalEntry, request: Request) -> Output:
    """Convert a stored entry to the output of a request."""
    output = Output(
        finish=_FINISH[entry.finish_reason],
        text=entry.text or "",
        tokens=entry.tokens,
        n_reused=request.n_prompt,
        n_prompt=entry.n_prompt_tokens,
        seed=request.seed,
        complete=entry.complete,
        thinking=entry.thinking,
        n_thinking_tokens=entry.n_thinking_tokens,
        thinking_complete=entry.thinking_complete,
    )
    return with_numbers(output, request, entry.numbers)


def check_unchanged(file: ModelFile) -> None:
    """Check that the file of a model or an adapter has not changed since loading."""
    if not file.is_unchanged:
        raise JournalError(
            f"journal: the file {file.name!r} has changed since it was loaded, "
            "so that the record would name the wrong model: load it again"
        )


_GROUP_S = 0.1  # maximum time in seconds that a result waits for its commit
_REST = 20  # pause after a failed attempt, in multiples of its duration


class Writer:
    """Thread that stores results: `with writer: writer.put(entry)`.

    If the disk is full or another process locks the file, the thread keeps the results.
    It tries again together with later results, and a last time at the end.

    `on_failure` is called once, with `first_problem`, when the first attempt and its
    repetition fail; not for a lock, which ends by itself. At the end, `problem` is why
    results are not stored.
    """

    def __init__(
        self, journal: Journal, on_failure: Callable[[str], object] = lambda _: None
    ) -> None:
        self._journal = journal
        self._on_failure = on_failure
        self._is_locked = False
        self._queue: SimpleQueue[JournalEntry | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="llamaherd-journal", daemon=True)
        self.first_problem = ""
        self.problem = ""

    def put(self, entry: JournalEntry) -> None:
        """Queue a result; the next commit, within a tenth of a second, stores it."""
        self._queue.put(entry)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        waiting: list[JournalEntry] = []
        is_open = True
        next_s = 0.0  # earliest time of the next attempt
        while is_open:
            group, is_open = self._next_group()
            waiting += group
            started_s = monotonic()
            if is_open and started_s < next_s:
                continue
            # The last attempt is repeated, because no later result follows, and so is the
            # first that fails, because its failure is reported.
            repeats = not is_open or not self.first_problem
            if self._is_stored(waiting) or (repeats and self._is_stored(waiting)):
                waiting = []
            else:  # an attempt takes longer if more results wait
                # The end has its own report.
                if is_open and not self._is_locked and not self.first_problem:
                    self.first_problem = self.problem
                    self._on_failure(self.problem)
                ended_s = monotonic()
                next_s = ended_s + _REST * (ended_s - started_s)

    def _is_stored(self, entries: list[JournalEntry]) -> bool:
        self.problem = ""
        self._is_locked = False
        path = quoted(self._journal.path)
        try:
            self._journal.add(entries)
        except Exception as error:  # noqa: BLE001 - whatever it is, the call must tell
            what = f"{len(entries)} results could not be stored in " if entries else ""
            self.problem = f"{what}{path}: {error}"
            self._is_locked = is_locked(error)
        return not self.problem

    def _next_group(self) -> tuple[list[JournalEntry], bool]:
        """Return the results of the next `_GROUP_S` seconds; True if more may follow."""
        group: list[JournalEntry] = []
        end = 0.0
        while True:
            try:
                left = end - monotonic() if group else None
                entry = self._queue.get(timeout=left if left is None else max(left, 0))
            except Empty:
                return group, True
            if entry is None:
                return group, False
            if not group:
                end = monotonic() + _GROUP_S
            group.append(entry)
