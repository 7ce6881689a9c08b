"""Parameters of vision and audio towers and of what joins them to a decoder."""
