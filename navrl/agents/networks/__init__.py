"""Networks built from specs."""
