/* What the example needs from a board: a serial line to write to, a way to end, and a stack whose use can be
 * measured. */
#ifndef TC_RUNTIME_BARE_BOARD_H_
#define TC_RUNTIME_BARE_BOARD_H_

void board_write(const char* text);
/* Ends the program, with an error unless `failed` is 0. */
_Noreturn void board_finish(int failed);

/* The stack. The code that starts the program fills it with STACK_FILL. */
#define STACK_FILL 0x5a5a5a5aul
extern unsigned char stack_begin[], stack_end[];

/* The example itself; its result is the argument for board_finish(). */
int example_main(void);

#endif
