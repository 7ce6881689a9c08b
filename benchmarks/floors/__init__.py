"""Does any honest measurement beat its floor? ``python -m floors FOLDER``, in ``benchmarks``."""
