"""One run: its agent, its inputs, its folder, its files, and where they come from."""
