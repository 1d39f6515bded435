"""Answers that follow a JSON Schema: what of it is enforced, and what is checked."""

from llamaherd.structured.prompt import schema_prompt
from llamaherd.structured.shape import accepts, unenforced

__all__ = ["accepts", "schema_prompt", "unenforced"]
