"""CartPole."""
