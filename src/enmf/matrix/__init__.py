"""The only rooms that know what X is. Everything else asks a `Matrix` for products."""
