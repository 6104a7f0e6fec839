"""Channels: where messages go. A channel says whether a message arrived, may arrive later, or never will."""
