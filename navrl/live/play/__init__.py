"""Games in the browser: a person flies in the simulator, or watches policies fly."""
