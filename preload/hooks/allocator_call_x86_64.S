// uintptr_t gpupeak_allocator_call(void* function, const uintptr_t arguments[6])
// Calls an allocator's function. An exception that leaves the function (operator new's
// std::bad_alloc) passes this frame, and gpupeak_allocator_left is called.
        .text
        .globl  gpupeak_allocator_call
        .hidden gpupeak_allocator_call, gpupeak_allocator_left
        .type   gpupeak_allocator_call, @function
gpupeak_allocator_call:
        .cfi_startproc
        .cfi_personality 0x1b, gpupeak_allocator_left
        endbr64
        subq    $8, %rsp
        .cfi_def_cfa_offset 16
        movq    %rdi, %rax
        movq    %rsi, %r10
        movq    0(%r10), %rdi
        movq    8(%r10), %rsi
        movq    16(%r10), %rdx
        movq    24(%r10), %rcx
        movq    32(%r10), %r8
        movq    40(%r10), %r9
        call    *%rax
        addq    $8, %rsp
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc
        .size   gpupeak_allocator_call, .-gpupeak_allocator_call
        .section .note.GNU-stack,"",@progbits
