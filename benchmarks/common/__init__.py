"""What the benchmarks share: measuring, inputs, and the tables that they print. Nothing here is run by itself."""
