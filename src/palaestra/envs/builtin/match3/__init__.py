"""Match3."""
