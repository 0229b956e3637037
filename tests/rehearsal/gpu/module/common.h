/* SPDX-License-Identifier: MIT OR GPL-2.0 */
#ifndef NV_COMMON_H
#define NV_COMMON_H

#define NV_VERSION "@VERSION@"

int nvidia_get_rm_ops(void *ops);
int nvKmsKapiGetFunctionTable(void *table);

#endif
