"""What this process was granted of the machine, and how it uses it: CPUs, memory, disk, processes, a Ray cluster."""
