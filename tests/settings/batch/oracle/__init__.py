"""An independent simulator in plain Python, against which the compiled one is measured."""
