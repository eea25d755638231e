"""Generating text with language models."""
