"""Small modules written to break importers: each is what PyTorch makes of it, or refused by
name."""
