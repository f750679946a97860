"""What a fitted model has to say, as a page."""
