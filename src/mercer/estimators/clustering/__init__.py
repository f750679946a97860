"""Class means and clusters in feature space."""
