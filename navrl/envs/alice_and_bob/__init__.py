"""Two agents on a grid who open doors for each other."""
