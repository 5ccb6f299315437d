"""How factorizations relate: equivalence, and exact factorizations."""
