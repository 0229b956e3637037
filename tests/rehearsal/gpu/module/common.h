/* SPDX-License-Identifier: MIT OR GPL-2.0 */
#ifndef NV_COMMON_H
#define NV_COMMON_H

#define NV_VERSION "@VERSION@"
/* 1: the open kernel module, 0: the proprietary one, which differs in its texts and its licence only. */
#define NV_OPEN 1

#if NV_OPEN
#define NV_TITLE "NVIDIA UNIX Open Kernel Module for x86_64  " NV_VERSION "  Release Build  (rehearsal@llmhw)"
#define NV_LICENSE "Dual MIT/GPL"
#else
#define NV_TITLE "NVIDIA UNIX x86_64 Kernel Module  " NV_VERSION
#define NV_LICENSE "NVIDIA"
#endif

int nvidia_get_rm_ops(void *ops);
int nvKmsKapiGetFunctionTable(void *table);

#endif
