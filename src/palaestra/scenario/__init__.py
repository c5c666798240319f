"""Environment parameters, curricula and self-play, independent of learning."""
