"""Pages that a server of this machine shows while something happens: a training, a fight."""
