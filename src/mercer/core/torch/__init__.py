"""Programs in torch's own operations, and their derivatives."""
