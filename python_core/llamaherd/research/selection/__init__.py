"""Codebooks written, chosen and judged on different parts of a gold sample."""
