"""Structured answers: JSON Schemas, enforced by token masks and a final check."""

from llamaherd.structured.prompt import schema_prompt
from llamaherd.structured.quoting import type_quote
from llamaherd.structured.shape import accepts, unenforced

__all__ = ["accepts", "schema_prompt", "type_quote", "unenforced"]
