"""Plots, reports, and reproduction of reports."""
