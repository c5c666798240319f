"""Starts and ends other processes of Palaestra, and shares memory for tensors with them."""
