// The thunks in place of an arena's functions. A thunk asks gpupeak_arena_before for the real
// function. Then it either jumps to that function with nothing changed; or it calls the function
// with all registers that can hold an argument and with sixteen words of arguments on the stack,
// notes the result, and returns all registers that can hold one. If the function is not what it is
// taken for, a figure is wrong, and nothing else. Exceptions pass, and are noted.
        .text
        .macro  save_vectors
        .irp    n, 0, 1, 2, 3, 4, 5, 6, 7
        movups  %xmm\n, (64 + 16 * \n)(%rsp)
        .endr
        .endm
        .macro  load_arguments
        movq    0(%rsp), %rdi
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdx
        movq    24(%rsp), %rcx
        movq    32(%rsp), %r8
        movq    40(%rsp), %r9
        movq    56(%rsp), %rax
        .irp    n, 0, 1, 2, 3, 4, 5, 6, 7
        movups  (64 + 16 * \n)(%rsp), %xmm\n
        .endr
        .endm

        .type   gpupeak_arena_call, @function
gpupeak_arena_call:
        .cfi_startproc
        .cfi_personality 0x1b, gpupeak_arena_left
        .cfi_def_cfa %rbp, 16
        .cfi_offset %rbp, -16
        save_vectors
        movq    %rsp, %rdi
        call    gpupeak_arena_before@PLT
        movq    %rax, %r11
        testq   %rdx, %rdx
        jz      1f
        load_arguments
        subq    $128, %rsp
        .irp    at, 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120
        movq    (16 + \at)(%rbp), %r10
        movq    %r10, \at(%rsp)
        .endr
        call    *%r11
        addq    $128, %rsp
        movq    %rax, 56(%rsp)
        movq    %rdx, 16(%rsp)
        movups  %xmm0, 64(%rsp)
        movups  %xmm1, 80(%rsp)
        movq    %rsp, %rdi
        call    gpupeak_arena_after@PLT
        movq    56(%rsp), %rax
        movq    16(%rsp), %rdx
        movups  64(%rsp), %xmm0
        movups  80(%rsp), %xmm1
        .cfi_remember_state
        leave
        .cfi_def_cfa %rsp, 8
        .cfi_restore %rbp
        ret
        .cfi_restore_state
1:      load_arguments
        leave
        .cfi_def_cfa %rsp, 8
        .cfi_restore %rbp
        jmp     *%r11
        .cfi_endproc
        .size   gpupeak_arena_call, .-gpupeak_arena_call

        .macro  thunk table, function
        .type   gpupeak_arena_\table\()_\function, @function
gpupeak_arena_\table\()_\function:
        .cfi_startproc
        endbr64
        pushq   %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register %rbp
        subq    $192, %rsp              // ArenaCall; its end is the pushed rbp and return address
        movq    %rdi, 0(%rsp)
        movq    %rsi, 8(%rsp)
        movq    %rdx, 16(%rsp)
        movq    %rcx, 24(%rsp)
        movq    %r8, 32(%rsp)
        movq    %r9, 40(%rsp)
        movq    $(\table * 6 + \function), 48(%rsp)
        movq    %rax, 56(%rsp)
        jmp     gpupeak_arena_call
        .cfi_endproc
        .size   gpupeak_arena_\table\()_\function, .-gpupeak_arena_\table\()_\function
        .endm

#include "arena_thunks.inc"
