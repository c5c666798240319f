"""Reads the runs of a results folder while they learn and afterwards; writes nothing."""
