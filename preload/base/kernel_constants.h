// Constants of the kernel that the headers of older systems do not have.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>

#ifndef MADV_WIPEONFORK  // Linux 4.14
#define MADV_WIPEONFORK 18
#endif
#ifndef MADV_POPULATE_READ  // Linux 5.14
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE  // Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif
#ifndef ARCH_SHSTK_STATUS  // Linux 6.6, x86-64
#define ARCH_SHSTK_STATUS 0x5005
#endif
