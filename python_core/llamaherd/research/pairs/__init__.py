"""Comparisons of texts in pairs, and strengths from them."""
