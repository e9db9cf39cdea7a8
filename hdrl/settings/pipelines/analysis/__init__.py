"""What can be said of pipelines without simulating them."""
