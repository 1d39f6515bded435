"""Doing a run: block by block, so that memory holds one block whatever the table is."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from llamaherd.core.errors import JournalError
from llamaherd.journal.day import first_day
from llamaherd.journal.journal import Journal
from llamaherd.model.dates import chat_date
from llamaherd.model.model import Model
from llamaherd.run.context import Context
from llamaherd.runs.asking import Classifying, Embedding, Generating, Unfinished
from llamaherd.runs.columns import prefixed
from llamaherd.runs.inputs import opened
from llamaherd.runs.meter import Meter
from llamaherd.runs.outputs import found_output, locked, warn_of_other_run
from llamaherd.runs.record import record_of
from llamaherd.runs.sharding import own_rows
from llamaherd.runs.spec import STREAM
from llamaherd.runs.store import Store
from llamaherd.runs.writing import checked_output, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from llamaherd.run.host import Host
    from llamaherd.runs.asking import Asker, Values
    from llamaherd.runs.inputs import Input
    from llamaherd.runs.meter import ProgressOption
    from llamaherd.runs.record import Record
    from llamaherd.runs.spec import RunSpec
    from llamaherd.runs.tables import Block, Row

    # What runs prompts: a context, or for embeddings a model.
    OpenHost = Callable[[RunSpec], AbstractContextManager[Host | Model]]

# Rows that are asked together. Slots that are empty at a block's end, and the time that a
# block takes to be prepared, cost less than a hundredth of it.
BLOCK = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a run.

    Attributes:
        n_rows: Rows that were answered, or failed.
        n_failed: Those that failed; their reason is in the output.
        problem: What a user must be warned of; "" if nothing.
    """

    n_rows: int
    n_failed: int
    problem: str = ""


@contextmanager
def on_this_machine(spec: RunSpec) -> Iterator[Host | Model]:
    """What runs prompts here: the run's model, and a context on it."""
    with Model(spec.path, **spec.loading) as model:
        if spec.task == "embed":
            yield model
            return
        with Context(model, **spec.context) as context:
            yield context


def do_run(
    spec: RunSpec,
    *,
    shard: tuple[int, int] | None = None,
    progress: ProgressOption = False,
    overwrite: bool = False,
    open_host: OpenHost = on_this_machine,
    block: int = BLOCK,
) -> Outcome:
    """Does a run, or a shard of it.

    A shard writes no output: its rows are in its journal, for `merge_runs`. Each row is
    answered as in the whole run, whatever the shard.

    Args:
        spec: The run.
        shard: Which of how many, from 1: (3, 50).
        progress: True shows a bar; a function is called with `RunProgress`.
        overwrite: Whether an output that llamaherd did not write may be replaced.
        open_host: Makes what runs prompts.
        block: Rows that are asked together.

    Raises:
        ValueError: The input or the output cannot be used, or another process writes it.
        JournalError: The journal cannot be used.
        ModelLoadError: The model cannot be loaded.
        Unfinished: Ctrl-C, or SIGTERM; what is finished is in the journal.
    """
    with ExitStack() as stack:
        source = stack.enter_context(opened(spec))
        spec.template.check(list(source.table.columns))
        columns = prefixed(spec, source.table.columns)
        path = journal_path(spec, shard)
        output = (
            None if shard is not None or spec.output == STREAM else checked_output(spec)
        )
        journal = None if path is None else Journal(path)
        if journal is not None:
            stack.callback(journal.close)
        told: Mapping[str, object] = {}
        if output is not None:
            stack.enter_context(locked("output", output))
            told = found_output(output, overwrite=overwrite)
        elif shard is not None and journal is not None:
            stack.enter_context(locked("journal", journal.path))
        host = stack.enter_context(open_host(spec))
        model = host if isinstance(host, Model) else host.model
        if journal is not None and model.file is not None:
            known = journal.find_model_hash(model.file.state)
            if known is not None:
                model.file.remember(known)
        record = record_of(spec, model, source, columns)
        if output is not None:
            warn_of_other_run(output, told, record, path)
        if journal is not None:  # a run that is resumed has the prompts of its first day
            stack.enter_context(chat_date(first_day(str(journal.path))))
        run = _Run(spec, source, record, asker_of(spec, host, journal), journal)
        meter = stack.enter_context(Meter(progress))
        if shard is None:
            run.whole(meter, block)
        else:
            run.shard(shard, model, meter, block)
        source.check_unchanged()
        return Outcome(
            n_rows=meter.n_done,
            n_failed=meter.n_failed,
            problem="" if journal is None else journal.notice,
        )


def journal_path(spec: RunSpec, shard: tuple[int, int] | None) -> str | None:
    """Where a run's journal is; None: it has none.

    Raises:
        ValueError: A shard has none.
    """
    if spec.journal:
        return str(spec.folder / spec.journal)
    if shard is not None and (spec.journal == "" or spec.output == STREAM):
        raise ValueError("a shard's answers are in its journal: give it one (--journal)")
    if spec.journal == "" or spec.output == STREAM:
        return None
    which = "" if shard is None else f".{shard[0]}-of-{shard[1]}"
    return f"{spec.at('output')}{which}.journal"


def asker_of(spec: RunSpec, host: Host | Model, journal: Journal | None) -> Asker:
    """What answers the rows of a run."""
    if spec.task == "embed":
        return Embedding(host, spec)
    context = cast("Host", host)
    if spec.task == "classify":
        return Classifying(context, spec, journal)
    return Generating(context, spec, journal)


class _Run:
    """A run whose parts are all there."""

    def __init__(
        self,
        spec: RunSpec,
        source: Input,
        record: Record,
        asker: Asker,
        journal: Journal | None,
    ) -> None:
        self._template = spec.template
        self._spec = spec
        self._source = source
        self._record = record
        self._asker = asker
        self._journal = journal
        # The journal's own rows have no place for vectors.
        self._keeps_rows = spec.task == "embed" and journal is not None

    def whole(self, meter: Meter, size: int) -> None:
        """Answers all rows and writes them."""
        record, source = self._record, self._source
        store = self._store(record) if self._keeps_rows else None
        meter.n_total = record.n_rows
        kinds, meta = record.kinds, record.meta()
        with writing(self._spec, source, kinds, meta, n_embd=record.n_embd) as writer:
            for block in source.table.blocks(size):
                places = range(block.start, block.start + len(block.rows))
                values = self._answered(places, block.rows, meter, store)
                writer.write(block, list(zip(*values, strict=True)))

    def shard(
        self, shard: tuple[int, int], model: Model, meter: Meter, size: int
    ) -> None:
        """Answers the rows of one shard and keeps them in the journal."""
        wanted = own_rows(self._spec, model, self._source.table, shard, size)
        meter.n_total = n_own = int(wanted.sum())
        record = replace(self._record, shard=shard[0], n_shards=shard[1], n_own=n_own)
        store = self._store(record)
        store.begin()
        places: list[int] = []
        rows: list[Row] = []
        for block in self._source.table.blocks(size):
            for i, row in enumerate(block.rows, block.start):
                if wanted[i]:
                    places.append(i)
                    rows.append(row)
            if len(rows) >= size or _is_last(block, record.n_rows):
                self._answered(places, rows, meter, store)
                places, rows = [], []
        if store.n_rows != n_own:
            raise JournalError(
                f"journal: {str(self._path)!r} was removed during the run, and holds "
                f"{store.n_rows} of {n_own} rows: run the shard again, which goes on"
            )

    @property
    def _path(self) -> object:
        return None if self._journal is None else self._journal.path

    def _store(self, record: Record) -> Store:
        if self._journal is None:
            raise ValueError("there is no journal for the rows")
        return Store(self._journal.path, record)

    def _answered(
        self,
        places: Sequence[int],
        rows: Sequence[Row],
        meter: Meter,
        store: Store | None,
    ) -> list[Values]:
        """The new values of rows; a store has them before they are returned."""
        n_none = len(self._record.columns) - 1
        known: dict[int, Values] = {}
        if self._keeps_rows and store is not None and rows:
            known = store.find(places[0], places[-1])
        asked: list[int] = []
        prompts: list[str] = []
        for i, row in zip(places, rows, strict=True):
            if i in known:
                continue
            prompt, problem = "", row.problem
            if not problem:
                prompt, problem = self._template.filled(row.values)
            if problem:
                known[i] = self._failed(n_none, problem)
            else:
                asked.append(i)
                prompts.append(prompt)
        n_bad = sum(own[-1] is not None for own in known.values())
        report = meter.block(len(known), n_bad)
        if prompts:
            known |= self._asked(prompts, asked, report, store)
        values = [known[i] for i in places]
        if store is not None:
            store.add(places, values)
        meter.end_block(len(values), sum(own[-1] is not None for own in values))
        return values

    def _asked(
        self,
        prompts: Sequence[str],
        places: Sequence[int],
        report: Callable[[object], object],
        store: Store | None,
    ) -> dict[int, Values]:
        try:
            values = self._asker.ask(prompts, places, report)
        except Unfinished as unfinished:
            found = zip(places, unfinished.values, strict=False)
            done = {i: own for i, own in found if own is not None}
            if store is not None and done:
                store.add(list(done), list(done.values()))
            raise
        return dict(zip(places, values, strict=True))

    def _failed(self, n_none: int, problem: str) -> Values:
        values: Values = [None] * n_none
        if self._spec.task == "generate":
            values[-1] = "error"  # its finish reason
        return [*values, problem]


def _is_last(block: Block, n_rows: int) -> bool:
    return block.start + len(block.rows) >= n_rows
