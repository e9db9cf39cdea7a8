"""A custom agent: first fit.

Starts every waiting job that fits, in the order of arrival, on the free cores with the lowest numbers. Unlike the
policy pairs it does not stop at the first job that does not fit.
"""

import numpy as np

from hdrl.batch import Start, View


def policy(view: View) -> list[Start]:
    """Return what to start now.

    Parameters
    ----------
    view
        What a scheduler sees.
    """
    node_of_core = view.platform.node_of_processor[view.platform.processor_of_core]
    free_cores, free_memory_mib = view.free_cores, view.free_memory_mib
    starts = []
    for job in view.waiting:
        request = view.workload.jobs[job]
        node = node_of_core[free_cores]
        # Each core of a job takes memory of its node: the first free core of a node needs room for one, and so on.
        place_in_node = np.arange(len(node)) - np.searchsorted(node, node)
        has_memory = (place_in_node + 1) * request["memory_mib"] <= free_memory_mib[node]
        cores = free_cores[has_memory][: request["cores"]]
        if len(cores) == request["cores"]:
            starts.append(Start(int(job), cores.tolist()))
            np.subtract.at(free_memory_mib, node_of_core[cores], request["memory_mib"])
            free_cores = np.setdiff1d(free_cores, cores, assume_unique=True)
    return starts
