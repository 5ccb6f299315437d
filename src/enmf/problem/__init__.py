"""What is minimized: X, its factors, what is known about them; and the one door for user input."""
