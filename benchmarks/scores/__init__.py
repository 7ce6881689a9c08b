"""How far are expectations from what was measured? ``python scorecard.py``, in ``benchmarks``."""
