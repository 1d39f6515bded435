"""Structured answers: JSON Schemas, enforced by token masks and a final check."""

from llamaherd.calls.structured.prompt import schema_prompt
from llamaherd.calls.structured.quoting import type_quote
from llamaherd.calls.structured.shape import accepts, unenforced

__all__ = ["accepts", "schema_prompt", "type_quote", "unenforced"]
