"""Read-only pages and JSON over what is stored. Nothing here changes anything."""
