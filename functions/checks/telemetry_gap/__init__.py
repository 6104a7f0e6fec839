"""Telemetry gaps: `check.py` is the check, the other files are its parts."""
