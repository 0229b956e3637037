"""Stand-ins of NVIDIA's programs. They know the loaded module, sysfs, the packages' files and running daemons, nothing else."""
