"""3DBall and 3DBallHard."""
