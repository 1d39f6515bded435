"""Codebooks: a question, labels or fields, and examples."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from llamaherd.coding.annotation.answer_types import (
    JOINED,
    TYPE_FIELDS,
    TYPES,
    AnswerType,
    Kind,
    checked_type_fields,
)
from llamaherd.coding.annotation.scales import NumberScale, numbers_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field
from llamaherd.engine.core.declaration import suggests_names
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import MOST_ROWS, first_rows
from llamaherd.engine.core.plain import is_missing

_FORMAT = 1  # version of the hashed content
# Words that another language may omit; the English words are then used.
_OPTIONAL = frozenset({"quote"})
# words that only some codebooks need
_OF_TYPES = frozenset(("number", "numbers", "scale"))


@suggests_names
@dataclass(frozen=True, slots=True)
class Example:
    """Coded text that shows the model how to answer.

    Attributes:
        text: The text.
        label: Label of the text; for type "multiple" a sequence of labels; for type
            "fields" a dict; for type "spans" a list of passages, each a dict with quote
            and label.
        reason: Reason for the label, in a sentence; None for no reason.
    """

    text: str
    label: Any
    reason: str | None = None


@suggests_names
@dataclass(frozen=True, slots=True)
class Codebook:
    """Codebook: instructions, labels or fields, and examples.

    Attributes:
        question: Task, in words for the model.
        labels: Dict from each label to its definition, in order; "" for a label without a
            definition. You can also pass a list of labels.
        type: "label": exactly one label; "ordinal": one label of an ordered scale, from
            lowest to highest; "scale": one number of `scale`; "multiple": any number of
            labels; "fields": JSON that matches `schema`; "spans": passages of the text,
            each with a label.
        schema: For "fields": a JSON Schema, as JSON text. You can also pass the forms
            that `generate_parallel` accepts: a dict, a file, a pydantic model.
        scale: For "scale": a `number_scale`, or a mapping with "from", "to", "step" and
            "names". You can also pass a `number_scale` as `labels`, without `type`. The
            labels are then the numbers of the scale; the definitions are the names of the
            numbers.
        max_spans: For "spans": maximum number of passages of a text; None for 10.
        quote: For "spans": length of a passage, as `structured.type_quote` returns it;
            None for 1 to 60 words.
        examples: Coded texts, a tuple of `Example`. You can also pass mappings or tuples.
        text_role: Word before each text in the prompt; None for "Text" in the prompt's
            language.
        answer_role: Word before each answer in the prompt; None for "Label" in the
            prompt's language.
        language: Language of the fixed words: "en", "de", "fr", "es"; or another
            language, if `words` contains all fixed words. The prompt states that the
            texts are in this language. None for English words without this statement.
        words: Replacements of fixed words by key, such as "answer", "yes" or "no".
        system: Text of the system message; without `chat`, the prompt begins with this
            text.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A text is empty, a label occurs twice, or an example's label is not
            among the labels.
    """

    question: str
    labels: Mapping[str, str] | Sequence[str] | NumberScale | None = None
    _: KW_ONLY
    type: Kind = "label"
    schema: Any = None
    scale: Any = None
    examples: Sequence[Any] = ()
    text_role: str | None = None
    answer_role: str | None = None
    language: str | None = None
    words: Mapping[str, str] | None = None
    system: str | None = None
    max_spans: int | None = None
    quote: Any = None

    def __post_init__(self) -> None:
        """Check all fields and normalize them."""

        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        if isinstance(self.labels, NumberScale) and self.scale is None:
            keep("scale", self.labels)
            keep("labels", None)
            keep("type", "scale" if self.type == "label" else self.type)
        keep("question", checks.not_blank("question", self.question))
        keep("type", checks.choice("type", self.type, tuple(TYPES)))
        for name in ("text_role", "answer_role", "language", "system"):
            value = getattr(self, name)
            keep(name, None if value is None else checks.not_blank(name, value))
        if self.words is not None and not isinstance(self.words, Mapping):
            raise ArgumentTypeError(
                f"must map names to texts, not be {checks.brief(self.words)}",
                argument="words",
            )
        words_of(self.language, self.words, self.kind.words)
        keep("words", dict(self.words) if self.words else None)
        for name, value in checked_type_fields(self.kind, self._type_fields).items():
            keep(name, value)
        keep("examples", self._checked_examples())

    @property
    def kind(self) -> AnswerType:
        """Entry of the codebook's type in the table of answer types."""
        return TYPES[self.type]

    @property
    def _type_fields(self) -> dict[str, Any]:
        """Fields that only some types have: a dict from the field's name to its value."""
        return {name: getattr(self, name) for name in TYPE_FIELDS}

    @property
    def written_schema(self) -> str:
        """JSON Schema of the model's answer, for types that are generated."""
        return self.kind.written(self._type_fields)

    @property
    def table_schema(self) -> str:
        """JSON Schema of results, for types that are generated."""
        return self.kind.table(self._type_fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The labels; () for fields."""
        return tuple(self.definitions)

    @property
    def numbers(self) -> tuple[int | float, ...] | None:
        """Labels as numbers, if they are ordered and all are numbers; else None."""
        return numbers_of(self.names) if self.kind.is_ordered else None

    @property
    def definitions(self) -> dict[str, str]:
        """Definitions by label, "" for a label without a definition; {} for fields."""
        return dict(self.labels) if isinstance(self.labels, Mapping) else {}

    @property
    def fixed(self) -> dict[str, str]:
        """All fixed words by key, including the words before text and answer."""
        words = words_of(self.language, self.words, self.kind.words)
        if self.kind.is_numeric:
            words["answer"] = words["number"]
        if self.text_role is not None:
            words["text"] = self.text_role
        if self.answer_role is not None:
            words["answer"] = self.answer_role
        return words

    @property
    def hash(self) -> str:
        """SHA-256 of the content, as 64 hexadecimal digits.

        The hash is computed from the result of `to_dict` as compact JSON in UTF-8. Labels
        are a list of pairs, so their order affects the hash.
        """
        content = self.to_dict()
        if "labels" in content:
            content["labels"] = list(self.definitions.items())
        text = json.dumps(
            [_FORMAT, content], ensure_ascii=False, sort_keys=False, separators=(",", ":")
        )
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return the content as JSON types, without unset fields."""
        content: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None or value == () or field.name == "_":
                continue
            content[field.name] = value
        if self.labels is not None:
            content["labels"] = self.definitions
        if self.scale is not None:
            content["scale"] = self.scale.to_dict()
            del content["labels"]
        if self.schema is not None:
            content["schema"] = json.loads(self.schema)
        if self.words is not None:
            content["words"] = dict(sorted(self.words.items()))
        if self.examples:
            content["examples"] = [_example_dict(example) for example in self.examples]
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Codebook:
        """Build a codebook from the result of `to_dict`.

        Raises:
            TypeError: See `Codebook`.
            ValueError: See `Codebook`; or `content` has an unknown field.
        """
        known = [field.name for field in fields(cls) if field.name != "_"]
        checks.known_fields(content, known, ("question",), "a codebook")
        return cls(**dict(content))

    def _checked_examples(self) -> tuple[Example, ...]:
        examples = self.examples
        if isinstance(examples, (str, Mapping)) or not isinstance(examples, Sequence):
            raise ArgumentTypeError(
                f"must be a list, not {checks.brief(examples)}", argument="examples"
            )
        checked = tuple(
            self._example(Argument("examples", (i,)), example)
            for i, example in enumerate(examples)
        )
        _check_contradictions([(example.text, example.label) for example in checked])
        return checked

    def _example(self, name: Argument, example: object) -> Example:
        if is_missing(example):
            raise ArgumentError(
                "is missing: it must have the fields text, label and perhaps reason",
                argument=name,
                code="missing",
            )
        if isinstance(example, Mapping):
            known = ("text", "label", "reason")
            example = {k: v for k, v in example.items() if not is_missing(v)}
            checks.known_fields(
                example, known, known[:2], "an example", lambda key: name.at(Field(key))
            )
            example = Example(example["text"], example["label"], example.get("reason"))
        elif isinstance(example, (tuple, list)) and len(example) in (2, 3):
            example = Example(*example)
        elif not isinstance(example, Example):
            raise ArgumentTypeError(
                "must have the fields text, label and perhaps reason, not "
                f"{checks.brief(example)}",
                argument=name,
            )
        reason, where = example.reason, name.at(Field("label"))
        text = checks.not_blank(name.at(Field("text")), example.text)
        label = self.kind.example_label(where, example.label, self._type_fields)
        self.kind.check_example(where, text, label)
        return Example(
            text=text,
            label=label,
            reason=None
            if reason is None
            else checks.not_blank(name.at(Field("reason")), reason),
        )

    def __str__(self) -> str:
        return "\n".join(page(self, most=MOST_ROWS))

    def __repr__(self) -> str:
        return f"<Codebook: {self.kind.summary} ({self.hash[:8]})>"


def page(codebook: Codebook, width: int = 72, most: int = 10**9) -> list[str]:
    """Return a codebook as lines of text that a person can read."""
    what = codebook.kind.summary
    lines = [f"<Codebook> {what} ({codebook.hash[:8]})", "", codebook.question]
    if codebook.system is not None:
        lines += ["", f"System: {codebook.system}"]
    if codebook.scale is not None:
        scale = codebook.scale
        lines += ["", f"Scale from {scale.low} to {scale.high} in steps of {scale.step}"]
        named = {str(number): name for number, name in scale.names.items()}
    else:
        lines += ["", "Labels"] if codebook.labels else []
        named = codebook.definitions
    wide = min(24, max(map(len, named), default=0))
    labels = [f"  {name:<{wide}}  {text}".rstrip() for name, text in named.items()]
    lines += first_rows(labels, most)
    if codebook.schema is not None:
        fields_of = _schema_lines(json.loads(codebook.schema))
        lines += ["", "Fields", *first_rows(fields_of, most)]
    if codebook.examples:
        example_lines = [_example_line(example, width) for example in codebook.examples]
        lines += [
            "",
            f"Examples ({len(codebook.examples)})",
            *first_rows(example_lines, most),
        ]
    note = codebook.fixed["told"]
    if note:
        lines += ["", note]
    return [part for line in lines for part in line.split("\n")]


def _check_contradictions(examples: Sequence[tuple[str, Any]]) -> None:
    """Check that no text has several labels; spaces and line breaks do not count."""
    known: dict[str, tuple[int, Any]] = {}
    for i, (text, label) in enumerate(examples):
        first, other = known.setdefault(" ".join(text.split()), (i, label))
        if _comparable(label) != _comparable(other):
            raise ArgumentError(
                f"has the text {checks.brief(text)} with two different labels, "
                f"{checks.brief(other)} (example {first + 1}) and {checks.brief(label)} "
                f"(example {i + 1}): keep one of them",
                argument="examples",
                code="contradiction",
            )


def _comparable(label: object) -> str:
    """Return a label as text; the order of several labels does not count."""
    parts = label if isinstance(label, list) else [label]
    return str(sorted(json.dumps(part, sort_keys=True) for part in parts))


def _example_line(example: Example, width: int) -> str:
    text = " ".join(example.text.split())
    excerpt = text if len(text) <= width else f"{text[: width - 3]}..."
    reason = "" if example.reason is None else f" ({example.reason})"
    return f"  {excerpt}\n    -> {shown_label(example.label)}{reason}"


def shown_label(label: object) -> str:
    """Return an example's label as text."""
    if isinstance(label, str):
        return label
    if isinstance(label, list):
        return JOINED.join(label)
    return json.dumps(label, ensure_ascii=False)


def _schema_lines(schema: Any) -> list[str]:  # JSON
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ["  any JSON"]
    return [
        f"  {name}: {json.dumps(field, ensure_ascii=False)}"
        for name, field in properties.items()
    ]


def _example_dict(example: Example) -> dict[str, Any]:
    content = {"text": example.text, "label": example.label}
    return content if example.reason is None else {**content, "reason": example.reason}


def checked_codebook(codebook: object) -> Codebook:
    """Return the codebook, or raise a TypeError that names the argument."""
    return checks.instance("codebook", codebook, Codebook, "a Codebook")


@cache
def fixed_words() -> dict[str, dict[str, str]]:
    """Return the fixed words of prompts by language and key, from `words.yaml`."""
    text = Path(__file__).with_name("words.yaml").read_text(encoding="utf-8")
    words: dict[str, dict[str, str]] = yaml.safe_load(text)
    return words


def words_of(
    language: str | None, user_words: Mapping[str, str] | None, more: Collection[str] = ()
) -> dict[str, str]:
    """Return all fixed words of a codebook; `more` are the keys that its type needs."""
    languages = fixed_words()
    keys = tuple(languages["en"])
    checked_words = dict(user_words or {})
    for key, word in checked_words.items():
        if key not in keys:
            raise ArgumentError(
                f"must have names among {', '.join(map(checks.quoted, keys))}, not "
                f"{checks.brief(key)}",
                argument="words",
                code="unknown_argument",
            )
        checked_words[key] = checks.text(Argument("words", (key,)), word)
    english = {key: languages["en"][key] for key in _OPTIONAL}
    defaults = languages.get(language or "en", english)
    words = {key: checked_words.get(key, defaults.get(key, "")) for key in keys}
    needed = [key for key in keys if key not in _OF_TYPES or key in more]
    missing = [key for key in needed if key not in checked_words and key not in defaults]
    if missing:
        raise ArgumentError(
            f"must be one of {', '.join(map(checks.quoted, languages))}, not "
            f"{checks.brief(language)}, unless words contains "
            f"{', '.join(map(checks.quoted, missing))}",
            argument="language",
            code="unknown_choice",
        )
    if language is None and "told" not in checked_words:
        words["told"] = ""
    return words
