// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * REHEARSAL: the name and version of NVIDIA's peer memory module. As the vendor's, it refuses to load where the kernel
 * knows no peer memory clients, that is with the distribution's InfiniBand drivers.
 */
#include <linux/module.h>

#include "common.h"

static int __init peermem_init(void)
{
	nvidia_get_rm_ops(NULL);
	return -EINVAL;
}

static void __exit peermem_exit(void)
{
}

module_init(peermem_init);
module_exit(peermem_exit);
MODULE_LICENSE(NV_LICENSE);
MODULE_VERSION(NV_VERSION);
MODULE_INFO(supported, "external");
