"""The Kubernetes API: `source.py` is the source, the other files are its parts."""
