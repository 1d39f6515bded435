"""Comparisons of texts in pairs, and the strengths estimated from them."""
