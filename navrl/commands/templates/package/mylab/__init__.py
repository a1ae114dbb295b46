"""Parts for navrl."""
