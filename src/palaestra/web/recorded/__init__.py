"""Page of demonstrations: the recordings, and training from them."""
