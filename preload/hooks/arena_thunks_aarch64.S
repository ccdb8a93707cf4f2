// The same as arena_thunks_x86_64.S, for aarch64.
        .text
        .macro  load_arguments
        ldp     x0, x1, [sp]
        ldp     x2, x3, [sp, #16]
        ldp     x4, x5, [sp, #32]
        ldp     x6, x7, [sp, #48]
        ldr     x8, [sp, #64]
        ldp     q0, q1, [sp, #96]
        ldp     q2, q3, [sp, #128]
        ldp     q4, q5, [sp, #160]
        ldp     q6, q7, [sp, #192]
        .endm
        .macro  leave
        mov     sp, x29
        .cfi_def_cfa_register sp
        ldp     x29, x30, [sp], #16
        .cfi_def_cfa_offset 0
        .cfi_restore x29
        .cfi_restore x30
        .endm

        .type   gpupeak_arena_call, %function
gpupeak_arena_call:
        .cfi_startproc
        .cfi_personality 0x1b, gpupeak_arena_left
        .cfi_def_cfa x29, 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        stp     q0, q1, [sp, #96]
        stp     q2, q3, [sp, #128]
        stp     q4, q5, [sp, #160]
        stp     q6, q7, [sp, #192]
        mov     x0, sp
        bl      gpupeak_arena_before
        mov     x16, x0
        cbz     x1, 1f
        load_arguments
        sub     sp, sp, #128
        .irp    at, 0, 16, 32, 48, 64, 80, 96, 112
        ldp     x9, x10, [x29, #(16 + \at)]
        stp     x9, x10, [sp, #\at]
        .endr
        blr     x16
        add     sp, sp, #128
        stp     x0, x1, [sp, #80]
        stp     q0, q1, [sp, #96]
        stp     q2, q3, [sp, #128]
        mov     x0, sp
        bl      gpupeak_arena_after
        ldp     x0, x1, [sp, #80]
        ldp     q0, q1, [sp, #96]
        ldp     q2, q3, [sp, #128]
        .cfi_remember_state
        leave
        ret
        .cfi_restore_state
1:      load_arguments
        leave
        br      x16
        .cfi_endproc
        .size   gpupeak_arena_call, .-gpupeak_arena_call

        .macro  thunk table, function
        .type   gpupeak_arena_\table\()_\function, %function
gpupeak_arena_\table\()_\function:
        .cfi_startproc
        hint    #34                     // bti c
        stp     x29, x30, [sp, #-16]!
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov     x29, sp
        .cfi_def_cfa_register x29
        sub     sp, sp, #224            // ArenaCall; its end is the stored x29 and x30
        stp     x0, x1, [sp]
        stp     x2, x3, [sp, #16]
        stp     x4, x5, [sp, #32]
        stp     x6, x7, [sp, #48]
        mov     x9, #(\table * 6 + \function)
        stp     x8, x9, [sp, #64]
        b       gpupeak_arena_call
        .cfi_endproc
        .size   gpupeak_arena_\table\()_\function, .-gpupeak_arena_\table\()_\function
        .endm

#include "arena_thunks.inc"
