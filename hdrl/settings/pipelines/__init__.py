"""Periodic pipelines of kernels on the CPU and GPU units of electronic control units, with deadlines.

A pipeline (a neural network that looks for lanes, say) is a graph of kernels; each kernel takes a known worst-case time
on a CPU and another one on a GPU, and some groups of kernels can be fused into one that takes less. Pipelines are
released again and again, and each instance has a deadline. The scheduler decides which ready kernel goes to which
unit, fused with how many that follow it. Units are not preempted. All times are whole microseconds.
"""
