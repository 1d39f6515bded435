"""Records of runs for outputs and journals, and the rows that journals store."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.journal import file as journal_file
from llamaherd.calls.journal.file import RUN_TABLES, DamagedError, quoted, refusals
from llamaherd.calls.journal.sqlite import WriteLock, connect, look
from llamaherd.calls.structured.columns import (
    BOOLEAN,
    INTEGER,
    JSON,
    NUMBER,
    STRING,
    VECTOR,
    Column,
)
from llamaherd.engine.core.errors import ArgumentError, JournalError
from llamaherd.engine.model.file import content_of
from llamaherd.tables.spec import RunSpec, canonical_json
from llamaherd.tables.stored import is_stream

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from llamaherd.engine.model.model import Model
    from llamaherd.tables.inputs import Input
    from llamaherd.tables.table import Values

# Types of the fields that are not text, by annotation.
_KINDS: dict[object, type] = {
    "int": int,
    "Mapping[str, Any]": dict,
    "list[list[Any]]": list,
}

# Names of scalar types in records; the names of arrays and objects contain them.
_TYPES = {
    "string": STRING,
    "int64": INTEGER,
    "double": NUMBER,
    "bool": BOOLEAN,
    "json": JSON,
    "vector": VECTOR,
}
_NAMES = {column.kind: name for name, column in _TYPES.items()}

_VECTOR: Mapping[str, Any] = {"vector": True}  # marks the column of the embedding
# Each start time is later than all earlier ones, even if the clock was set back.
_BEGIN = """
INSERT INTO run VALUES (
  ?, ?, max(?, (SELECT coalesce(max(started), 0) + 0.001 FROM run WHERE id <> ?))
)
ON CONFLICT (id) DO UPDATE SET record = excluded.record, started = excluded.started
"""
_ROWS = "SELECT place, value, vector, digest FROM run_row WHERE run = ?"
Stored = tuple[int, str, "bytes | None"]

# Fields that are equal in all outputs of one run, and their names in messages.
SAME = {
    "model_sha256": "model",
    "lora": "set of adapters",
    "run_sha256": "description of the run",
    "input_sha256": "input",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Record of a run, or of one of its shards."""

    llamaherd: str  # version of llamaherd
    run: Mapping[str, Any]  # canonical JSON of the run's description
    run_sha256: str  # SHA-256 of `run`
    model: str  # name of the model file
    model_sha256: str  # SHA-256 of the model file
    lora: list[list[Any]]  # SHA-256 and scale of each LoRA adapter
    input: str  # name of the input file
    input_sha256: str  # SHA-256 of the input file
    n_rows: int  # number of rows of the input
    columns: list[list[Any]]  # name and type of each new column, as JSON
    n_embd: int  # length of an embedding; 0 for a run without embeddings
    path: str  # path of the input at the time of the run; "" for a stream
    shard: int = 1  # number of the shard, from 1
    n_shards: int = 1  # number of shards; 1 for an undivided run
    n_own: int  # number of rows of this shard
    # For a coding, JSON of its record without times, see `Task.record`; a text, because
    # the order of labels matters. "" for another task.
    coding: str = ""

    def meta(self) -> str:
        """JSON for the outputs of the run; equal for all shards."""
        shard_fields = ("columns", "n_embd", "shard", "n_shards", "n_own", "path")
        shared_fields = {
            k: v for k, v in dataclasses.asdict(self).items() if k not in shard_fields
        }
        return canonical_json(shared_fields)

    def identity(self) -> bytes:
        """Return 32 bytes that identify this run and, if divided, this shard."""
        which = [
            self.run_sha256,
            self.model_sha256,
            self.lora,
            self.input_sha256,
            self.shard,
            self.n_shards,
        ]
        return hashlib.sha256(canonical_json(which).encode()).digest()

    @property
    def types(self) -> dict[str, Column]:
        """Return the types of the new columns by name."""
        return {name: _read_type(kind) for name, kind in self.columns}

    def to_json(self) -> str:
        """Return the record as stored JSON."""
        return canonical_json(dataclasses.asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Record:
        """Parse the JSON of `to_json`."""
        try:
            record = cls(**json.loads(text))
            record._check()
        except (TypeError, ValueError, RecursionError) as error:
            raise DamagedError(f"its record of the run cannot be read: {error}") from None
        return record

    def _check(self) -> None:
        """Check the types and ranges of all fields, because a journal may be forged."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if type(value) is not _KINDS.get(field.type, str):
                raise TypeError(f"its {field.name} is {value!r:.60}")
        is_shard = 1 <= self.shard <= self.n_shards
        if not is_shard or min(self.n_rows, self.n_embd, self.n_own) < 0:
            raise ValueError(
                f"its numbers are impossible: shard {self.shard} of {self.n_shards}, "
                f"{self.n_own} of {self.n_rows} rows, vectors of {self.n_embd} numbers"
            )
        for column in self.columns:
            name, kind = column
            if type(name) is not str:
                raise ValueError(f"it has the column {column!r:.60}")
            _read_type(kind)


def record_of(
    spec: RunSpec,
    model: Model,
    source: Input,
    columns: Mapping[str, Column],
    coding: Mapping[str, Any] | None = None,
) -> Record:
    """Return the record of a run."""
    content = content_of(model.file, model.loras)
    if content is None:
        raise ArgumentError(
            "the file of the model, or of an adapter, no longer exists or has changed "
            "since it was loaded: outputs record its hash",
            argument="model",
            code="missing",
            form="{problem}",
        )
    sha256, lora = content
    return Record(
        llamaherd=version("llamaherd"),
        run=spec.canonical(),
        run_sha256=spec.hash(),
        model=model.file.name,
        model_sha256=sha256,
        lora=[list(adapter) for adapter in lora],
        input=source.name,
        input_sha256=source.sha256,
        n_rows=source.table.n_rows,
        columns=[[name, _written_type(column)] for name, column in columns.items()],
        n_embd=model.info.n_embd_out if spec.task == "embed" else 0,
        path="" if is_stream(spec.input) else str(Path(spec.input).absolute()),
        n_own=source.table.n_rows,
        coding=json.dumps(coding, ensure_ascii=False) if coding else "",
    )


def _written_type(column: Column) -> object:
    """Return a type as JSON."""
    if column.items is not None:
        return {"list": _written_type(column.items)}
    if column.fields:
        return {"struct": [[name, _written_type(field)] for name, field in column.fields]}
    return _NAMES[column.kind]


def _read_type(kind: object) -> Column:
    """Parse the JSON of `_written_type`."""
    if isinstance(kind, str) and kind in _TYPES:
        return _TYPES[kind]
    if isinstance(kind, dict) and list(kind) == ["list"]:
        return Column("array", items=_read_type(kind["list"]), is_closed=True)
    if isinstance(kind, dict) and list(kind) == ["struct"]:
        fields = tuple((str(name), _read_type(field)) for name, field in kind["struct"])
        return Column("object", fields=fields, is_closed=True)
    raise ValueError(f"it has a column of type {kind!r:.60}")


class Store:
    """Rows of one run in a journal file, which may be open elsewhere in the process."""

    def __init__(self, path: Path, record: Record) -> None:
        self.path = path
        self._record = record
        self._id = record.identity()
        self._lock = WriteLock(path)

    def begin(self) -> None:
        """Record in the journal that this run has begun."""
        self.add([], [])

    def add(self, positions: Sequence[int], values: Sequence[Values]) -> None:
        """Store rows in one transaction; rows stored earlier are replaced."""
        rows = [_row(i, cells) for i, cells in zip(positions, values, strict=True)]
        with refusals("journal", self.path), closing(self._connect()) as db:
            self._lock.begin(db)
            db.execute(_BEGIN, (self._id, self._record.to_json(), time.time(), self._id))
            db.executemany(
                "INSERT OR REPLACE INTO run_row VALUES (?, ?, ?, ?, ?)",
                [(self._id, *row, _digest(row)) for row in rows],
            )
            db.execute("COMMIT")

    def find(self, first: int, last: int) -> dict[int, Values]:
        """Return the stored rows in a range of positions, without failed rows."""
        with refusals("journal", self.path), closing(self._connect()) as db:
            query = f"{_ROWS} AND place BETWEEN ? AND ?"
            rows = db.execute(query, (self._id, first, last)).fetchall()
            stored = {row[0]: values_of(_check_row(row)) for row in rows}
        return {i: values for i, values in stored.items() if values[-1] is None}

    @property
    def n_rows(self) -> int:
        """Number of stored rows."""
        with refusals("journal", self.path), closing(self._connect()) as db:
            query = "SELECT count(*) FROM run_row WHERE run = ?"
            (number,) = db.execute(query, (self._id,)).fetchone()
        return int(number)

    def _connect(self) -> sqlite3.Connection:
        db = connect(self.path, "mode=rw")
        db.execute("PRAGMA synchronous = FULL")
        for statement in RUN_TABLES.split(";\n"):
            db.execute(statement)
        return db


def read_run(
    path: str | os.PathLike[str],
    name: str,
    use: Callable[[Record, Iterator[Stored]], None],
) -> None:
    """Read the last started run in a journal."""
    file = journal_file.checked_path(name, path)

    def read(db: sqlite3.Connection) -> None:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        latest = "SELECT id, record FROM run ORDER BY started DESC LIMIT 1"
        run = db.execute(latest).fetchone() if "run_row" in tables else None
        if run is None:
            raise JournalError(
                f"{name}: {quoted(file)} has no rows to merge: it is not the journal of "
                "a run with --shard i/n"
            )
        rows = db.execute(f"{_ROWS} ORDER BY place", (run[0],))
        use(Record.of_json(run[1]), map(_check_row, rows))

    with refusals(name, file):
        if not file.is_file():
            raise FileNotFoundError(2, "there is no such file")
        journal_file.check(name, file)
        look(file, read)


def values_of(stored: Stored) -> Values:
    """Return the values of the new columns of a stored row."""
    values: list[object] = json.loads(stored[1])
    if stored[2] is not None:
        vector = np.frombuffer(stored[2], dtype="<f4").astype(np.float32)
        values[values.index(_VECTOR)] = vector
    return values


def _row(position: int, values: Values) -> Stored:
    vector = None
    plain: list[object] = []
    for value in values:
        if isinstance(value, np.ndarray):
            vector = value.astype("<f4").tobytes()
            plain.append(_VECTOR)
        else:
            plain.append(value)
    text = json.dumps(plain, ensure_ascii=True, separators=(",", ":"), default=str)
    return position, text, vector


def _check_row(row: tuple[Any, ...]) -> Stored:
    stored: Stored = (row[0], row[1], row[2])
    if _digest(stored) != row[3]:
        raise DamagedError(f"the data stored for row {row[0] + 1} were changed")
    return stored


def _digest(row: Stored) -> bytes:
    return hashlib.blake2b(repr(row).encode(), digest_size=8).digest()
