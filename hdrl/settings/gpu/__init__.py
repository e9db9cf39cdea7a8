"""GPU clusters: nodes with GPUs of several types, gangs, shares of GPUs, preemption, rounds."""
