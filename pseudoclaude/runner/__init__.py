"""One agent's run: its conversation on disk, and the turns that carry it on."""
