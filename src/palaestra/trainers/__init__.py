"""Learning algorithms: `base` has the protocol, each other module one trainer or a part of it."""
