"""Re-creates catalogs/efficiency from public kernel tables; see README.md. Not shipped."""
