"""Parts of soft actor-critic, except its trainer."""
