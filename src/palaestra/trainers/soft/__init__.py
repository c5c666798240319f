"""Parts of soft actor-critic beside its trainer."""
