"""Page of demonstrations: what was recorded, and training from it."""
