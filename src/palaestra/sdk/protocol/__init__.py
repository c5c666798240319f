"""Game side of ML-Agents' wire protocol."""
