"""Learning from rows that arrive in batches, with a certificate after every one of them."""
