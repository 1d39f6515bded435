"""From prompts to tokens for all callers at once: models, schedule, loop, libllama."""
