"""The tracker over Weights & Biases."""
