"""Recordings of episodes, replay pages, pictures, films, and reports of runs."""
