"""Bodies of normalized residual blocks."""
