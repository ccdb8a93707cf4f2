// void* malloc(size_t bytes); void free(void* block)
// Where the host's memory is not recorded these two are all that a program pays: they jump to the real ones. Else they
// jump to the functions that record, which have the frames that malloc and free would have: no compiler promises that.
        .hidden gpupeak_real_allocator, gpupeak_record_malloc, gpupeak_record_free, gpupeak_free_of_loader
        .hidden gpupeak_loader_begin, gpupeak_loader_bytes
        .set    PASSES, 1
        .set    MALLOC, 8
        .set    FREE, 16
        .text
        .p2align 4
        .globl  malloc
        .type   malloc, @function
malloc:
        .cfi_startproc
        endbr64
        cmpb    $0, gpupeak_real_allocator+PASSES(%rip)
        je      gpupeak_record_malloc
        jmp     *gpupeak_real_allocator+MALLOC(%rip)
        .cfi_endproc
        .size   malloc, .-malloc

        .p2align 4
        .globl  free
        .type   free, @function
free:
        .cfi_startproc
        endbr64
        movq    (%rsp), %rax
        subq    gpupeak_loader_begin(%rip), %rax
        cmpq    gpupeak_loader_bytes(%rip), %rax
        jb      gpupeak_free_of_loader
        cmpb    $0, gpupeak_real_allocator+PASSES(%rip)
        je      gpupeak_record_free
        jmp     *gpupeak_real_allocator+FREE(%rip)
        .cfi_endproc
        .size   free, .-free
        .section .note.GNU-stack,"",@progbits
