"""What is minimized: X, its factors and what is known about them; and the validation of user input."""
