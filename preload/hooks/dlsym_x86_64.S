// void* dlsym(void* handle, const char* name)
// Asks gpupeak_decide_dlsym. Then it either returns the answer, or jumps to the real dlsym with
// nothing changed: not the arguments, not the stack, and not the return address, by which dlsym
// knows its caller.
        .text
        .globl  dlsym
        .type   dlsym, @function
dlsym:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        movq    24(%rsp), %rdx
        call    gpupeak_decide_dlsym@PLT
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rdx, %rdx
        jnz     1f
        ret
1:      jmp     *%rdx
        .cfi_endproc
        .size   dlsym, .-dlsym
        .section .note.GNU-stack,"",@progbits
