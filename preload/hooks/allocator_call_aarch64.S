// The same as allocator_call_x86_64.S, for aarch64.
        .text
        .globl  gpupeak_allocator_call
        .hidden gpupeak_allocator_call, gpupeak_allocator_left
        .type   gpupeak_allocator_call, %function
gpupeak_allocator_call:
        .cfi_startproc
        .cfi_personality 0x1b, gpupeak_allocator_left
        hint    #34                     // bti c
        stp     x29, x30, [sp, #-16]!
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov     x29, sp
        mov     x16, x0
        mov     x17, x1
        ldp     x0, x1, [x17]
        ldp     x2, x3, [x17, #16]
        ldp     x4, x5, [x17, #32]
        blr     x16
        ldp     x29, x30, [sp], #16
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        ret
        .cfi_endproc
        .size   gpupeak_allocator_call, .-gpupeak_allocator_call
        .section .note.GNU-stack,"",%progbits
