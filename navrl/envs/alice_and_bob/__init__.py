"""Alice and Bob: agents on a grid that open doors for each other."""
