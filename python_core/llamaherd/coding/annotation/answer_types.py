"""Types of answers that a codebook can ask for, as a table with one entry per type.

To add a type, write a class here or in a new file, add its name to `Kind` and an
instance to `TYPES`. Other code reads the attributes of a type; it never tests the name of
the type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import normalize

from llamaherd.calls.structured.quotable import QuoteRule
from llamaherd.calls.structured.quoting import checked_evidence
from llamaherd.calls.structured.shape import schema_text, shape_of
from llamaherd.coding.annotation.scales import scale_of_dict
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.codes import read
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field, argument_of
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.words import setting, words

if TYPE_CHECKING:
    from llamaherd.coding.statistics.ratings import Scale
    from llamaherd.engine.core.argument import Name

Kind = Literal["label", "ordinal", "scale", "multiple", "fields", "spans"]
JOINED = "; "  # separator of several labels of a text
_MAX_LABELS = 10_000
_DEFAULT_MAX_SPANS = 10
_MOST_SPANS = 1000
_LENGTH = QuoteRule(unit="words", least=1, most=60)  # of a passage


@dataclass(frozen=True, slots=True)
class AnswerType:
    """Type of answers with exactly one label per text; base class of the other types.

    Attributes:
        name: Name, the value of `Codebook.type`.
        summary: Summary in a few words.
        takes: Type-specific fields of a codebook that this type accepts.
        is_ordered: True if the labels are ordered from the lowest to the highest.
        is_numeric: True if the labels of this type are always numbers.
        is_several: True if a text may have several labels (multi-label); the model then
            answers a question for each label.
        is_generated: True if answers are generated according to a schema and have no
            probabilities.
        words: Keys of the fixed prompt words that only prompts of this type contain.
    """

    name: Kind
    summary: str
    takes: tuple[str, ...] = ("labels",)
    is_ordered: bool = False
    is_numeric: bool = False
    is_several: bool = False
    is_generated: bool = False
    words: tuple[str, ...] = ()

    @property
    def measured(self) -> Scale:
        """Scale of measurement of the labels."""
        if self.is_numeric:
            return "interval"
        return "ordinal" if self.is_ordered else "nominal"

    def checked(self, type_fields: Mapping[str, Any]) -> dict[str, Any]:
        """Check the fields of a codebook that belong to some types only."""
        return {"labels": _checked_labels(type_fields["labels"], self.name)}

    def example_label(
        self, name: Name, value: object, type_fields: Mapping[str, Any]
    ) -> object:
        """Check the label of an example; `type_fields` is what `checked` returns."""
        return _known_label(name, value, tuple(type_fields["labels"]))

    def check_example(self, name: Argument, text: str, label: Any) -> None:  # noqa: ANN401
        """Check that the label of an example fits its text."""

    def written(self, type_fields: Mapping[str, Any]) -> str:
        """Return the JSON Schema of the model's answer; only for generated types."""
        return str(type_fields["schema"])

    def table(self, type_fields: Mapping[str, Any]) -> str:
        """Return the JSON Schema of results; only for generated types."""
        return self.written(type_fields)

    def read(self, value: object) -> object:
        """Convert an answer that the model wrote to the result for the text."""
        return value


@dataclass(frozen=True, slots=True)
class _Scale(AnswerType):
    """Type of answers with exactly one number of a scale."""

    def checked(self, type_fields: Mapping[str, Any]) -> dict[str, Any]:
        if type_fields["scale"] is None:
            raise ArgumentError(
                f"{setting('type', 'scale')} needs a scale: {words().scale}",
                argument="type",
                code="missing",
                form="{problem}",
            )
        scale = scale_of_dict(type_fields["scale"])
        labels = type_fields["labels"]
        if labels is not None and labels != scale.definitions:
            raise ArgumentError(
                f"cannot be combined with {setting('type', 'scale')}, whose numbers "
                "are the labels",
                argument="labels",
                code="conflict",
            )
        return {"scale": scale, "labels": scale.definitions}


@dataclass(frozen=True, slots=True)
class _Several(AnswerType):
    """Type of answers with any number of labels per text."""

    def checked(self, type_fields: Mapping[str, Any]) -> dict[str, Any]:
        labels = _checked_labels(
            type_fields["labels"], self.name, least=1, between=JOINED.strip()
        )
        return {"labels": labels}

    def example_label(
        self, name: Name, value: object, type_fields: Mapping[str, Any]
    ) -> object:
        several = [value] if isinstance(value, str) else value
        if not isinstance(several, (list, tuple, set, frozenset)):
            raise ArgumentTypeError(
                f"must be a list of labels, not {checks.shown(value)}", argument=name
            )
        names = tuple(type_fields["labels"])
        chosen = [_known_label(name, label, names) for label in several]
        return [label for label in names if label in chosen]


@dataclass(frozen=True, slots=True)
class _Fields(AnswerType):
    """Type of answers in JSON that match a schema."""

    def checked(self, type_fields: Mapping[str, Any]) -> dict[str, Any]:
        if type_fields["schema"] is None:
            raise ArgumentError(
                f"{setting('type', 'fields')} needs a schema",
                argument="type",
                code="missing",
                form="{problem}",
            )
        text, _ = schema_text(type_fields["schema"])
        root = json.loads(text)
        if not isinstance(root, dict) or "properties" not in root:
            raise ArgumentError(
                f"must describe an object with properties, not be {checks.shown(text)}",
                argument="schema",
            )
        try:
            shape_of(text)
        except ValueError as error:
            raise ArgumentError(f"cannot be used: {error}", argument="schema") from None
        return {"schema": text}

    def example_label(
        self, name: Name, value: object, type_fields: Mapping[str, Any]
    ) -> object:
        fields = dict(checks.instance(name, value, (Mapping,), "a mapping of fields"))
        try:
            text = json.dumps(fields, ensure_ascii=False)
            shape_of(type_fields["schema"]).read(text)
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"does not follow the schema: {error}", argument=name
            ) from None
        return json.loads(text)


@dataclass(frozen=True, slots=True)
class _Spans(AnswerType):
    """Type of answers with passages of the text, each with a label."""

    def checked(self, type_fields: Mapping[str, Any]) -> dict[str, Any]:
        labels = _checked_labels(type_fields["labels"], self.name, least=1)
        most, quote = type_fields["max_spans"], type_fields["quote"]
        if isinstance(most, str):  # a codebook file contains these limits as text
            number = checks.digits(most)
            most = most if number is None else number
        if most is not None:
            most = checks.integer("max_spans", most, 1, _MOST_SPANS)
        if quote is not None:
            quote = checked_evidence("quote", quote)
        if isinstance(quote, bool):
            raise ArgumentTypeError(
                f"must be a quote such as {words().quote}", argument="quote"
            )
        return {"labels": labels, "max_spans": most, "quote": quote}

    def example_label(
        self, name: Name, value: object, type_fields: Mapping[str, Any]
    ) -> object:
        passages = value.get(SPANS) if isinstance(value, Mapping) else value
        if not isinstance(passages, (list, tuple)):
            raise ArgumentTypeError(
                f"must be a list of passages, not {checks.shown(value)}", argument=name
            )
        where, labels = argument_of(name), tuple(type_fields["labels"])
        checked = []
        for i, passage in enumerate(passages):
            if not isinstance(passage, Mapping) or set(passage) != {"quote", "label"}:
                raise ArgumentTypeError(
                    f"must have quote and label, not be {checks.shown(passage)}",
                    argument=where.at(i),
                )
            quote = checks.not_blank(where.at(i, Field("quote")), passage["quote"])
            at_label = where.at(i, Field("label"))
            label = _known_label(at_label, passage["label"], labels)
            checked.append({"quote": quote, "label": label})
        return {SPANS: checked}

    def check_example(self, name: Argument, text: str, label: Any) -> None:  # noqa: ANN401
        for i, passage in enumerate(label[SPANS]):
            if passage["quote"] not in text:
                raise ArgumentError(
                    f"is not in the text: {checks.shown(passage['quote'])}",
                    argument=name.at(i, Field("quote")),
                    code="not_found",
                )

    def written(self, type_fields: Mapping[str, Any]) -> str:
        length = type_fields["quote"] or asdict(_LENGTH)
        quote = {"type": "string", "quote": dict(length)}
        return _schema(
            type_fields, quote=quote, label={"enum": list(type_fields["labels"])}
        )

    def table(self, type_fields: Mapping[str, Any]) -> str:
        text, number = {"type": "string"}, {"type": "integer"}
        label = {**text, "enum": list(type_fields["labels"])}
        return _schema(type_fields, label=label, quote=text, start=number, end=number)

    def read(self, value: object) -> object:
        """Return an answer with its distinct passages in the order of the text."""
        if not isinstance(value, Mapping):
            return value
        rows = [{"label": row["label"], **row["quote"]} for row in value[SPANS]]
        passages = {(row["start"], row["end"], row["label"]): row for row in rows}
        return {SPANS: [passages[place] for place in sorted(passages)]}


def _checked_labels(
    labels: object, kind: str, *, least: int = 2, between: str = ""
) -> dict[str, str]:
    """Return definitions by label."""
    definitions: dict[str, str] = {}
    forms: set[str] = set()
    for i, (label, definition) in enumerate(_pairs(labels, kind, least)):
        name = checks.not_blank(Argument("labels", (i,)), label)
        if name != name.strip() or "\n" in name:
            raise ArgumentError(
                f"must be one line without space at its ends, not {name!r}",
                argument="labels",
                place=(i,),
            )
        if between and between in name:
            raise ArgumentError(
                f"must not contain {between!r}, which separates labels: {name!r}",
                argument="labels",
                place=(i,),
            )
        if normalize("NFC", name) in forms:
            raise ArgumentError(
                f"occurs twice: {name!r}", argument="labels", place=(i,), code="duplicate"
            )
        forms.add(normalize("NFC", name))
        what = "" if definition is None else definition
        definitions[name] = checks.text(Argument("labels", (name,)), what)
    return definitions


def _pairs(labels: object, kind: str, least: int) -> list[tuple[Any, Any]]:
    """Return labels with their definitions."""
    if labels is None:
        raise ArgumentError(
            f"{setting('type', kind)} needs labels",
            argument="type",
            code="missing",
            form="{problem}",
        )
    labels = checks.column_as_list(labels)
    if isinstance(labels, (str, bytes)) or not isinstance(labels, (Mapping, Sequence)):
        raise ArgumentTypeError(
            "must be a list of labels, or a mapping from labels to definitions, not "
            f"{checks.shown(labels)}",
            argument="labels",
        )
    pairs = (
        list(labels.items())
        if isinstance(labels, Mapping)
        else [(label, "") for label in labels]
    )
    if not least <= len(pairs) <= _MAX_LABELS:
        raise ArgumentError(
            f"a codebook needs {least} to {_MAX_LABELS:,} labels; it has {len(pairs)}",
            argument="labels",
            code="out_of_range",
            form="{name}: {problem}",
        )
    return pairs


def _known_label(name: Name, value: object, names: Sequence[str]) -> str:
    """Return the label among `names` that a value denotes."""
    label = read([[value]], names, argument=name).columns[0][0]
    if label not in names:
        allowed = ", ".join(repr(label) for label in names[:20])
        raise ArgumentError(
            f"must be one of the labels {allowed}, not {checks.shown(value)}"
            f"{checks.meant(value, names)}",
            argument=name,
            code="unknown_choice",
        )
    return str(label)


def _schema(type_fields: Mapping[str, Any], **fields: Mapping[str, Any]) -> str:
    """Return a JSON Schema of passages with these fields."""
    most = type_fields["max_spans"] or _DEFAULT_MAX_SPANS
    spans = {"type": "array", "items": _object(fields), "maxItems": most}
    return json.dumps(_object({SPANS: spans}), ensure_ascii=False)


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": False,
    }


_ALL = (
    AnswerType("label", "one label per text"),
    AnswerType("ordinal", "one label of an ordered scale per text", is_ordered=True),
    _Scale(
        "scale",
        "one number of a scale per text",
        takes=("scale", "labels"),
        is_ordered=True,
        is_numeric=True,
        words=("number", "numbers", "scale"),
    ),
    _Several("multiple", "any number of labels per text", is_several=True),
    _Fields("fields", "fields that match a schema", takes=("schema",), is_generated=True),
    _Spans(
        "spans",
        "passages, each with a label",
        takes=("labels", "max_spans", "quote"),
        is_generated=True,
    ),
)
TYPES: dict[str, AnswerType] = {answer_type.name: answer_type for answer_type in _ALL}
TYPE_FIELDS = (
    "labels",
    "schema",
    "scale",
    "max_spans",
    "quote",
)  # fields of a codebook that belong to some types only


def checked_type_fields(
    kind: AnswerType, type_fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Check the fields that belong to some types only; see `AnswerType.checked`."""
    for name in TYPE_FIELDS:
        if type_fields[name] is None or name in kind.takes:
            continue
        if name == "labels":
            raise ArgumentError(
                f"cannot be combined with {setting('type', kind.name)}, which has "
                f"a {kind.takes[0]}",
                argument=name,
                code="conflict",
            )
        takers = [answer_type.name for answer_type in _ALL if name in answer_type.takes]
        raise ArgumentError(
            f"goes with {setting('type', takers[0])}, not {kind.name!r}",
            argument=name,
            code="conflict",
        )
    return kind.checked(type_fields)
