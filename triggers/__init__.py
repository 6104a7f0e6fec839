"""What starts an audit: every way in. Imports `functions`, never the other way round."""
