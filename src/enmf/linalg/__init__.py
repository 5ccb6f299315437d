"""Linear algebra shared by all packages."""
