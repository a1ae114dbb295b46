"""Configuration: compose conf/, build objects from it, check options, enter a command."""
