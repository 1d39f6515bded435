"""Reading and writing codebooks as YAML files.

Every value is read as text and not by its type in YAML, so a label called `no` is not
False. Only a schema and an example's fields have typed values. Tags, anchors and aliases
are refused, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from llamaherd.core import checks
from llamaherd.core.argument import Argument, Field
from llamaherd.core.errors import ArgumentError, BadArgumentError
from llamaherd.core.files import write_new
from llamaherd.core.preparing import check_wanted
from llamaherd.research.coding.codebook import Codebook, checked_codebook

if TYPE_CHECKING:
    import os

    from llamaherd.core.argument import Place

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
    content = codebook_yaml(codebook).encode()
    write_new(checks.path("path", path), content, overwrite=overwrite)


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
    if file.stat().st_size > _MAX_BYTES:
        raise ArgumentError(
            f"{file} is larger than {_MAX_BYTES} bytes, the limit for a codebook",
            argument="path",
            code="too_many",
            form="{problem}",
        )
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArgumentError(
            f"{file} is not in UTF-8: {error.reason}",
            argument="path",
            code="not_unicode",
            form="{problem}",
        ) from None
    return codebook_of_yaml(text, str(file))


def codebook_of_yaml(text: str, name: str = "the codebook") -> Codebook:
    """Build a codebook from YAML.

    Args:
        text: YAML text.
        name: Name of the text in messages.
    """
    lines: _Lines = {}
    try:
        content = _content(text, lines)
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
    return next((lines[each] for each in around if each in lines), None)


def _content(text: str, lines: _Lines) -> dict[str, Any]:
    _refuse_tricks(text)
    node = yaml.compose(text, yaml.SafeLoader)
    if not isinstance(node, yaml.MappingNode):
        raise ArgumentError("a codebook is a mapping, with question and labels")
    return {
        key: _typed(value) if key in _TYPED else _plain(value, (key,), lines)
        for key, value in _pairs(node, (), lines)
    }


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


def _check_keys(node: yaml.Node) -> None:
    """Check that no mapping in a typed value has a key twice; PyYAML keeps the last."""
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _check_keys(each)
    if isinstance(node, yaml.MappingNode):
        seen: set[object] = set()
        for key, value in node.value:
            _check_keys(value)
            if not isinstance(key, yaml.ScalarNode):
                continue  # PyYAML refuses it
            if key.value in seen:
                raise ArgumentError(
                    f"the key {checks.quoted(key.value)} occurs twice",
                    code="duplicate",
                    line=key.start_mark.line + 1,
                )
            seen.add(key.value)


def _plain(node: yaml.Node, path_of_node: Place, lines: _Lines) -> Any:  # noqa: ANN401
    """Convert a node to texts, lists and mappings of texts; None for empty values."""
    lines.setdefault(path_of_node, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        parts = enumerate(node.value)
        return [_plain(each, (*path_of_node, i), lines) for i, each in parts]
    if isinstance(node, yaml.MappingNode):
        if path_of_node[0] == "examples" and path_of_node[2:] == ("label",):
            return _typed(node)
        pairs = _pairs(node, path_of_node, lines)
        return {
            key: _plain(value, (*path_of_node, Field(key)), lines) for key, value in pairs
        }
    is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
    is_empty = is_plain and node.value in ("", "~", "null")
    return None if is_empty else node.value


def _typed(node: yaml.Node) -> Any:  # noqa: ANN401 - JSON
    """Convert a value of YAML to JSON types."""
    _check_keys(node)
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_object(node, deep=True)
    finally:
        loader.dispose()
    try:
        return json.loads(json.dumps(value))
    except TypeError as error:
        line = node.start_mark.line + 1
        problem = f"{error}: write it in quotes"
        raise ArgumentError(problem, code="wrong_type", line=line) from None
