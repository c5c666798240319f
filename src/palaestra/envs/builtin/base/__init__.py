"""Parts that all built-in environments share: columns on a device, and the tables made from them."""
