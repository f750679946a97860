"""Class means in feature space."""
