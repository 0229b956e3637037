// SPDX-License-Identifier: MIT OR GPL-2.0
/* REHEARSAL: the name and version of NVIDIA's mode setting module. */
#include <linux/module.h>

#include "common.h"

static int __init modeset_init(void)
{
	nvidia_get_rm_ops(NULL);
	return 0;
}

static void __exit modeset_exit(void)
{
}

int nvKmsKapiGetFunctionTable(void *table)
{
	return 0;
}
EXPORT_SYMBOL(nvKmsKapiGetFunctionTable);

module_init(modeset_init);
module_exit(modeset_exit);
MODULE_LICENSE(NV_LICENSE);
MODULE_VERSION(NV_VERSION);
MODULE_INFO(supported, "external");
