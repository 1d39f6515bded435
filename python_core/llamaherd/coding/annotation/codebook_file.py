"""Codebooks as YAML files, and the ready codebooks of the package.

Every value is read as text and not by its type in YAML, so a label called `no` is not
False. Only a schema and an example's fields have typed values. Tags, anchors and aliases
are refused, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from llamaherd.coding.annotation.codebook import Codebook, checked_codebook
from llamaherd.coding.references import REFERENCES
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Field, Place
from llamaherd.engine.core.errors import ArgumentError, BadArgumentError
from llamaherd.engine.core.files import check_kind, text_of_file, write_new
from llamaherd.engine.core.request import check_wanted

if TYPE_CHECKING:
    import os


_MAX_BYTES = 4_000_000
_MAX_DEPTH = 64
_Lines = dict[tuple["int | str", ...], int]  # line numbers, from 1, by path of a field
_TYPED = ("schema", "quote")  # fields with typed values


class _Dumper(yaml.SafeDumper):
    """YAML writer that indents lists and writes multi-line texts in block style."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists within mappings as well."""
        del indentless
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def codebook_yaml(codebook: Codebook) -> str:
    """Return a codebook as YAML; `codebook_of_yaml` reads it."""
    content = codebook.to_dict()
    labels = content.get("labels")
    if labels is not None and not any(labels.values()):
        content["labels"] = list(labels)
    return yaml.dump(
        content,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=88,
    )


def write_codebook(
    codebook: Codebook, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write a codebook to a YAML file.

    Args:
        codebook: Codebook.
        path: Path of the file.
        overwrite: Replace an existing file, which people may have edited.

    Raises:
        TypeError: `codebook` is not a codebook, or `path` is not a path.
        ValueError: The file exists with other content.
        OSError: The file cannot be written.
    """
    checked_codebook(codebook)
    checks.flag("overwrite", overwrite)
    file = checks.path("path", path)
    check_kind(file, ".yaml")
    write_new(file, codebook_yaml(codebook).encode(), overwrite=overwrite)


def read_codebook(path: str | os.PathLike[str]) -> Codebook:
    """Read a codebook from a YAML file.

    Raises:
        TypeError: `path` is not a path.
        OSError: The file cannot be read.
        ValueError: The file is not a codebook; the message names the file, the line and
            the field.
    """
    file = checks.path("path", path)
    if file.suffix.lower() == ".toml":
        raise ArgumentError(
            f"{file} is TOML, but a codebook is YAML: question: a text, labels: a label "
            "with its definition per line; `llamaherd codebooks ready sentiment` prints "
            "one",
            argument="path",
            code="wrong_type",
            form="{problem}",
        )
    if file.is_file() and file.stat().st_size > _MAX_BYTES:
        raise ArgumentError(
            f"{file} is larger than {_MAX_BYTES} bytes, the limit for a codebook",
            argument="path",
            code="too_many",
            form="{problem}",
        )
    return codebook_of_yaml(text_of_file("path", file), str(file))


def codebook_of_yaml(text: str, name: str = "the codebook") -> Codebook:
    """Build a codebook from YAML."""
    lines: _Lines = {}
    try:
        content = _parse_content(text, lines)
        return Codebook.from_dict(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        problem = f"this is not valid YAML: {error.problem or error.context}"
        raise ArgumentError(problem, code="invalid_yaml", file=name, line=line) from None
    except yaml.YAMLError as error:
        problem = f"this is not valid YAML: {error}"
        raise ArgumentError(problem, code="invalid_yaml", file=name) from None
    except BadArgumentError as error:
        line = error.line or _line_of((error.argument, *error.place), lines)
        raise ArgumentError.like(error, file=name, line=line) from None


def _line_of(path: Place, lines: _Lines) -> int | None:
    """Return the line of a field, or of its innermost existing parent."""
    around = (path[:n] for n in range(len(path), 0, -1))
    return next((lines[parent] for parent in around if parent in lines), None)


def _parse_content(text: str, lines: _Lines) -> dict[str, Any]:
    _refuse_tricks(text)
    node = yaml.compose(text, yaml.SafeLoader)
    if not isinstance(node, yaml.MappingNode):
        raise ArgumentError("a codebook is a mapping, with question and labels")
    content: dict[str, Any] = _value(node, (), lines)
    return content


def _refuse_tricks(text: str) -> None:
    """Refuse YAML that expands a small file or runs code."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        check_wanted()
        line = 0 if event.start_mark is None else event.start_mark.line + 1
        if getattr(event, "anchor", None) is not None:
            raise ArgumentError(
                "anchors and aliases (& and *) are not allowed", line=line
            )
        if getattr(event, "tag", None) is not None:
            raise ArgumentError("tags (!) are not allowed", line=line)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise ArgumentError(
                f"nested more than {_MAX_DEPTH} levels deep", code="too_many", line=line
            )


def _pairs(
    node: yaml.MappingNode, path_of_node: Place, lines: _Lines
) -> list[tuple[str, yaml.Node]]:
    seen: dict[str, yaml.Node] = {}
    for i, (key, value) in enumerate(node.value):
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ArgumentError("names must be texts", code="wrong_type", line=line)
        path = (*path_of_node, Field(key.value))
        if key.value in seen:
            raise ArgumentError(
                "occurs twice",
                argument=Argument(str(path[0]), path[1:]),
                code="duplicate",
                line=line,
            )
        by_number = (*path_of_node, i)
        lines[path] = lines[by_number] = line
        seen[key.value] = value
    return list(seen.items())


def _value(node: yaml.Node, path: Place, lines: _Lines, *, typed: bool = False) -> Any:
    """Convert a node to texts, or with `typed` to JSON; record the lines of fields."""
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [
            _value(part, (*path, i), lines, typed=typed)
            for i, part in enumerate(node.value)
        ]
    if isinstance(node, yaml.MappingNode):
        is_label = path[:1] == ("examples",) and path[2:] == ("label",)
        return {
            key: _value(
                part,
                (*path, Field(key)),
                lines,
                typed=typed or is_label or (not path and key in _TYPED),
            )
            for key, part in _pairs(node, path, lines)
        }
    if typed:
        return _typed_scalar(node)
    is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
    is_empty = is_plain and node.value in ("", "~", "null")
    return None if is_empty else node.value


def _typed_scalar(node: yaml.Node) -> Any:  # JSON
    """Convert a scalar of YAML to a JSON type."""
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_object(node)
        json.dumps(value)
    except TypeError as error:
        line = node.start_mark.line + 1
        problem = f"{error}: write it in quotes"
        raise ArgumentError(problem, code="wrong_type", line=line) from None
    finally:
        loader.dispose()
    return value


PREFIX = "ready:"
_FOLDER = Path(__file__).parent / "ready"
_TARGET = "{target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyCodebook:
    """Entry of the list of ready codebooks.

    Attributes:
        name: Name to pass to `ready_codebook`.
        about: Subject of the codebook, in a sentence.
        type: Type of the codebook.
        n_labels: Number of labels.
        needs_target: True if the codebook asks about a target that you have to name.
        sources: Short citations of the published works whose definitions the codebook
            follows.
        measured: Accuracy that a script of this project measured, in words; "not
            measured" if it was not measured.
    """

    name: str
    about: str
    type: str
    n_labels: int
    needs_target: bool
    sources: tuple[str, ...]
    measured: str


def ready_codebook(name: str, target: str | None = None) -> Codebook:
    """Return a ready codebook, written for this project from published definitions.

    Use the codebook as a starting point: adapt it to your texts, add examples, and
    measure its accuracy on human codes. `write_codebook` stores it as a file to edit.

    Args:
        name: Name of the codebook, see `list_ready_codebooks`.
        target: For "stance": object of the position, such as "nuclear energy".

    Raises:
        TypeError: An argument is not a string.
        ValueError: The name is unknown; or `target` is missing, or given for a codebook
            without a target.
    """
    checks.choice("name", name, tuple(_index()))
    needs = _needs_target(name)
    if needs and target is None:
        raise ArgumentError(
            f"must be given: {name} asks about a target, such as 'nuclear energy'",
            argument="target",
            code="missing",
        )
    if target is None:
        return _of_file(name)
    target = checks.not_blank("target", target)
    if not needs:
        raise ArgumentError(f"must be left out: {name} has no target", argument="target")
    content: Any = _replace_target(_of_file(name).to_dict(), target)
    return Codebook.from_dict(content)


def list_ready_codebooks() -> list[ReadyCodebook]:
    """List the ready codebooks, with their sources and measured accuracy."""
    return [
        ReadyCodebook(
            name=name,
            about=entry["about"],
            type=_of_file(name).type,
            n_labels=len(_of_file(name).names),
            needs_target=_needs_target(name),
            sources=tuple(REFERENCES[key].short for key in entry["sources"]),
            measured=_measured_accuracies().get(name, "not measured"),
        )
        for name, entry in _index().items()
    ]


def sources_of(codebook: Codebook) -> tuple[str, ...]:
    """Return keys of the references of a ready codebook, which may have other examples.

    The result is () for any other codebook.
    """
    for name, entry in _index().items():
        ready = _of_file(name)
        before, target, after = ready.question.partition(_TARGET)
        question = codebook.question
        is_same = _core(codebook) == _core(ready)
        if target:
            is_same = codebook.names == ready.names
            is_same = is_same and question.startswith(before) and question.endswith(after)
        if is_same:
            return tuple(entry["sources"])
    return ()


def codebook_from(source: str | Path) -> Codebook:
    """Read a codebook from a file, or return the ready codebook named by "ready:name"."""
    text = str(source)
    if not is_ready(text):
        return read_codebook(source)
    name, _, target = text.removeprefix(PREFIX).partition(":")
    return ready_codebook(name, target or None)


def is_ready(source: str) -> bool:
    """Return True if a source names a ready codebook ("ready:name"), not a file."""
    return source.startswith(PREFIX)


def ready_dicts() -> list[dict[str, Any]]:
    """Return the list of ready codebooks as rows of a table."""
    return [
        {**asdict(ready), "sources": "; ".join(ready.sources)}
        for ready in list_ready_codebooks()
    ]


@cache
def _index() -> dict[str, dict[str, Any]]:
    """Return the facts about each ready codebook, by name."""
    text = (_FOLDER / "index.yaml").read_text(encoding="utf-8")
    index: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return index


def _needs_target(name: str) -> bool:
    return _TARGET in _of_file(name).question


@cache
def _measured_accuracies() -> dict[str, str]:
    """Return the accuracy measured by benchmarks/ready_codebooks.py, by codebook."""
    text = (_FOLDER / "measured.json").read_text(encoding="utf-8")
    accuracies: dict[str, str] = json.loads(text)
    return accuracies


@cache
def _of_file(name: str) -> Codebook:
    file = _FOLDER / f"{name}.yaml"
    return codebook_of_yaml(file.read_text(encoding="utf-8"), file.name)


def _core(codebook: Codebook) -> tuple[object, ...]:
    return codebook.type, codebook.question, tuple(codebook.definitions.items())


def _replace_target(value: Any, target: str) -> Any:  # JSON
    """Replace the placeholder "{target}" in all texts of a JSON value."""
    if isinstance(value, dict):
        return {key: _replace_target(item, target) for key, item in value.items()}
    return value.replace(_TARGET, target) if isinstance(value, str) else value
