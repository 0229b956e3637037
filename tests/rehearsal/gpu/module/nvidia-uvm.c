// SPDX-License-Identifier: MIT OR GPL-2.0
/* REHEARSAL: the name, version and character device of NVIDIA's unified memory module. */
#include <linux/fs.h>
#include <linux/module.h>

#include "common.h"

static int major;
static int uvm_disable_hmm;
module_param(uvm_disable_hmm, int, 0444);

static const struct file_operations files = { .owner = THIS_MODULE };

static int __init uvm_init(void)
{
	nvidia_get_rm_ops(NULL);
	major = register_chrdev(0, "nvidia-uvm", &files);
	return major < 0 ? major : 0;
}

static void __exit uvm_exit(void)
{
	unregister_chrdev(major, "nvidia-uvm");
}

module_init(uvm_init);
module_exit(uvm_exit);
MODULE_LICENSE(NV_LICENSE);
MODULE_VERSION(NV_VERSION);
MODULE_INFO(supported, "external");
