"""What all the rest may use: errors, files, hashes, random numbers; it imports nothing of ours."""
