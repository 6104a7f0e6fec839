"""What an audit does: evidence, checks, store, reports. Never imports `triggers`."""
