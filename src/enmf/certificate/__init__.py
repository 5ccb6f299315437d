"""Certificates: what can be said about a pair of factors."""
