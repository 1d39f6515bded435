"""Codebooks as YAML that people edit and compare.

Every value but those of a schema and of an example's fields is text, whatever YAML makes
of it elsewhere: a label called `no` is not False. Tags, anchors and aliases are refused,
so a file is no larger in memory than on the disk.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from llamaherd.core import checks
from llamaherd.research.coding.codebook import Codebook

if TYPE_CHECKING:
    import os

_MAX_BYTES = 4_000_000
_MAX_DEPTH = 64
_TYPED = ("schema",)  # fields whose values have types


class _Dumper(yaml.SafeDumper):
    """Lists indented, texts of several lines as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indents lists within mappings, too."""
        del indentless
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def codebook_yaml(codebook: Codebook) -> str:
    """A codebook as YAML; `codebook_of_yaml` reads it."""
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


def write_codebook(codebook: Codebook, path: str | os.PathLike[str]) -> None:
    """Writes a codebook to a YAML file, in place of one that is there.

    Raises:
        TypeError: `codebook` is none.
        OSError: The file cannot be written.
    """
    if not isinstance(codebook, Codebook):
        raise TypeError(f"codebook must be a Codebook, not {checks.shown(codebook)}")
    Path(path).write_text(codebook_yaml(codebook), encoding="utf-8", newline="\n")


def read_codebook(path: str | os.PathLike[str]) -> Codebook:
    """Reads a codebook that `write_codebook` or a person wrote.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no codebook; the message names the file, the line and the field.
    """
    file = Path(path)
    if file.stat().st_size > _MAX_BYTES:
        raise ValueError(f"{file} is larger than {_MAX_BYTES} bytes: no codebook")
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not in UTF-8: {error.reason}") from None
    return codebook_of_yaml(text, str(file))


def codebook_of_yaml(text: str, name: str = "the codebook") -> Codebook:
    """A codebook from YAML.

    Args:
        text: It is.
        name: What messages call it.

    Raises:
        ValueError: As `read_codebook`.
    """
    lines: dict[str, int] = {}
    try:
        content = _content(text, lines)
        return Codebook.from_dict(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f", line {mark.line + 1}"
        problem = error.problem or error.context
        raise ValueError(f"{name}{line}: this is no YAML: {problem}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{name}: this is no YAML: {error}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}{_line_of(str(error), lines)}: {error}") from None


def _line_of(message: str, lines: dict[str, int]) -> str:
    """Where the field is that a message begins with."""
    fitting = [field for field in lines if message.startswith(field)]
    return f", line {lines[max(fitting, key=len)]}" if fitting else ""


def _content(text: str, lines: dict[str, int]) -> dict[str, Any]:
    _refuse_tricks(text)
    node = yaml.compose(text, yaml.SafeLoader)
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("a codebook is a mapping, with question and labels")  # noqa: TRY004
    return {
        key: _typed(value) if key in _TYPED else _plain(value, key, lines)
        for key, value in _pairs(node, "", lines)
    }


def _refuse_tricks(text: str) -> None:
    """Refuses what makes a small file large, or runs code."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        line = 0 if event.start_mark is None else event.start_mark.line + 1
        if getattr(event, "anchor", None) is not None:
            raise ValueError(
                f"line {line}: anchors and aliases (& and *) are not allowed"
            )
        if getattr(event, "tag", None) is not None:
            raise ValueError(f"line {line}: tags (!) are not allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise ValueError(f"line {line}: nested more than {_MAX_DEPTH} levels deep")


def _pairs(
    node: yaml.MappingNode, place: str, lines: dict[str, int]
) -> list[tuple[str, yaml.Node]]:
    seen: dict[str, yaml.Node] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ValueError(f"line {line}: names must be texts")  # noqa: TRY004
        name = f"{place}.{key.value}" if place else key.value
        if key.value in seen:
            raise ValueError(f"line {line}: {name} is there twice")
        lines[name] = line
        seen[key.value] = value
    return list(seen.items())


def _plain(node: yaml.Node, place: str, lines: dict[str, int]) -> Any:  # noqa: ANN401
    """Texts, lists and mappings of texts; None for what is left empty."""
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        parts = enumerate(node.value)
        return [_plain(each, f"{place}[{i}]", lines) for i, each in parts]
    if isinstance(node, yaml.MappingNode):
        is_example = place.startswith("examples[") and place.endswith(".label")
        if is_example:
            return _typed(node)
        pairs = _pairs(node, place, lines)
        return {key: _plain(value, f"{place}.{key}", lines) for key, value in pairs}
    is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
    is_empty = is_plain and node.value in ("", "~", "null")
    return None if is_empty else node.value


def _typed(node: yaml.Node) -> Any:  # noqa: ANN401 - JSON
    """What YAML makes of it, as JSON has it."""
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_object(node, deep=True)
    finally:
        loader.dispose()
    try:
        return json.loads(json.dumps(value))
    except TypeError as error:
        line = node.start_mark.line + 1
        raise ValueError(f"line {line}: {error}: write it in quotes") from None
