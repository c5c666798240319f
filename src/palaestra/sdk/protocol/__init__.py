"""A game's side of the wire protocol."""
