"""Plots: a series becomes a figure, a figure an SVG."""
