"""What is said about an audit: pure functions from reports to decisions and texts. No clock, no client."""
