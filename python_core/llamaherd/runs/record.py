"""What an output and a journal say of their run: who answered what, and how."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, get_args

from llamaherd.journal.file import DamagedError
from llamaherd.runs.spec import STREAM, canonical_json
from llamaherd.runs.tables import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.model.model import Model
    from llamaherd.runs.inputs import Input
    from llamaherd.runs.spec import RunSpec

# Types of the fields that are not text, by their annotations.
_KINDS: dict[object, type] = {
    "int": int,
    "Mapping[str, Any]": dict,
    "list[list[Any]]": list,
    "list[tuple[str, Kind]]": list,
}

# What outputs must agree on to be of one run, and what a message calls it.
SAME = {
    "model_sha256": "model",
    "lora": "set of adapters",
    "run_sha256": "description of the run",
    "input_sha256": "input",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run, or a shard of one.

    Attributes:
        llamaherd: Version.
        run: The canonical content of its description.
        run_sha256: Hash of that.
        model: Name of the model's file.
        model_sha256: Of its content.
        lora: Hash and scale of each adapter.
        input: Name of the input's file.
        input_sha256: Of its content.
        n_rows: Rows of the input.
        columns: The new ones, and what they hold.
        n_embd: Numbers of a vector; 0: there are none.
        path: Of the input when it ran; "": it was a stream.
        shard: Which of the shards, from 1.
        n_shards: How many there are; 1: it is all of the run.
        n_own: Rows of this shard.
    """

    llamaherd: str
    run: Mapping[str, Any]
    run_sha256: str
    model: str
    model_sha256: str
    lora: list[list[Any]]
    input: str
    input_sha256: str
    n_rows: int
    columns: list[tuple[str, Kind]]
    n_embd: int
    path: str
    shard: int = 1
    n_shards: int = 1
    n_own: int

    def meta(self) -> str:
        """What every output of the run says, as JSON: the same for all its shards."""
        own = ("columns", "n_embd", "shard", "n_shards", "n_own", "path")
        told = {k: v for k, v in dataclasses.asdict(self).items() if k not in own}
        return canonical_json(told)

    def identity(self) -> bytes:
        """Tells this run, and this shard of it, from others, 32 bytes."""
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
    def kinds(self) -> dict[str, Kind]:
        """The new columns."""
        return dict(self.columns)

    def to_json(self) -> str:
        """As it is stored."""
        return canonical_json(dataclasses.asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Record:
        """What `to_json` wrote.

        Raises:
            DamagedError: It is something else.
        """
        try:
            found = cls(**json.loads(text))
            found._check()
        except (TypeError, ValueError, RecursionError) as error:
            raise DamagedError(f"its record of the run cannot be read: {error}") from None
        return found

    def _check(self) -> None:
        """Checks that all fields are of their types: anybody can write a journal.

        Raises:
            TypeError: A field has another type.
            ValueError: A field is out of range.
        """
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if type(value) is not _KINDS.get(each.type, str):
                raise TypeError(f"its {each.name} is {value!r:.60}")
        is_shard = 1 <= self.shard <= self.n_shards
        if not is_shard or min(self.n_rows, self.n_embd, self.n_own) < 0:
            raise ValueError(
                f"it is of shard {self.shard} of {self.n_shards}, with {self.n_own} of "
                f"{self.n_rows} rows and {self.n_embd} numbers a vector"
            )
        kinds = get_args(Kind)
        for column in self.columns:
            name, kind = column
            if type(name) is not str or kind not in kinds:
                raise ValueError(f"it has the column {column!r:.60}")


def record_of(
    spec: RunSpec, model: Model, source: Input, columns: Mapping[str, Kind]
) -> Record:
    """The record of a run.

    Raises:
        ValueError: The file of the model or of an adapter is gone.
    """
    file = model.file
    sha256 = None if file is None else file.sha256()
    if file is None or sha256 is None:
        raise ValueError("the model's file is gone: outputs have to name what answered")
    lora = [
        [(each.file.sha256() or b"").hex(), each.scale]
        for each in model.loras
        if each.file is not None
    ]
    return Record(
        llamaherd=version("llamaherd"),
        run=spec.canonical(),
        run_sha256=spec.hash(),
        model=file.name,
        model_sha256=sha256.hex(),
        lora=sorted(lora),
        input=source.name,
        input_sha256=source.sha256,
        n_rows=source.table.n_rows,
        columns=list(columns.items()),
        n_embd=model.info.n_embd_out if spec.task == "embed" else 0,
        path="" if spec.input == STREAM else str(spec.at("input")),
        n_own=source.table.n_rows,
    )
