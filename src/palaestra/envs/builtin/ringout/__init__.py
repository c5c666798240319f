"""RingOut."""
