"""Names, labels, types and units over a change: `check.py` is the check, the other files are its parts."""
