/* Calls back from a frame of FRAME bytes. Every variant's code is of the same length, so that one
   loaded in place of another has other frames at the same return addresses. */
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
__asm__(
#ifdef __aarch64__ /* whose frames are multiples of 16 bytes */
    ".text\n"
    ".globl plugin_call\n"
    ".type plugin_call, %function\n"
    "plugin_call:\n"
    ".cfi_startproc\n"
    "sub sp, sp, #(" TEXT(FRAME) " + 8)\n"
    ".cfi_adjust_cfa_offset " TEXT(FRAME) " + 8\n"
    "str x30, [sp]\n"
    ".cfi_rel_offset x30, 0\n"
    "blr x0\n"
    "ldr x30, [sp]\n"
    ".cfi_restore x30\n"
    "add sp, sp, #(" TEXT(FRAME) " + 8)\n"
    ".cfi_adjust_cfa_offset -(" TEXT(FRAME) " + 8)\n"
#else
    ".text\n"
    ".globl plugin_call\n"
    ".type plugin_call, %function\n"
    "plugin_call:\n"
    ".cfi_startproc\n"
    "sub $" TEXT(FRAME) ", %rsp\n"
    ".cfi_adjust_cfa_offset " TEXT(FRAME) "\n"
    "call *%rdi\n"
    "add $" TEXT(FRAME) ", %rsp\n"
    ".cfi_adjust_cfa_offset -" TEXT(FRAME) "\n"
#endif
    "ret\n"
    ".cfi_endproc\n"
    ".size plugin_call, .-plugin_call\n"
    ".section .note.GNU-stack, \"\", %progbits\n"
    ".text\n");
