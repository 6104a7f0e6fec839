"""Prometheus and servers that speak its API: `source.py` is the source, the other files are its parts."""
