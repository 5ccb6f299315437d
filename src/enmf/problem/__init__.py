"""What is minimized: X, its factors, what is known about them; and the validation of user input."""
