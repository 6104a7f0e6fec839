"""Devices and Pods find each other: `check.py` is the check, the other files are its parts."""
