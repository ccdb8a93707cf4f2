// void* malloc(size_t bytes); void free(void* block)
// Where the host's memory is not recorded these two are all that a program pays: they jump to the real ones. Else they
// jump to the functions that record, which have the frames that malloc and free would have: no compiler promises that.
        .hidden gpupeak_malloc_entry, gpupeak_record_malloc, gpupeak_record_free, gpupeak_free_of_loader
        .set    PASSES, 1
        .set    MALLOC, 8
        .set    FREE, 16
        .set    LOADER_BEGIN, 24
        .set    LOADER_BYTES, 32
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
