"""PushBlock."""
