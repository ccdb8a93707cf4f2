// void* dlsym(void* handle, const char* name)
// Asks gpupeak_decide_dlsym. Then it either returns the answer, or jumps to the real dlsym with
// nothing changed: not the arguments, not the stack, and not the return address, by which dlsym
// knows its caller.
        .text
        .globl  dlsym
        .type   dlsym, %function
dlsym:
        .cfi_startproc
        hint    #34                     // bti c
        stp     x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset x29, -32
        .cfi_offset x30, -24
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        mov     x2, x30
        bl      gpupeak_decide_dlsym
        mov     x16, x1
        cbnz    x16, 1f
        ldp     x29, x30, [sp], #32
        .cfi_remember_state
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        ret
        .cfi_restore_state
1:      ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        br      x16
        .cfi_endproc
        .size   dlsym, .-dlsym
        .section .note.GNU-stack,"",%progbits
