"""Codebooks: what is asked of each text, what may be answered, and examples."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal

from llamaherd.core import checks
from llamaherd.research.codes import read
from llamaherd.research.coding.words import words_of
from llamaherd.structured.shape import shape_of
from llamaherd.structured.source import schema_text

Kind = Literal["label", "ordinal", "multiple", "fields"]
KINDS: tuple[Kind, ...] = ("label", "ordinal", "multiple", "fields")
JOINED = "; "  # between several labels of a text
_MAX_LABELS = 10_000
_FORMAT = 1  # of what is hashed


@dataclass(frozen=True, slots=True)
class Example:
    """A text that was coded already, for the model to see how.

    Attributes:
        text: It is.
        label: Its label; of several at once a sequence of them; of fields a dict.
        reason: Why, in a sentence; None: it is not told.
    """

    text: str
    label: Any
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Codebook:
    """What is asked of each text, and what may be answered.

    Attributes:
        question: What is to be done, in words for the model.
        labels: Definitions by label, in their order; "" where one has none. A dict; may
            be given as a list of labels without definitions.
        type: "label": one of them; "ordinal": one, and their order has a meaning, from
            least to most; "multiple": any number of them; "fields": JSON by `schema`.
        schema: For "fields": a JSON Schema, as JSON text. May be given as
            `generate_parallel` takes one: a dict, a file, a pydantic model.
        examples: Texts that were coded already, a tuple of `Example`. May be given as
            mappings or tuples.
        text_role: What the prompt calls a text; None: "Text" in its language.
        answer_role: What it calls an answer; None: "Label" in its language.
        language: Of the fixed words, and told to the model as that of the texts: "en",
            "de", "fr", "es", or another one with all of its `words`. None: English words,
            and the model is told nothing.
        words: Fixed words to use in place of ours; see `words.KEYS`.
        system: Text of a system message; without chat it comes first in the prompt.

    Raises:
        TypeError: Something has the wrong type.
        ValueError: A text is empty; a label is there twice, or an example's is none of
            the labels.
    """

    question: str
    labels: Mapping[str, str] | Sequence[str] | None = None
    _: KW_ONLY
    type: Kind = "label"
    schema: Any = None
    examples: Sequence[Any] = ()
    text_role: str | None = None
    answer_role: str | None = None
    language: str | None = None
    words: Mapping[str, str] | None = None
    system: str | None = None

    def __post_init__(self) -> None:
        """Checks all of it, and brings it into one form."""

        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        keep("question", _filled("question", self.question))
        keep("type", checks.choice("type", self.type, KINDS))
        for name in ("text_role", "answer_role", "language", "system"):
            value = getattr(self, name)
            keep(name, None if value is None else _filled(name, value))
        if self.words is not None and not isinstance(self.words, Mapping):
            raise TypeError(
                f"words must map names to texts, not be {checks.shown(self.words)}"
            )
        words_of(self.language, self.words)
        keep("words", dict(self.words) if self.words else None)
        if self.type == "fields":
            if self.labels is not None:
                raise ValueError(
                    "labels do not go with type='fields', which has a schema"
                )
            if self.schema is None:
                raise ValueError("type='fields' needs a schema")
            keep("schema", _checked_schema(self.schema))
        else:
            if self.schema is not None:
                raise ValueError(f"schema goes with type='fields', not {self.type!r}")
            keep("labels", _checked_labels(self.labels, self.type))
        keep("examples", self._checked_examples())

    @property
    def names(self) -> tuple[str, ...]:
        """The labels; () for fields."""
        return tuple(self.labels or ())

    @property
    def definitions(self) -> dict[str, str]:
        """Definitions by label, "" where one has none; {} for fields."""
        return dict(self.labels) if isinstance(self.labels, Mapping) else {}

    @property
    def fixed(self) -> dict[str, str]:
        """All fixed words, with the roles of text and answer."""
        words = words_of(self.language, self.words)
        if self.text_role is not None:
            words["text"] = self.text_role
        if self.answer_role is not None:
            words["answer"] = self.answer_role
        return words

    @property
    def hash(self) -> str:
        """SHA-256 of its content, as 64 hexadecimal digits.

        Of JSON without spaces, in UTF-8, of what `to_dict` returns, with labels as a list
        of pairs: their order counts.
        """
        content = self.to_dict()
        if self.labels is not None:
            content["labels"] = list(self.definitions.items())
        text = json.dumps(
            [_FORMAT, content], ensure_ascii=False, sort_keys=False, separators=(",", ":")
        )
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Its content, JSON-able, without what has not been said."""
        content: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None or value == () or each.name == "_":
                continue
            content[each.name] = value
        if self.labels is not None:
            content["labels"] = self.definitions
        if self.schema is not None:
            content["schema"] = json.loads(self.schema)
        if self.words is not None:
            content["words"] = dict(sorted(self.words.items()))
        if self.examples:
            content["examples"] = [_example_dict(each) for each in self.examples]
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Codebook:
        """A codebook of what `to_dict` returned.

        Raises:
            TypeError: As the class.
            ValueError: As the class; or there is a field that it does not have.
        """
        known = [each.name for each in fields(cls) if each.name != "_"]
        for name in content:
            if name not in known:
                raise ValueError(
                    f"{name} is no field of a codebook; it has {', '.join(known)}"
                )
        if "question" not in content:
            raise ValueError("question is missing")
        return cls(**dict(content))

    def _checked_examples(self) -> tuple[Example, ...]:
        given = self.examples
        if isinstance(given, (str, Mapping)) or not isinstance(given, Sequence):
            raise TypeError(f"examples must be a list, not {checks.shown(given)}")
        return tuple(
            self._example(f"examples[{i}]", each) for i, each in enumerate(given)
        )

    def _example(self, name: str, given: object) -> Example:
        if isinstance(given, Mapping):
            for key in given:
                if key not in ("text", "label", "reason"):
                    raise ValueError(
                        f"{name}.{key} is no field of an example; it has text, label, "
                        "reason"
                    )
            for key in ("text", "label"):
                if key not in given:
                    raise ValueError(f"{name}.{key} is missing")
            given = Example(given["text"], given["label"], given.get("reason"))
        elif isinstance(given, (tuple, list)) and len(given) in (2, 3):
            given = Example(*given)
        elif not isinstance(given, Example):
            raise TypeError(
                f"{name} must be an Example, a mapping or (text, label, reason), not "
                f"{checks.shown(given)}"
            )
        reason = given.reason
        return Example(
            text=_filled(f"{name}.text", given.text),
            label=self._example_label(f"{name}.label", given.label),
            reason=None if reason is None else _filled(f"{name}.reason", reason),
        )

    def _example_label(self, name: str, value: object) -> object:
        if self.type == "fields":
            return _checked_fields(name, value, str(self.schema))
        if self.type == "multiple":
            several = [value] if isinstance(value, str) else value
            if not isinstance(several, (list, tuple, set, frozenset)):
                raise TypeError(f"{name} must be a list of labels, not {value!r}")
            chosen = [self._known(name, each) for each in several]
            return [each for each in self.names if each in chosen]
        return self._known(name, value)

    def _known(self, name: str, value: object) -> str:
        label = read([[value]], self.names, argument=name).columns[0][0]
        if label not in self.names:
            allowed = ", ".join(repr(label) for label in self.names[:20])
            raise ValueError(
                f"{name} must be one of the labels {allowed}, not {checks.shown(value)}"
                f"{checks.meant(value, self.names)}"
            )
        return str(label)

    def __str__(self) -> str:
        return "\n".join(page(self))


def page(codebook: Codebook, width: int = 72) -> list[str]:
    """A codebook as people read it: its lines."""
    what = {
        "label": "one label a text",
        "ordinal": "one label a text, in order",
        "multiple": "any number of labels a text",
        "fields": "fields by a schema",
    }[codebook.type]
    lines = [f"<Codebook> {what} ({codebook.hash[:8]})", "", codebook.question]
    if codebook.system is not None:
        lines += ["", f"System: {codebook.system}"]
    if codebook.labels:
        lines += ["", "Labels"]
        wide = min(24, max(map(len, codebook.names)))
        for label, definition in codebook.definitions.items():
            lines.append(f"  {label:<{wide}}  {definition}".rstrip())
    if codebook.schema is not None:
        lines += ["", "Fields", *_schema_lines(json.loads(codebook.schema))]
    if codebook.examples:
        lines += ["", f"Examples ({len(codebook.examples)})"]
        for each in codebook.examples:
            text = " ".join(each.text.split())
            shown = text if len(text) <= width else f"{text[: width - 3]}..."
            lines += [f"  {shown}", f"    -> {shown_label(each.label)}"]
            if each.reason is not None:
                lines[-1] += f" ({each.reason})"
    told = codebook.fixed["told"]
    if told:
        lines += ["", told]
    return lines


def shown_label(label: object) -> str:
    """An example's label as text."""
    if isinstance(label, str):
        return label
    if isinstance(label, list):
        return JOINED.join(label)
    return json.dumps(label, ensure_ascii=False)


def _schema_lines(schema: Any) -> list[str]:  # noqa: ANN401 - JSON
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ["  any JSON"]
    return [
        f"  {name}: {json.dumps(field, ensure_ascii=False)}"
        for name, field in properties.items()
    ]


def _example_dict(example: Example) -> dict[str, Any]:
    found = {"text": example.text, "label": example.label}
    return found if example.reason is None else {**found, "reason": example.reason}


def _filled(name: str, value: object) -> str:
    text = checks.text(name, value)
    if not text.strip():
        raise ValueError(f"{name} must not be empty")
    if "\0" in text:
        raise ValueError(f"{name} must have no NUL character")
    return text


def _checked_labels(labels: object, kind: Kind) -> dict[str, str]:
    if labels is None:
        raise ValueError(f"type={kind!r} needs labels")
    if isinstance(labels, (str, bytes)) or not isinstance(labels, (Mapping, Sequence)):
        raise TypeError(
            "labels must be a list of labels or map them to definitions, not be "
            f"{checks.shown(labels)}"
        )
    pairs = (
        list(labels.items())
        if isinstance(labels, Mapping)
        else [(label, "") for label in labels]
    )
    least = 1 if kind == "multiple" else 2
    if not least <= len(pairs) <= _MAX_LABELS:
        raise ValueError(f"labels must be {least} to {_MAX_LABELS}, not {len(pairs)}")
    made: dict[str, str] = {}
    for i, (label, definition) in enumerate(pairs):
        name = _filled(f"labels[{i}]", label)
        if name != name.strip() or "\n" in name:
            raise ValueError(
                f"labels[{i}] must be one line without space at its ends, not {name!r}"
            )
        if kind == "multiple" and JOINED.strip() in name:
            raise ValueError(
                f"labels[{i}] must have no {JOINED.strip()!r}, which stands between "
                f"several, not {name!r}"
            )
        if name in made:
            raise ValueError(f"labels[{i}] is there twice: {name!r}")
        what = "" if definition is None else definition
        made[name] = checks.text(f"definition of {name!r}", what)
    return made


def _checked_schema(schema: object) -> str:
    text, _ = schema_text(schema)
    root = json.loads(text)
    if not isinstance(root, dict) or "properties" not in root:
        raise ValueError(
            f"schema must be of an object with properties, not {checks.shown(text)}"
        )
    return text


def _checked_fields(name: str, value: object, schema: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping of fields, not {checks.shown(value)}")
    try:
        text = json.dumps(dict(value), ensure_ascii=False)
        shape_of(schema).read(text)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} does not follow the schema: {error}") from None
    made: dict[str, Any] = json.loads(text)
    return made
