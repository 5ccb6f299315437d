"""What can be minimized: one file per loss. `base.py` defines the interface of a loss."""
