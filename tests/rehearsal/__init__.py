"""The rehearsal virtual machine: a real Debian with GRUB, an initramfs and NVMe drives, without hardware."""
