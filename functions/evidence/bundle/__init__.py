"""Bundles, read and written: recorded evidence that is judged without a cluster (docs/bundle.md)."""
