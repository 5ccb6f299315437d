"""X in blocks of rows, on this machine or on workers, and rows that live with them."""
