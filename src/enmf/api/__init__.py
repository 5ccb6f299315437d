"""What users call: one file per verb, and the studies over many runs."""
