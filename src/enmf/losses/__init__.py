"""What can be minimized: one file per loss. `base.py` says what a loss has to offer."""
