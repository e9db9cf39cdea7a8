"""One agent, trained by several workers: who waits for whom is a scheme, where they live is a crew.

``crew`` is where workers, servers and replay live (here, or on Ray); ``clock`` says who is ready next; ``schemes`` and
``apex`` direct; ``server``, ``worker`` and ``replay`` do the work; ``trainer`` is what a training loop sees of it all.
``shared_rows`` is for agents without gradients, whose workers share environments alone.
"""

from hdrl.distributed.training.shared_rows import row_trainer
from hdrl.distributed.training.trainer import DistributedTrainer

__all__ = ["DistributedTrainer", "row_trainer"]
