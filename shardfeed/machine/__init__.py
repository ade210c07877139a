"""Resources available to this process, and their use: CPUs, memory, disk, processes, a Ray cluster."""
