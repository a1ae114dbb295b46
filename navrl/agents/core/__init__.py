"""Shared by all algorithms: objective, minibatches, gradients, optimizer, guards."""
