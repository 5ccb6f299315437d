"""Descent methods: one file each, a `step`; loop.py holds the only outer loop."""
