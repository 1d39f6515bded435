"""Writes the table of docs/templates.md: the features of 70 chat templates.

    python scripts/docs_templates.py FOLDER [--snapshots]

FOLDER has the templates (scripts/fetch_templates.sh). With --snapshots, the ends of the
templates' prompts are also written to tests/python/chat/templates.json.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.calls.chat.messages import merged_system, with_thought
from llamaherd.calls.chat.renderer import Renderer
from llamaherd.calls.chat.thinking_format import ThinkingFormat, format_of
from llamaherd.calls.chat.tool_readers import tool_format_of
from llamaherd.engine.core.errors import ChatTemplateError

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))

import marked  # noqa: E402 - a module of that folder

SNAPSHOTS = ROOT / "tests/python/chat/templates.json"
MARK = "scripts/docs_templates.py writes this table"
_HEAD = (
    *("template", "thinks", "`thinking=False`", "`thinking=n`", "system"),
    *("two user turns", "tools", "calls", "prefill"),
)
_N_TAIL = 70  # number of characters of a prompt's end
_USER: dict[str, object] = {"role": "user", "content": "Quest7"}
_SYSTEM: dict[str, object] = {"role": "system", "content": "Sys7"}
_ANSWER: dict[str, object] = {"role": "assistant", "content": "Ans7"}
TOOLS: list[dict[str, object]] = [
    {
        "type": "function",
        "function": {
            "name": "tool7",
            "description": "Looks something up.",
            "parameters": {
                "type": "object",
                "properties": {"word": {"type": "string", "description": "A word."}},
                "required": ["word"],
            },
        },
    }
]


def renderer_of(
    source: str, variables: Mapping[str, object] | None = None, *, tools: object = None
) -> Renderer:
    """Return a renderer without a model, with a fixed date."""
    return Renderer(
        source,
        variables or {},
        bos="<s>",
        eos="</s>",
        day=dt.datetime(2026, 1, 1),  # noqa: DTZ001 - a date without a time
        mark=lambda text: text,
        tools=tools,
    )


def facts(source: str) -> dict[str, object]:
    """Return the features of a template: markers, switches, ends of prompts, refusals."""
    thinking = format_of(renderer_of(source))
    prompt = _prompt(source, [_USER])
    calls = tool_format_of(renderer_of(source))
    common: dict[str, object] = {
        "system": _system(source),
        "two_user_turns": _prompt(source, [_USER, _USER]) is not None,
        "tools": "tool7" in (_prompt(source, [_USER], tools=TOOLS) or ""),
        "calls": None if calls is None else calls.name,
        "prefill": _prefill(source, thinking),
        "default": _tail(prompt),
    }
    if thinking is None or prompt is None:
        return {"thinks": "no", **common}
    off = _prompt(source, [_USER], thinking.off) or prompt
    on = _prompt(source, [_USER], thinking.on) or prompt
    return {
        "thinks": _thinks(thinking, prompt),
        **common,
        "start": thinking.start,
        "end": thinking.end,
        "lead": thinking.lead,
        "after": thinking.after,
        "off": thinking.off,
        "on": thinking.on,
        "closed": _tail(thinking.close(off)),
        "closed_by_text": thinking.close(off) != off,
        "opened": _tail(thinking.open(on)),
        "opened_by_text": thinking.open(on) != on,
    }


def _thinks(thinking: ThinkingFormat, prompt: str) -> str:
    if thinking.state(prompt) == "open":
        return "always"
    return "it decides" if thinking.is_by_default else "if switched on"


def _prompt(
    source: str,
    messages: list[dict[str, object]],
    variables: Mapping[str, object] | None = None,
    *,
    tools: object = None,
    is_prompt: bool = True,
) -> str | None:
    renderer = renderer_of(source, variables, tools=tools)
    try:
        return renderer.render(messages, add_generation_prompt=is_prompt)
    except ChatTemplateError:
        return None


def _system(source: str) -> str:
    whole = _prompt(source, [_SYSTEM, _USER])
    if whole is not None:
        return "yes" if "Sys7" in whole else "ignored"
    merged = merged_system([_SYSTEM, _USER])
    is_merged = merged is not None and _prompt(source, merged) is not None
    return "merged" if is_merged else "no"


def _prefill(source: str, thinking: ThinkingFormat | None) -> bool:
    """Return True if a rendered conversation begins with its prompt, then the answer.

    The prompt is the same conversation rendered without the answer.
    """
    variables = thinking.off if thinking is not None else None
    prompt = _prompt(source, [_USER], variables) or ""
    fields = with_thought(_ANSWER, "") if thinking is not None else _ANSWER
    whole = _prompt(source, [_USER, {**fields}], variables, is_prompt=False) or ""
    closed = prompt if thinking is None else thinking.close(prompt)
    return bool(prompt) and whole.startswith((prompt + "Ans7", closed + "Ans7"))


def _tail(prompt: str | None) -> str | None:
    return None if prompt is None else prompt[-_N_TAIL:]


def all_facts(folder: Path) -> dict[str, dict[str, object]]:
    """Return the features of each template in a folder, by name."""
    return {
        path.stem: facts(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.jinja"))
    }


def table(templates: Mapping[str, Mapping[str, object]]) -> str:
    """Return the rows of the page: templates with the same facts share a row."""
    rows: dict[tuple[object, ...], list[str]] = {}
    for name, fields in templates.items():
        rows.setdefault(_cells(fields), []).append(name)
    lines = ([", ".join(names), *cells] for cells, names in rows.items())
    return marked.table(_HEAD, lines, len(_HEAD))


def _cells(fields: Mapping[str, object]) -> tuple[object, ...]:
    if fields["default"] is None:
        return ("refuses a plain question", *[""] * (len(_HEAD) - 2))
    off = _switched(fields, "off", "closed", without="")
    on = _switched(fields, "on", "opened", without="needs markers")
    turns, tools, prefill = (
        "yes" if fields[key] else "no" for key in ("two_user_turns", "tools", "prefill")
    )
    calls = fields["calls"] or ""
    return fields["thinks"], off, on, fields["system"], turns, tools, calls, prefill


def _switched(fields: Mapping[str, object], way: str, by_text: str, without: str) -> str:
    """Return how thinking is switched "on" or "off": variables, or a text of ours."""
    if fields["thinks"] == "no":
        return without
    values = fields[way]
    if isinstance(values, dict) and values:
        return ", ".join(f"`{name}={value!r}`" for name, value in values.items())
    return f"{by_text} by text" if fields[f"{by_text}_by_text"] else "as it is"


def main(argv: list[str]) -> None:
    """Write the page, and the snapshots."""
    templates = all_facts(Path(argv[0]))
    marked.write("docs/templates.md", {MARK: table(templates)})
    if "--snapshots" in argv:
        text = json.dumps(templates, indent=1, ensure_ascii=False)
        SNAPSHOTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
