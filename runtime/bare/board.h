/* What the example asks of a board: a line to write on, an end, and a stack whose use is told. */
#ifndef TC_RUNTIME_BARE_BOARD_H_
#define TC_RUNTIME_BARE_BOARD_H_

void board_write(const char* text);
/* Ends the program, which had an error unless `failed` is 0. */
_Noreturn void board_finish(int failed);

/* The stack; whoever starts the program fills it with STACK_FILL. */
#define STACK_FILL 0x5a5a5a5aul
extern unsigned char stack_begin[], stack_end[];

/* The example itself; returns what board_finish() takes. */
int example_main(void);

#endif
