"""Analysis of pipelines without simulating them."""
