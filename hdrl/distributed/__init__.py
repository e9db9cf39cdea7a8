"""Work spread over processes: local ones, or a Ray cluster, behind one face."""
