"""Validation of user input: every check and conversion, every message for bad input. Nothing is checked again later."""
