"""Nouns that every part shares. This package imports nothing else of the project."""
