"""Looking at what was played: recordings, replay pages, films."""
