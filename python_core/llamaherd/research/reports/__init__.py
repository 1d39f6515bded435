"""Plots, reports, and running them again."""
