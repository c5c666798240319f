"""Motion and contacts in the plane."""
