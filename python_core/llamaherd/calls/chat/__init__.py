"""Chat templates, messages, thoughts and tool calls."""
