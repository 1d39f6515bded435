"""Plots: one description of each, drawn by matplotlib in Python and by ggplot2 in R."""
