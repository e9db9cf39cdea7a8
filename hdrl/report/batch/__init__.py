"""What is drawn and told of runs of batch jobs: Batsim's files, cores, energy, shortages."""
