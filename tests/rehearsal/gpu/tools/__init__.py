"""Stand-ins of NVIDIA's programs: they know the loaded module, sysfs, their package and running daemons only."""
