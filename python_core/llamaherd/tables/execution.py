"""Execution of a run, with only one block of rows in memory at a time."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.calls.chat.chat import chat_date
from llamaherd.calls.journal.file import first_day
from llamaherd.calls.journal.journal import Journal
from llamaherd.calls.run.context import Context
from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.errors import (
    ArgumentError,
    Interrupted,
    JournalError,
    is_cancelled,
)
from llamaherd.engine.core.keeping import kept_results
from llamaherd.engine.core.progress import JobProgress, reporter
from llamaherd.engine.model.model import Model
from llamaherd.tables.inputs import Input, open_input, own_rows
from llamaherd.tables.outputs import (
    check_reader,
    checked_output,
    found_output,
    locked_file,
    warn_of_other_run,
    writing,
)
from llamaherd.tables.record import Record, Store, record_of
from llamaherd.tables.spec_keys import of_table
from llamaherd.tables.stored import STREAM
from llamaherd.tables.table import growing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from llamaherd.calls.run.host import Host
    from llamaherd.calls.structured.columns import Column
    from llamaherd.tables.spec import RunSpec
    from llamaherd.tables.table import Row, Values
    from llamaherd.tasks.task import Cells, Task

    # True shows a bar; a function is called with each RunProgress.
    ProgressOption = bool | Callable[["RunProgress"], object]
    # Object that runs prompts: a context; for embeddings, a model.
    OpenHost = Callable[[RunSpec], AbstractContextManager[Host | Model]]

# Rows per block. At this size, idle slots at the end of a block and the preparation of
# the block take less than one percent of the block's time.
BLOCK = 8192
_STORED = 256  # rows after which results are stored that calls do not journal
_FINISH = "finish_reason"  # column of a task that generates


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress(JobProgress):
    """Progress of a run in rows."""

    n_done: int  # answered or failed
    n_failed: int
    n_total: int
    elapsed_s: float

    unit: ClassVar[str] = "rows"

    @property
    def line(self) -> str:
        """Return a line with the speed in rows per second."""
        text = f"{self.n_done / max(self.elapsed_s, 0.001):.1f} rows/s"
        return f"{text}, {self.n_failed} failed" if self.n_failed else text


@dataclass(slots=True)
class Meter:
    """Adds up the rows of finished blocks."""

    report: Callable[[RunProgress], object]  # as `reporter` yields it
    check: Callable[[], object]  # called before each report
    started_s: float = field(default_factory=perf_counter)
    n_total: int = 0  # rows of the run
    n_done: int = 0  # rows of finished blocks
    n_failed: int = 0
    n_cut: int = 0  # rows of finished blocks that `max_tokens` cut off

    def block(self, n_known: int, n_failed: int) -> Callable[[Any], object]:
        """Return the progress callback of a block with `n_known` known rows."""

        def report(progress: Any) -> None:  # of any task
            self._report_progress(n_known + progress.n_done, n_failed + progress.n_failed)

        return report

    def end_block(self, n_rows: int, n_failed: int, n_cut: int) -> None:
        """Add the rows of a finished block to the totals."""
        self.n_cut += n_cut
        self.n_done += n_rows
        self.n_failed += n_failed
        self._report_progress(0, 0)

    def _report_progress(self, n_done: int, n_failed: int) -> None:
        self.check()
        self.report(
            RunProgress(
                n_done=self.n_done + n_done,
                n_failed=self.n_failed + n_failed,
                n_total=self.n_total,
                elapsed_s=perf_counter() - self.started_s,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a run."""

    n_rows: int  # number of rows that were answered or failed
    n_failed: int  # number of rows that failed; the output contains the reasons
    n_cut: int = 0  # number of rows whose answer `max_tokens` ended
    problem: str = ""  # warning for the user; "" without a warning
    # Description of the computation of the rows; "" if the task has no description.
    summary: str = ""
    error_column: str = "error"  # name of the output's column with the reasons


class Unfinished(KeyboardInterrupt):
    """Raised when Ctrl-C or SIGTERM ended a run."""


def prefixed_columns(
    spec: RunSpec, task: Task[Any], taken: Iterable[str]
) -> dict[str, Column]:
    """Return the types of a run's new columns by name, which the input must not have."""
    columns = {spec.prefix + role: column for role, column in task.columns.items()}
    both = [name for name in taken if name in columns]
    if both:
        raise ArgumentError(
            f"the input already has a column {both[0]!r}, which this run would add: give "
            "the new columns a prefix, such as prefix = 'llm_' (--prefix llm_)",
            code="taken",
        )
    return columns


@contextmanager
def on_this_machine(spec: RunSpec) -> Iterator[Host | Model]:
    """Open the model of a run, and a context on it."""
    with ExitStack() as stack:
        with of_table("model"):
            model = stack.enter_context(Model(spec.path, **spec.loading))
        if spec.task == "embed":
            yield model
            return
        with of_table("context"):
            context = stack.enter_context(Context(model, **spec.context))
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
    """Execute a run, or one shard of it, which stores its rows only in its journal."""
    with ExitStack() as stack:
        if shard is not None:
            _check_shardable(spec)
        source = stack.enter_context(open_input(spec))
        spec.template.check(list(source.table.columns))
        prefixed_columns(spec, spec.row_task, source.table.columns)
        path = journal_path(spec, shard)
        is_stream = shard is None and spec.output == STREAM
        output = None if is_stream or shard is not None else checked_output(spec)
        journal = None if path is None else Journal(path)
        if journal is not None:
            journal.is_required = True
            stack.callback(journal.close)
        old_record: Mapping[str, object] = {}
        if output is not None:
            stack.enter_context(locked_file("output", output))
            old_record = found_output(output, overwrite=overwrite)
        elif shard is not None and journal is not None:
            stack.enter_context(locked_file("journal", journal.path))
        host = stack.enter_context(open_host(spec))
        model = host if isinstance(host, Model) else host.model
        if journal is not None:
            known = journal.find_model_hash(model.file.state)
            if known is not None:
                model.file.remember(known)
        task = spec.row_task.of_model(model)
        columns = prefixed_columns(spec, task, source.table.columns)
        if journal is not None:  # in prompts, a resumed run uses the date of its start
            stack.enter_context(chat_date(first_day(str(journal.path))))
        record = record_of(spec, model, source, columns, task.record(host))
        if output is not None:
            warn_of_other_run(output, old_record, record, path)
        run = _Run(spec, task, source, record, host, journal)
        block = block if task.is_journalled else min(block, _STORED)
        report = stack.enter_context(reporter(progress))
        meter = Meter(report, check_reader if is_stream else lambda: None)
        if shard is None:
            run.whole(meter, block)
        else:
            run.shard(shard, model, meter, block)
        return Outcome(
            n_rows=meter.n_done,
            n_failed=meter.n_failed,
            n_cut=meter.n_cut,
            problem="" if journal is None else journal.take_notice(),
            summary=task.summary,
            error_column=spec.error_column,
        )


def first_prompt(spec: RunSpec) -> str:
    """Return the prompt of the first row; load the model only for its chat template."""
    with ExitStack() as stack:
        source = stack.enter_context(open_input(spec))
        spec.template.check(list(source.table.columns))
        block = next(source.table.blocks(1), None)
        text, problem = "", "has no row"
        if block is not None:
            text, problem = spec.template.filled(block.rows[0])
        if problem:
            raise ArgumentError(problem, argument="input")
        model = None
        if spec.row_task.chat:
            with of_table("model"):
                model = stack.enter_context(Model(spec.path, **spec.loading))
        return spec.row_task.prompt(text, model)


def _check_shardable(spec: RunSpec) -> None:
    """Check that rows of a run can be computed without the other rows."""
    if spec.row_task.reads_all:
        for name in ("until", "larger"):
            if spec.annotate.get(name) is not None:
                raise ArgumentError(
                    "selects texts from all rows of the table, but a shard has only some "
                    "rows: run without shards",
                    argument=f"[annotate] {name}",
                    code="needs_all_rows",
                )
        raise ArgumentError(
            'is "batch", which is fitted to all rows of the table, but a shard has only '
            'some rows: use "contextual", or run without shards',
            argument="[annotate] calibrate",
            code="needs_all_rows",
        )


def journal_path(spec: RunSpec, shard: tuple[int, int] | None) -> str | None:
    """Return the path of the journal of a run; None without a journal."""
    if spec.journal:
        return spec.journal
    if spec.journal == "" or spec.output == STREAM:
        if shard is None:
            return None
        raise ArgumentError(
            "a shard stores its answers in a journal: set one (--journal)",
            argument="journal",
            code="missing",
            form="{problem}",
        )
    which = "" if shard is None else f".{shard[0]}-of-{shard[1]}"
    return f"{spec.output}{which}.journal"


@dataclass
class _Run:
    """A run that is ready to be executed."""

    spec: RunSpec
    task: Task[Any]
    source: Input
    record: Record
    host: Host | Model
    journal: Journal | None
    has_noted: bool = False

    def whole(self, meter: Meter, size: int) -> None:
        """Answer all rows and write them."""
        record, table, n_written = self.record, self.source.table, 0
        is_journalled, reads_all = self.task.is_journalled, self.task.reads_all
        store = None if is_journalled else self._store(record)
        meter.n_total = record.n_rows
        size = max(1, record.n_rows) if reads_all else size
        # The reader of a stream sees the first rows soon.
        is_early = self.spec.output == STREAM and not reads_all
        blocks = growing(table, size) if is_early else table.blocks(size)
        try:
            with writing(self.spec, self.source, record.types, record.meta()) as writer:
                for block in blocks:
                    positions = range(block.start, block.start + len(block.rows))
                    values = self._answer_rows(positions, block.rows, meter, store)
                    writer.write(block, list(zip(*values, strict=True)))
                    n_written += len(block.rows)
                self.source.check_unchanged()  # before the output is complete
        except KeyboardInterrupt as error:
            vars(error)["n_written"] = n_written
            raise

    def shard(
        self, shard: tuple[int, int], model: Model, meter: Meter, size: int
    ) -> None:
        """Answer the rows of one shard and store them in the journal."""
        table = self.source.table
        is_own = own_rows(self.spec, model, table, shard, size)
        meter.n_total = n_own = int(is_own.sum())
        record = replace(self.record, shard=shard[0], n_shards=shard[1], n_own=n_own)
        store = self._store(record)
        assert store is not None  # noqa: S101 - see `journal_path`
        store.begin()
        pending: dict[int, Row] = {}
        for block in table.blocks(size):
            pending |= {
                i: row for i, row in enumerate(block.rows, block.start) if is_own[i]
            }
            is_last = block.start + len(block.rows) >= record.n_rows
            if len(pending) >= size or is_last:
                self._answer_rows(list(pending), list(pending.values()), meter, store)
                pending = {}
        self.source.check_unchanged()
        if store.n_rows != n_own:
            raise JournalError(
                f"journal: {str(store.path)!r} was removed during the run, and contains "
                f"{store.n_rows} of {n_own} rows: run the shard again to complete it"
            )

    def _store(self, record: Record) -> Store | None:
        return None if self.journal is None else Store(self.journal.path, record)

    def _answer_rows(
        self,
        positions: Sequence[int],
        rows: Sequence[Row],
        meter: Meter,
        store: Store | None,
    ) -> list[Values]:
        """Return the new values of rows after the store has saved them."""
        known: dict[int, Values] = {}
        if store is not None and not self.task.is_journalled and rows:
            known = store.find(positions[0], positions[-1])
        stored, template = set(known), self.spec.template
        places: list[int] = []
        prompts: list[str] = []
        for i, row in zip(positions, rows, strict=True):
            if i in known:
                continue
            prompt, problem = template.filled(row)
            if problem:
                known[i] = list(self.task.failed(problem).values())
            else:
                places.append(i)
                prompts.append(prompt)
        n_bad = sum(cells[-1] is not None for cells in known.values())
        report = meter.block(len(known), n_bad)
        if prompts:
            known |= self._ask_model(prompts, places, report, store)
        values = [known[i] for i in positions]
        if store is not None:
            new = [i for i in positions if i not in stored]
            store.add(new, [known[i] for i in new])
        n_failed = sum(cells[-1] is not None for cells in values)
        roles = list(self.task.columns)
        at = roles.index(_FINISH) if _FINISH in roles else None
        n_cut = 0 if at is None else sum(cells[at] == "length" for cells in values)
        meter.end_block(len(values), n_failed, n_cut)
        return values

    def _ask_model(
        self,
        prompts: Sequence[str],
        positions: Sequence[int],
        report: Callable[[object], object],
        store: Store | None,
    ) -> dict[int, Values]:
        """Return the new cells of rows; if the call ends early, store finished rows."""
        task = self.task
        try:
            cells = task.answer(
                self.host, prompts, positions, journal=self.journal, report=report
            )
        except (Interrupted, Exception) as error:
            results = (
                error.results if isinstance(error, Interrupted) else kept_results(error)
            )
            if not task.is_journalled and results is not None:
                rows = dict(zip(positions, _rows(task.rows(results)), strict=True))
                done = {i: row for i, row in rows.items() if not is_cancelled(row[-1])}
                if store is not None and done:
                    store.add(list(done), list(done.values()))
            if isinstance(error, Interrupted):
                raise Unfinished("interrupted") from None
            raise
        if not self.has_noted:  # the warning is issued once per run, in its first block
            self.has_noted = True
            warn_notes(task.notes(cells))
        return dict(zip(positions, _rows(cells), strict=True))


def _rows(cells: Cells) -> list[Values]:
    return [list(row) for row in zip(*cells.values(), strict=True)]
