#include "malloc_entry.inc"
        .section .text.hot,"ax",%progbits
        .p2align 4
        .globl  malloc
        .type   malloc, %function
malloc:
        .cfi_startproc
        hint    #34                     // bti c
        adrp    x16, gpupeak_malloc_entry
        add     x16, x16, :lo12:gpupeak_malloc_entry
        add     x17, x16, #PASSES
        ldarb   w17, [x17]
        cbz     w17, 1f
        ldr     x16, [x16, #MALLOC]
        br      x16
1:      b       gpupeak_record_malloc
        .cfi_endproc
        .size   malloc, .-malloc

        .p2align 4
        .globl  free
        .type   free, %function
free:
        .cfi_startproc
        hint    #34                     // bti c
        adrp    x16, gpupeak_malloc_entry
        add     x16, x16, :lo12:gpupeak_malloc_entry
        ldr     x17, [x16, #LOADER_BEGIN]
        sub     x17, x30, x17
        // x15 is free: the AAPCS lets a call change it
        ldr     x15, [x16, #LOADER_BYTES]
        cmp     x17, x15
        b.lo    2f
        add     x17, x16, #PASSES
        ldarb   w17, [x17]
        cbz     w17, 1f
        ldr     x16, [x16, #FREE]
        br      x16
1:      b       gpupeak_record_free
2:      b       gpupeak_free_of_loader
        .cfi_endproc
        .size   free, .-free
        .section .note.GNU-stack,"",%progbits
