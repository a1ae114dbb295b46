"""The commands of `navrl`, one file each."""
