"""Parts of soft actor-critic that settings switch on: its gradient step with batch statistics and values over bins."""
