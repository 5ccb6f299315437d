"""The one run: its options, loop, clock and limits."""
