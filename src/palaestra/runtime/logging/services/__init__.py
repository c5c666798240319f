"""Trackers over experiment-tracking services: Weights & Biases, MLflow and Trackio."""
