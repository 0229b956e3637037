"""Stand-in of the rehearsal machine for nvidia-smi: it answers from the loaded module, sysfs and running daemons."""

VERSION = "@VERSION@"
