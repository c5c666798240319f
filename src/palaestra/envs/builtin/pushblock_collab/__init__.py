"""CooperativePushBlock."""
