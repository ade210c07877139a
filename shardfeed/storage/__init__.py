"""Where files are: this machine's disks."""
