"""The only package that knows how X is stored. Everything else asks a `Matrix` for products."""
