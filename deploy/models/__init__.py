"""Changing the model registry: what a file says, whether it can be right, what it would do."""
