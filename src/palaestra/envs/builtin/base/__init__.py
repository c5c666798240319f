"""What all built-in environments share: columns on a device, and the tables that they make."""
