"""Files: reading, writing, and what is said about them."""
