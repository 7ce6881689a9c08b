"""Measuring the machine at hand: its two roofs, real jobs under them, a real decoder."""
