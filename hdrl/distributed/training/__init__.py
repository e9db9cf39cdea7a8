"""One agent, trained by several workers: a scheme says how they wait for each other, a pool runs them.

``pool`` is where workers, servers and replay live (here, or on Ray); ``clock`` says who is ready next; ``schemes`` and
``apex`` direct; ``server``, ``worker`` and ``replay`` do the work; ``trainer`` is what a training loop sees of it all;
``configurations`` lets such trainings follow each other, one for each configuration of a load. ``shared_rows`` is for
agents without gradients, whose workers share environments alone.
"""

from hdrl.distributed.training.configurations import ConfigurationTrainer
from hdrl.distributed.training.shared_rows import row_trainer
from hdrl.distributed.training.trainer import DistributedTrainer

__all__ = ["ConfigurationTrainer", "DistributedTrainer", "row_trainer"]
