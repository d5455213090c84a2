"""Grading a class: what was handed in, where results are kept, and who does the work."""
