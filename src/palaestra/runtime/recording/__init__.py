"""Records trained agents as GIFs and videos: playing, drawing titles, encoding."""
