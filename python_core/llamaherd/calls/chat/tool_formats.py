"""Search for the format in which a chat template writes tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.calls.chat.template_cache import TemplateCache
from llamaherd.calls.chat.tool_calls import parse_tool_calls
from llamaherd.calls.chat.tool_readers import FORMATS
from llamaherd.engine.core.errors import ChatTemplateError

if TYPE_CHECKING:
    from llamaherd.calls.chat.renderer import Renderer
    from llamaherd.calls.chat.tool_calls import ToolFormat

_NAME, _ARGUMENTS = "look_up_7", {"word": "Ww7Ww"}
_ASKED: dict[str, object] = {"role": "user", "content": "Qq7Qq"}
_CALL: dict[str, object] = {
    "id": "call00001",
    "type": "function",
    "function": {"name": _NAME, "arguments": _ARGUMENTS},
}
_CALLED: dict[str, object] = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
_FORMATS: TemplateCache[str, ToolFormat | None] = TemplateCache()


def tool_format_of(renderer: Renderer) -> ToolFormat | None:
    """Find the format in which a template writes tool calls.

    The result is the first format whose reader can read back a call that the template
    wrote.

    Args:
        renderer: Renderer of the template.

    Returns:
        The format; None if the template writes no calls, or writes them in another
        format.
    """
    return _FORMATS.get(renderer.source, lambda: _found(renderer))


def _found(renderer: Renderer) -> ToolFormat | None:
    try:
        whole = renderer.probe({}).render([_ASKED, _CALLED], add_generation_prompt=False)
    except ChatTemplateError:
        return None
    answer = whole.rpartition("Qq7Qq")[2]
    for each in FORMATS:
        # For an answer that consists only of a call, the header of the turn comes
        # first.
        start = answer.find('{"name"') if each.name == "llama" else 0
        calls = parse_tool_calls(answer[max(0, start) :], each).calls
        if [(c.name, dict(c.arguments)) for c in calls] == [(_NAME, _ARGUMENTS)]:
            return each
    return None
