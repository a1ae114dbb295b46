"""agent=hmasd: a team that chooses skills from time to time, and learns to tell them apart."""
