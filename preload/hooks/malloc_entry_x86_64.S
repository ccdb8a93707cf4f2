#include "malloc_entry.inc"
        .section .text.hot,"ax",@progbits
        .p2align 4
        .globl  malloc
        .type   malloc, @function
malloc:
        .cfi_startproc
        endbr64
        cmpb    $0, gpupeak_malloc_entry+PASSES(%rip)
        je      gpupeak_record_malloc
        jmp     *gpupeak_malloc_entry+MALLOC(%rip)
        .cfi_endproc
        .size   malloc, .-malloc

        .p2align 4
        .globl  free
        .type   free, @function
free:
        .cfi_startproc
        endbr64
        movq    (%rsp), %rax
        subq    gpupeak_malloc_entry+LOADER_BEGIN(%rip), %rax
        cmpq    gpupeak_malloc_entry+LOADER_BYTES(%rip), %rax
        jb      gpupeak_free_of_loader
        cmpb    $0, gpupeak_malloc_entry+PASSES(%rip)
        je      gpupeak_record_free
        jmp     *gpupeak_malloc_entry+FREE(%rip)
        .cfi_endproc
        .size   free, .-free
        .section .note.GNU-stack,"",@progbits
