"""What happens around learning: so far the settings of environment parameters, curricula and self-play."""
