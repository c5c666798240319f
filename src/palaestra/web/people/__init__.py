"""Page on which people play, alone or with others, against models, and record demonstrations."""
