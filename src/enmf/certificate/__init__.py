"""What is known about a pair of factors."""
