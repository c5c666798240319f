"""Pure functions of tensors: returns, and the losses of each algorithm."""
