"""Descent methods, one file each, with a `step`; `enmf.run.loop` holds the only outer loop."""
