// SPDX-License-Identifier: MIT OR GPL-2.0
/* REHEARSAL: the name, version and parameters of NVIDIA's DRM module. */
#include <linux/module.h>

#include "common.h"

static bool modeset = true;
module_param(modeset, bool, 0400);
static bool fbdev = true;
module_param(fbdev, bool, 0400);

static int __init drm_init(void)
{
	return nvKmsKapiGetFunctionTable(NULL);
}

static void __exit drm_exit(void)
{
}

module_init(drm_init);
module_exit(drm_exit);
MODULE_LICENSE(NV_LICENSE);
MODULE_VERSION(NV_VERSION);
MODULE_INFO(supported, "external");
