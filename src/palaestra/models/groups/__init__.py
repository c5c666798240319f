"""The critic of MA-POCA."""
