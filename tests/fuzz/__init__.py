"""Bad inputs: files that come with hdrl, mutated, and what each command makes of them."""
