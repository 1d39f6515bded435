"""Parts of the content of messages, in both APIs of OpenAI.

Clients send the parts of answers back, with fields that describe the answer.
"""

from __future__ import annotations

from llamaherd.core import checks
from llamaherd.server.errors import bad_field, unknown_field
from llamaherd.server.wording import JSON

# Field with the text of a part, by its type. `refusal` is the text with which a model
# refused to answer.
TEXT_OF = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
}
# Further fields of such parts, without an effect.
_UNUSED = frozenset({"type", "annotations", "logprobs", "cache_control"})


def joined(name: str, parts: list[object]) -> str:
    """Return the text of the content of a message that has several parts.

    Args:
        name: Path of the content.
        parts: The parts.

    Raises:
        ApiError: A part is invalid or has no text.
    """
    return "".join(_text_of(f"{name}[{i}]", part) for i, part in enumerate(parts))


def _text_of(name: str, part: object) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str):
        raise bad_field(name, f'{name} must be {{"type": "text", "text": "..."}}')
    if kind not in TEXT_OF:
        text = f"{name} is of type {JSON.literal(kind[:60])}: this model reads text only"
        raise bad_field(name, text)
    field = TEXT_OF[kind]
    for key, value in part.items():
        if key not in _UNUSED | {field} and value is not None:
            raise unknown_field(f"{name}.{key}")
    found = part.get(field)
    if not isinstance(found, str):
        shown = JSON.value(found, checks.shown(found))
        where = f"{name}.{field}"
        raise bad_field(where, f"{where} must be a string, not {shown}")
    return found
