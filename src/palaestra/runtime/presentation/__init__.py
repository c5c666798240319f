"""How results show themselves: as text, in a notebook, as data frames."""
