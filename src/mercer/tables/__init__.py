"""Raw tables: reading, what each column holds, coding to numbers."""
