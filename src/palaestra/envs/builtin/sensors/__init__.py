"""Rays, grids and cameras in the plane."""
